// A fast 128-bit digest of bytes: 256 independent lanes of 32 bits, folded at the end. Not cryptographic.
#pragma once
#include "vectors.h"

namespace ASSAY_ISA {

constexpr size_t kDigestLanes = 256;

static inline uint64_t key_of(uint64_t i) {  // splitmix64
  uint64_t z = (i + 1) * 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

// Mixes whole steps into the lanes, which stay in registers if vectors are wide enough.
static inline void mix(uint32_t* state, const uint8_t* from, size_t steps) {
  constexpr int kVectors = kDigestLanes / kLanes<uint32_t>;
  Vec<uint32_t> lanes[kVectors];
  std::memcpy(lanes, state, sizeof lanes);
  for (size_t step = 0; step < steps; ++step, from += sizeof lanes)
#pragma GCC unroll 64
    for (int k = 0; k < kVectors; ++k) {
      const Vec<uint32_t> v = (lanes[k] ^ load<uint32_t>(from + k * sizeof lanes[k])) * 0x9e3779b1u;
      lanes[k] = v << 13 | v >> 19;
    }
  std::memcpy(state, lanes, sizeof lanes);
}

static void digest(const uint8_t* data, size_t bytes, uint64_t* two) {
  constexpr size_t kStep = 4 * kDigestLanes;
  uint32_t state[kDigestLanes] = {};
  const size_t steps = bytes / kStep, left = bytes % kStep;
  mix(state, data, steps);
  if (left) {
    uint8_t padded[kStep] = {};
    std::memcpy(padded, data + steps * kStep, left);
    mix(state, padded, 1);
  }
  two[0] = two[1] = bytes;
  for (size_t lane = 0; lane < kDigestLanes; ++lane) {
    two[0] += state[lane] * key_of(2 * lane);
    two[1] += state[lane] * key_of(2 * lane + 1);
  }
}

}  // namespace ASSAY_ISA
