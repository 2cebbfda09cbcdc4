// Row-wise statistics: integer quantization error per row and per group, n:m sparsity, norms; counts interleaved.
#pragma once
#include <limits>
#include <type_traits>

#include "count.h"
#if defined(__AVX512DQ__)
#include <immintrin.h>
#endif

namespace ASSAY_ISA {

constexpr size_t kFlushGroups = 64;  // narrow sums are flushed to doubles after this many groups

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

// The largest magnitude, as a pattern, of the group at `from`, which has min(left, kGroup) values; kFinite ignores
// non-finite values.
template <class S, bool kFinite> static inline typename S::Raw peak_of(const typename S::Raw* from, size_t left) {
  using Order = typename S::Order;
  constexpr Order kLimit = Order(S::kInfinity);
  if (left >= kGroup) {
    Vec<Order> high{};
    for (size_t i = 0; i < kGroup; i += kLanes<Order>) {
      const Vec<Order> magnitude = load<Order>(from + i) & Order(kMagnitude<S>);
      high = larger(high, kFinite ? magnitude < kLimit ? magnitude : Vec<Order>{} : magnitude);
    }
    return largest_of<Order>(high);
  }
  Order peak = 0;
  for (size_t i = 0; i < left; ++i) {
    const Order magnitude = Order(from[i] & kMagnitude<S>);
    peak = magnitude > peak && (!kFinite || magnitude < kLimit) ? magnitude : peak;
  }
  return peak;
}

// The largest magnitude of each group of a row, and of the whole row as a pattern.
template <class S> struct Peaks {
  typename S::Real* groups;
  typename S::Raw whole;
  template <bool kFinite> inline void take(const typename S::Raw* row, size_t cols, size_t group) {
    const auto peak = peak_of<S, kFinite>(row + group * kGroup, cols - group * kGroup);
    groups[group] = S::value(peak);
    whole = peak > whole ? peak : whole;
  }
  template <bool kFinite> void take_all(const typename S::Raw* row, size_t cols) {
    whole = 0;
    for (size_t g = 0; g * kGroup < cols; ++g) take<kFinite>(row, cols, g);
  }
};

// The values of a block whose magnitudes have patterns from `least` and below `limit`; the others become zero.
template <class T, class Int> static inline void keep_between(Int least, Int limit, Vec<T>* x) {
#pragma GCC unroll 8
  for (int k = 0; k < 8; ++k) {
    const Vec<Int> magnitude = (Vec<Int>)x[k] & Int(~typename Bits<T>::Unsigned(0) >> 1);
    x[k] = (Vec<T>)((Vec<Int>)x[k] & (magnitude >= least) & (magnitude < limit));
  }
}

// Loads a block with non-finite values as zero.
template <class S> static inline void load8_finite(const typename S::Raw* from, Vec<typename S::Real>* x) {
  using T = typename S::Real;
  S::load8(from, x);
  keep_between<T>(typename Bits<T>::Signed(0), bit_cast<typename Bits<T>::Signed>(S::value(S::kInfinity)), x);
}

template <class T> static inline void multiply(T factor, Vec<T>* x) {
#pragma GCC unroll 8
  for (int k = 0; k < 8; ++k) x[k] *= factor;
}

// Adds the squares of a block times `unit`. A square that underflows still shows that its column is not zero.
template <class T> static inline void add_wide_squares(const Vec<T>* x, double unit, double* sums) {
  constexpr int kBlock = 8 * kLanes<T>;
  T values[kBlock];
  std::memcpy(values, x, sizeof values);
  for (int j = 0; j < kBlock; ++j) {
    const double value = values[j] * unit, square = value * value;
    sums[j] += sizeof(T) == 8 && value != 0 && square < __DBL_DENORM_MIN__ ? __DBL_DENORM_MIN__ : square;
  }
}

// What all rows of a pass share. Column sums are in block order.
template <class S> struct Pass {
  size_t cols;
  Tally tally;
  typename S::Real* narrow;  // sums of the columns of ordinary rows
  double* wide;              // and of others
};

// Adds one row; if kColumns, also its squares to those of the columns. A hard row may have non-finite values, which count
// as zero; its sums are those of the row times `scale`. Computes the peaks of the next row at the same time, because
// counting leaves the vector units idle.
template <class S, bool kColumns, bool kHard>
static RowSums add_row(const Pass<S>& pass, const typename S::Raw* row, const Peaks<S>& peaks, typename S::Real scale,
                       const typename S::Raw* next, Peaks<S>& next_peaks) {
  using T = typename S::Real;
  constexpr int kN = kLanes<T>;
  constexpr size_t kBlock = 8 * kN;
  constexpr int kPart = kN * sizeof *row < 8 ? 8 : kN * sizeof *row;  // bytes to count at once
  const Tally tally = pass.tally;
  T* const narrow = pass.narrow;
  double* const wide = pass.wide;
  const size_t cols = pass.cols, groups = (cols + kGroup - 1) / kGroup;
  RowSums sums;
  const Scale<T> whole(scale * S::value(peaks.whole));
  // Values far below the peak add nothing, but as denormal numbers they would take long to multiply.
  using Int = typename Bits<T>::Signed;
  const T up = scale > 1 ? scale : 1, down = scale < 1 ? scale : 1;
  const Int least = bit_cast<Int>(S::value(peaks.whole) * up * T(sizeof(T) == 4 ? 0x1p-40 : 0x1p-400));
  next_peaks.whole = 0;
  for (size_t start = 0; start < groups; start += kFlushGroups) {
    const size_t stop = start + kFlushGroups < groups ? start + kFlushGroups : groups;
    Vec<T> energy{}, error8{}, error4{}, grouped8{}, grouped4{};
    Kept<T> kept;
    const size_t whole_stop = stop * kGroup <= cols ? stop : stop - 1;
    Spread<S> spread(row + start * kGroup, whole_stop - start);
    const auto add_group = [&](auto counting, const typename S::Raw* from, size_t g) __attribute__((always_inline)) {
      const char* counted = decltype(counting)::value ? spread.prepare(from) : nullptr;
      for (size_t line = 0; next && line < kGroup * sizeof *from; line += 64)
        __builtin_prefetch(reinterpret_cast<const char*>(next + cols + g * kGroup) + line);
      const Scale<T> own(scale * peaks.groups[g]);
      Vec<T> group8{}, group4{};
      for (size_t b = 0; b < kGroup; b += kBlock) {
        Vec<T> x[8];
        if constexpr (kHard) {
          load8_finite<S>(from + b, x);
          multiply<T>(up, x);
          if (kColumns) add_wide_squares<T>(x, 1 / double(up), wide + g * kGroup + b);
          keep_between<T>(least, std::numeric_limits<Int>::max(), x);
          multiply<T>(down, x);
        } else {
          S::load8(from + b, x);
        }
#pragma GCC unroll 8
        for (int k = 0; k < 8; ++k) {
          if (S::kRounded) {
            error8 += rounding<T>(x[k], whole.inverse8);
            error4 += rounding<T>(x[k], whole.inverse4);
            group8 += rounding<T>(x[k], own.inverse8);
            group4 += rounding<T>(x[k], own.inverse4);
          }
          const Vec<T> square = x[k] * x[k];
          energy += square;
          if (kColumns && !kHard) {
            T* place = narrow + g * kGroup + b + k * kN;
            store(place, load<T>(place) + square);
          }
          const size_t at = b * sizeof *from + k * kN * sizeof *from;
          if (decltype(counting)::value && at % kPart == 0) count_part<S, kPart>(counted + at, tally);
        }
        kept.add(x);
      }
      if (S::kRounded) {
        if (next) next_peaks.template take<false>(next, cols, g);
        grouped8 += group8 * T(own.square8);
        grouped4 += group4 * T(own.square4);
      }
    };
    for (size_t g = start; g < whole_stop; ++g) add_group(std::true_type{}, row + g * kGroup, g);
    if (whole_stop < stop) {
      const size_t left = cols - whole_stop * kGroup;
      typename S::Raw padded[kGroup] = {};
      std::memcpy(padded, row + whole_stop * kGroup, left * sizeof *row);
      count_rest<S>(padded, left, tally);
      add_group(std::false_type{}, padded, whole_stop);
    }
    spread.settle(tally);
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
  return sums;
}

}  // namespace ASSAY_ISA
