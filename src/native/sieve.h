// Finds the values with requested prefixes and counts low halfwords.
#pragma once
#include "kernel.h"
#include "vectors.h"
#if defined(__AVX512DQ__)
#include <immintrin.h>
#endif

namespace ASSAY_ISA {
using namespace assay;

template <class Raw> struct Refiner {
  RefineJob& job;
  uint32_t* next;  // position of the next match
  explicit Refiner(RefineJob& job) : job(job), next(job.matches) {}
  inline void find(Raw raw) {
    constexpr int kTop = 8 * sizeof(Raw) - 16;
    const uint32_t slot = job.slots[raw >> kTop];
    if (sizeof(Raw) == 4) {
      next = note(job.prefixes[slot], uint32_t(raw & 0xffff), job.edges, next);
    } else if (slot) {
      const uint64_t bits = uint64_t(raw) >> (job.shift + 16);
      for (size_t i = slot; i <= job.prefix_count && job.prefixes[i].bits <= bits; ++i)
        if (job.prefixes[i].bits == bits) next = note(job.prefixes[i], uint32_t(raw >> job.shift & 0xffff), job.edges, next);
    }
  }
  // Branches only for a second edge: whether a value matches cannot be predicted.
  static inline uint32_t* note(const Prefix& prefix, uint32_t half, Edge* edges, uint32_t* next) {
    *next = prefix.list << 16 | half;
    Edge* edge = edges + prefix.edge;
    edge->count += half - edge->low < edge->span;
    for (uint32_t e = 1; e < prefix.edges; ++e) ++edge, edge->count += half - edge->low < edge->span;
    return next + (prefix.list != 0);
  }
  inline void step(Raw raw) {
    find(raw);
    if (job.planes) count(raw, job.planes);
  }
  static inline void count(Raw raw, uint32_t* planes) {
    for (int plane = 0; plane < int(sizeof(Raw) / 2 - 1); ++plane)
      ++planes[plane * 65536 + (raw >> 16 * plane & 0xffff)];
  }
};

// The scalar work per value that runs alongside the vectorised error sums, and the work after each part.
template <class Raw> struct Sifted {
  Refiner<Raw>& refiner;
  explicit Sifted(Refiner<Raw>& refiner) : refiner(refiner) {}
  inline void step(Raw raw) { Refiner<Raw>::count(raw, refiner.job.planes); }
  void finish(const Raw* from, size_t count) {
    for (size_t i = 0; i < count; ++i) refiner.find(from[i]);
  }
};

#if defined(__AVX512DQ__)
// With wide vectors only counting is scalar. A sieve with one bit per sign and lower ten bits of the top halfword rejects
// most values without a requested prefix; only the rest are looked up.
template <> struct Sifted<uint32_t> {
  static constexpr size_t kRoom = 4096;
  Refiner<uint32_t>& refiner;
  uint32_t* planes;
  uint32_t bits[2][32] = {}, passed[kRoom + 16];
  explicit Sifted(Refiner<uint32_t>& refiner) : refiner(refiner), planes(refiner.job.planes) {
    for (size_t i = 1; i <= refiner.job.prefix_count; ++i) {
      const auto top = uint32_t(refiner.job.prefixes[i].bits);
      bits[top >> 15 & 1][top >> 5 & 31] |= 1u << (top & 31);
    }
  }
  inline void step(uint32_t raw) { Refiner<uint32_t>::count(raw, planes); }
  // `count` must be at most kRoom.
  void finish(const uint32_t* from, size_t count) {
    const __m512i plus_low = _mm512_loadu_si512(bits[0]), plus_high = _mm512_loadu_si512(bits[0] + 16);
    const __m512i minus_low = _mm512_loadu_si512(bits[1]), minus_high = _mm512_loadu_si512(bits[1] + 16);
    const __m512i one = _mm512_set1_epi32(1);
    size_t i = 0, left = 0;
    for (; i + 16 <= count; i += 16) {
      const __m512i raw = _mm512_loadu_si512(from + i);
      const __m512i place = _mm512_srli_epi32(raw, 21), plus = _mm512_permutex2var_epi32(plus_low, place, plus_high);
      const __m512i minus = _mm512_permutex2var_epi32(minus_low, place, minus_high);
      const __m512i row = _mm512_mask_mov_epi32(plus, _mm512_movepi32_mask(raw), minus);
      const __mmask16 kept = _mm512_test_epi32_mask(_mm512_rorv_epi32(row, _mm512_srli_epi32(raw, 16)), one);
      _mm512_storeu_si512(passed + left, _mm512_maskz_compress_epi32(kept, raw));
      left += size_t(__builtin_popcount(kept));
    }
    for (; i < count; ++i) passed[left++] = from[i];
    const RefineJob job = refiner.job;
    uint32_t* next = refiner.next;
    for (size_t k = 0; k < left; ++k) {
      const Prefix& prefix = job.prefixes[job.slots[passed[k] >> 16]];
      next = Refiner<uint32_t>::note(prefix, passed[k] & 0xffff, job.edges, next);
    }
    refiner.next = next;
  }
};
#endif

}  // namespace ASSAY_ISA
