// Row-wise statistics: integer quantization error per row and per group, n:m sparsity, norms; counts interleaved.
#pragma once
#include <type_traits>

#include "formats.h"
#if defined(__AVX512DQ__)
#include <immintrin.h>
#endif

namespace ASSAY_ISA {

constexpr size_t kGroup = 128;
constexpr size_t kFlushGroups = 64;  // narrow sums are flushed to doubles after this many groups
constexpr size_t kFlushRows = 64;    // and narrow column sums after this many rows

struct RowSums {
  double energy = 0, error8_row = 0, error4_row = 0, error8_group = 0, error4_group = 0;
  double kept_1_4 = 0, kept_2_4 = 0, kept_4_8 = 0;
};

template <class T> constexpr T kNegligible = T(sizeof(T) == 4 ? 0x1p-100 : 0x1p-1000);

template <class T> struct Scale {
  Vec<T> inverse8, inverse4;
  double square8, square4;
  explicit Scale(T peak) {
    // The error of a group this far below its row is too small to change a double.
    const T inverse = peak > kNegligible<T> ? T(1) / peak : T(0);
    inverse8 = splat<T>(127 * inverse);
    inverse4 = splat<T>(7 * inverse);
    square8 = double(peak) * double(peak) * (1.0 / (127 * 127));
    square4 = double(peak) * double(peak) * (1.0 / (7 * 7));
  }
};

template <class T> constexpr T kRounder = T(3) * T(uint64_t(1) << (Bits<T>::kMantissa - 1));

// The squared distance from x·inverse to the nearest integer.
template <class T> static inline Vec<T> rounding(Vec<T> x, Vec<T> inverse) {
  const Vec<T> shifted = x * inverse + kRounder<T>;
  const Vec<T> d = x * inverse - (shifted - kRounder<T>);
  return d * d;
}

#if defined(__AVX512DQ__)
// A single instruction gives the error of rounding to an integer.
template <> inline Vec<float> rounding<float>(Vec<float> x, Vec<float> inverse) {
  const Vec<float> d = (Vec<float>)_mm512_reduce_ps((__m512)(x * inverse), 0x08);
  return d * d;
}
#endif

template <class V> static inline void exchange(V& a, V& b) {
  const V high = larger(a, b);
  b = smaller(a, b);
  a = high;
}
template <class V> static inline void sort4(V* v) {
  exchange(v[0], v[1]), exchange(v[2], v[3]), exchange(v[0], v[2]), exchange(v[1], v[3]), exchange(v[1], v[2]);
}

template <class T> struct Kept {
  Vec<T> first{}, second{}, four_of_eight{};
  inline void add(const Vec<T>* x) {
    using Int = typename Bits<T>::Signed;
    Vec<Int> m[8];
    for (int k = 0; k < 8; ++k) m[k] = (Vec<Int>)x[k] & Int(~typename Bits<T>::Unsigned(0) >> 1);
    sort4(m), sort4(m + 4);
    const auto square = [](Vec<Int> v) { return (Vec<T>)v * (Vec<T>)v; };
    first += square(m[0]), first += square(m[4]);
    second += square(m[1]), second += square(m[5]);
    for (int k = 0; k < 4; ++k) four_of_eight += square(larger(m[k], m[7 - k]));
  }
};

struct Tally {
  uint32_t *even, *odd;  // two tables, so that equal neighbours do not stall each other
};

// Counts kCount values; loads whole words and shifts them, because loads are the bottleneck.
template <class S, int kCount> static inline void count_part(const uint16_t* halves, Tally tally) {
  constexpr int kPerWord = 4 / S::kCountStride, kBit = 16 * S::kCountOffset, kStep = 16 * S::kCountStride;
#pragma GCC unroll 16
  for (int i = 0; i < kCount; i += kPerWord) {
    uint64_t word;
    std::memcpy(&word, halves + i * S::kCountStride, sizeof word);
#pragma GCC unroll 4
    for (int k = 0; k < kPerWord; ++k) ++((i + k) & 1 ? tally.odd : tally.even)[word >> (kBit + k * kStep) & 0xffff];
  }
}

// The largest magnitude, as a pattern, of the group at `from`, which has min(left, kGroup) values.
template <class S> static inline typename S::Order peak_of(const typename S::Raw* from, size_t left) {
  using Order = typename S::Order;
  if (left >= kGroup) {
    Vec<Order> high{};
    for (size_t i = 0; i < kGroup; i += kLanes<Order>) high = larger(high, load<Order>(from + i) & Order(kMagnitude<S>));
    return largest_of<Order>(high);
  }
  Order peak = 0;
  for (size_t i = 0; i < left; ++i) {
    const Order magnitude = Order(from[i] & kMagnitude<S>);
    peak = magnitude > peak ? magnitude : peak;
  }
  return peak;
}

// The largest magnitude of each group of a row, and of the whole row as a pattern.
template <class S> struct Peaks {
  typename S::Real* groups;
  typename S::Raw whole;
  inline void take(const typename S::Raw* row, size_t cols, size_t group) {
    const auto peak = typename S::Raw(peak_of<S>(row + group * kGroup, cols - group * kGroup));
    groups[group] = S::value(peak);
    whole = peak > whole ? peak : whole;
  }
  void take_all(const typename S::Raw* row, size_t cols) {
    whole = 0;
    for (size_t g = 0; g * kGroup < cols; ++g) take(row, cols, g);
  }
};

// Adds one row; if kColumns, also adds the squares to `columns` in block order. Computes the peaks of the next row at the
// same time, because counting leaves the vector units idle.
template <class S, bool kCount, bool kColumns>
static void add_row(const typename S::Raw* row, size_t cols, const Peaks<S>& peaks, Tally tally,
                    typename S::Real* columns, RowSums& sums, const typename S::Raw* next, Peaks<S>& next_peaks) {
  using T = typename S::Real;
  constexpr int kN = kLanes<T>;
  constexpr size_t kBlock = 8 * kN;
  const Scale<T> whole(S::value(peaks.whole));
  next_peaks.whole = 0;
  const size_t groups = (cols + kGroup - 1) / kGroup;
  for (size_t start = 0; start < groups; start += kFlushGroups) {
    const size_t stop = start + kFlushGroups < groups ? start + kFlushGroups : groups;
    Vec<T> energy{}, error8{}, error4{}, grouped8{}, grouped4{};
    Kept<T> kept;
    for (size_t g = start; g < stop; ++g) {
      const typename S::Raw* from = row + g * kGroup;
      typename S::Raw padded[kGroup];
      const bool whole_group = cols - g * kGroup >= kGroup;
      if (!whole_group) {
        const size_t left = cols - g * kGroup;
        std::memset(padded, 0, sizeof padded);
        std::memcpy(padded, from, left * sizeof *from);
        const uint16_t* halves = reinterpret_cast<const uint16_t*>(from);
        if (kCount)
          for (size_t i = 0; i < left; ++i) ++tally.even[halves[i * S::kCountStride + S::kCountOffset]];
        from = padded;
      }
      for (size_t line = 0; next && line < kGroup * sizeof *from; line += 64)
        __builtin_prefetch(reinterpret_cast<const char*>(next + cols + g * kGroup) + line);
      const Scale<T> own(peaks.groups[g]);
      Vec<T> group8{}, group4{};
      const bool counting = kCount && whole_group;
      const auto block = [&](auto count_here, const typename S::Raw* at, size_t position) __attribute__((always_inline)) {
        Vec<T> x[8];
        S::load8(at, x);
        const uint16_t* halves = reinterpret_cast<const uint16_t*>(at);
#pragma GCC unroll 8
        for (int k = 0; k < 8; ++k) {
          error8 += rounding<T>(x[k], whole.inverse8);
          error4 += rounding<T>(x[k], whole.inverse4);
          group8 += rounding<T>(x[k], own.inverse8);
          group4 += rounding<T>(x[k], own.inverse4);
          const Vec<T> square = x[k] * x[k];
          energy += square;
          if (kColumns) {
            T* place = columns + position + k * kN;
            store(place, load<T>(place) + square);
          }
          if (decltype(count_here)::value) {
            count_part<S, kN>(halves + k * kN * S::kCountStride, tally);
          }
        }
        kept.add(x);
      };
      for (size_t b = 0; b < kGroup; b += kBlock) {
        if (counting) block(std::true_type{}, from + b, g * kGroup + b);
        else block(std::false_type{}, from + b, g * kGroup + b);
      }
      if (next) next_peaks.take(next, cols, g);
      grouped8 += group8 * T(own.square8);
      grouped4 += group4 * T(own.square4);
    }
    sums.energy += sum_of<T>(energy);
    sums.error8_row += sum_of<T>(error8) * whole.square8;
    sums.error4_row += sum_of<T>(error4) * whole.square4;
    sums.error8_group += sum_of<T>(grouped8);
    sums.error4_group += sum_of<T>(grouped4);
    const double first = sum_of<T>(kept.first);
    sums.kept_1_4 += first;
    sums.kept_2_4 += first + sum_of<T>(kept.second);
    sums.kept_4_8 += sum_of<T>(kept.four_of_eight);
  }
}

}  // namespace ASSAY_ISA
