// A fast 128-bit digest of bytes: 1,024 independent lanes of 32 bits, folded at the end. Not cryptographic.
#pragma once
#include "vectors.h"

namespace ASSAY_ISA {

constexpr size_t kDigestLanes = 1024;

static inline uint64_t key_of(uint64_t i) {  // splitmix64
  uint64_t z = (i + 1) * 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

static inline void mix(uint32_t* state, const uint8_t* from) {
  for (size_t i = 0; i < kDigestLanes; i += kLanes<uint32_t>) {
    const Vec<uint32_t> v = (load<uint32_t>(state + i) ^ load<uint32_t>(from + 4 * i)) * 0x9e3779b1u;
    store(state + i, v << 13 | v >> 19);
  }
}

static void digest(const uint8_t* data, size_t bytes, uint64_t* two) {
  constexpr size_t kStep = 4 * kDigestLanes;
  uint32_t state[kDigestLanes] = {};
  size_t i = 0;
  for (; i + kStep <= bytes; i += kStep) mix(state, data + i);
  if (i < bytes) {
    uint8_t padded[kStep] = {};
    std::memcpy(padded, data + i, bytes - i);
    mix(state, padded);
  }
  two[0] = two[1] = bytes;
  for (size_t lane = 0; lane < kDigestLanes; ++lane) {
    two[0] += state[lane] * key_of(2 * lane);
    two[1] += state[lane] * key_of(2 * lane + 1);
  }
}

}  // namespace ASSAY_ISA
