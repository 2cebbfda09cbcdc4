// Finding the values behind wanted prefixes, and counting low halfwords on the way.
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
  size_t found = 0;
  inline void find(Raw raw) {
    constexpr int kTop = 8 * sizeof(Raw) - 16;
    const uint32_t slot = job.slots[raw >> kTop];
    if (sizeof(Raw) == 4) {
      job.found[found] = slot << 16 | uint32_t(raw & 0xffff);
      found += slot != 0;
    } else if (slot) {
      const uint64_t prefix = uint64_t(raw) >> (job.shift + 16);
      for (size_t i = slot - 1; i < job.prefix_count && job.prefixes[i] <= prefix; ++i)
        if (job.prefixes[i] == prefix) job.found[found++] = uint32_t(i + 1) << 16 | uint32_t(raw >> job.shift & 0xffff);
    }
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

// What runs beside the errors' vectors, value by value, and what is left to do once a tile is through.
template <class Raw> struct Sifted {
  Refiner<Raw>& refiner;
  explicit Sifted(Refiner<Raw>& refiner) : refiner(refiner) {}
  inline void step(Raw raw) { refiner.step(raw); }
  inline void finish(const Raw*, size_t) {}
};

#if defined(__AVX512DQ__)
// With wide vectors only counting is left to scalars. Most values behind no wanted prefix fall through a sieve of one
// bit for each of the lower ten bits of a top halfword; the few others are looked up.
template <> struct Sifted<uint32_t> {
  static constexpr size_t kRoom = 4096;
  Refiner<uint32_t>& refiner;
  uint32_t* planes;
  uint32_t bits[32] = {}, passed[kRoom + 16];
  explicit Sifted(Refiner<uint32_t>& refiner) : refiner(refiner), planes(refiner.job.planes) {
    for (uint32_t top = 0; top < 65536; ++top)
      if (refiner.job.slots[top]) bits[top >> 5 & 31] |= 1u << (top & 31);
  }
  inline void step(uint32_t raw) { Refiner<uint32_t>::count(raw, planes); }
  void finish(const uint32_t* from, size_t count) {
    for (size_t i = 0; i < count; i += kRoom) sift(from + i, count - i < kRoom ? count - i : kRoom);
  }
  void sift(const uint32_t* from, size_t count) {
    const __m512i low = _mm512_loadu_si512(bits), high = _mm512_loadu_si512(bits + 16), one = _mm512_set1_epi32(1);
    size_t i = 0, left = 0;
    for (; i + 16 <= count; i += 16) {
      const __m512i raw = _mm512_loadu_si512(from + i);
      const __m512i row = _mm512_permutex2var_epi32(low, _mm512_srli_epi32(raw, 21), high);
      const __mmask16 kept = _mm512_test_epi32_mask(_mm512_rorv_epi32(row, _mm512_srli_epi32(raw, 16)), one);
      _mm512_storeu_si512(passed + left, _mm512_maskz_compress_epi32(kept, raw));
      left += size_t(__builtin_popcount(kept));
    }
    for (size_t k = 0; k < left; ++k) refiner.find(passed[k]);
    for (; i < count; ++i) refiner.find(from[i]);
  }
};
#endif

}  // namespace ASSAY_ISA
