// The refining pass: matches of requested prefixes, counts of the low halfwords, and per-tensor rounding errors.
#pragma once
#include "kernel.h"
#include "rows.h"
#include "sieve.h"

namespace ASSAY_ISA {
using namespace assay;

// x rounded (ties to even) to a float with kMantissaBits mantissa bits and the smallest normal exponent kLeastExponent.
template <class T, int kMantissaBits, int kLeastExponent> static inline Vec<T> rounded(Vec<T> x) {
  using B = Bits<T>;
  using Int = typename B::Signed;
  constexpr Int kExponents = Int(2 * B::kBias + 1) << B::kMantissa;
  constexpr Int kLeast = Int(kLeastExponent + B::kBias) << B::kMantissa;
  constexpr Int kUp = (Int(B::kMantissa - kMantissaBits) << B::kMantissa) + (Int(1) << (B::kMantissa - 1));
  const Vec<T> shift = (Vec<T>)(larger((Vec<Int>)x & kExponents, splat<Int>(kLeast)) + kUp);
  return (x + shift) - shift;
}

// Adds the squares of values whose magnitude is at least `edge`.
template <class T>
static inline Vec<T> add_from(Vec<T> sum, Vec<T> square, Vec<typename Bits<T>::Signed> magnitude,
                              Vec<typename Bits<T>::Signed> edge) {
  using Ints = Vec<typename Bits<T>::Signed>;
  return sum + (Vec<T>)((Ints)square & (Ints)(magnitude >= edge));
}
#if defined(__AVX512DQ__)
template <>
inline Vec<float> add_from<float>(Vec<float> sum, Vec<float> square, Vec<int32_t> magnitude, Vec<int32_t> edge) {
  const __mmask16 kept = _mm512_cmp_epi32_mask((__m512i)magnitude, (__m512i)edge, _MM_CMPINT_NLT);
  return (Vec<float>)_mm512_mask_add_ps((__m512)sum, kept, (__m512)sum, (__m512)square);
}
#endif

// The error of rounding to bfloat16; for ties the size of the error is the same in both directions.
template <class T> static inline Vec<T> bfloat16_error(Vec<T> x) { return x - rounded<T, 7, -126>(x); }
template <> inline Vec<float> bfloat16_error<float>(Vec<float> x) {
  return x - (Vec<float>)(((Vec<int32_t>)x + 0x8000) & int32_t(0xffff0000));
}

template <class T> struct ErrorSums {
  using Int = typename Bits<T>::Signed;
  Vec<T> inverse[7], float8_scale;
  Vec<Int> edges[kPrunePoints];
  double unit[7], float8_unit;
  Vec<T> bits[7], float8[2], bf16, above[kPrunePoints];

  explicit ErrorSums(const ErrorJob& job) {
    for (int b = 0; b < 7; ++b) {
      const double levels = (1 << (b + 1)) - 1;
      inverse[b] = splat<T>(job.peak > 0 ? T(levels / job.peak) : T(0));
      unit[b] = job.peak / levels;
    }
    float8_scale = splat<T>(job.peak > 0 ? T(448 / job.peak) : T(0)), float8_unit = job.peak / 448;
    for (int e = 0; e < kPrunePoints; ++e) edges[e] = splat<Int>(bit_cast<Int>(T(job.edges[e])));
    clear();
  }
  void clear() {
    for (auto& v : bits) v = Vec<T>{};
    for (auto& v : above) v = Vec<T>{};
    float8[0] = float8[1] = bf16 = Vec<T>{};
  }
  // Adds vectors in three rounds, each with sums that fit in registers. Each round passes a share of the values to
  // `steps`, so that scalar and vector instructions run in parallel.
  template <class Steps> inline void add(const T* x, size_t vectors, Steps& steps) {
    constexpr int kN = kLanes<T>;
    add_bits(x, vectors, [&](size_t v) __attribute__((always_inline)) { pass_on<0, kN / 2>(x + v * kN, steps); });
    add_casts(x, vectors, [&](size_t v) __attribute__((always_inline)) { pass_on<kN / 2, kN * 3 / 4>(x + v * kN, steps); });
    add_above(x, vectors, [&](size_t v) __attribute__((always_inline)) { pass_on<kN * 3 / 4, kN>(x + v * kN, steps); });
  }
  template <int kFrom, int kTo, class Steps> static inline void pass_on(const T* x, Steps& steps) {
#pragma GCC unroll 8
    for (int k = kFrom; k < kTo; ++k) steps.step(bit_cast<typename Bits<T>::Unsigned>(x[k]));
  }
  template <class Scalar> inline void add_bits(const T* x, size_t vectors, const Scalar& scalar) {
    Vec<T> sums[7];
    for (int b = 0; b < 7; ++b) sums[b] = bits[b];
    for (size_t v = 0; v < vectors; ++v) {
      const Vec<T> here = load<T>(x + v * kLanes<T>);
#pragma GCC unroll 7
      for (int b = 0; b < 7; ++b) sums[b] += rounding<T>(here, inverse[b]);
      scalar(v);
    }
    for (int b = 0; b < 7; ++b) bits[b] = sums[b];
  }
  template <class Scalar> inline void add_casts(const T* x, size_t vectors, const Scalar& scalar) {
    Vec<T> e4m3 = float8[0], e5m2 = float8[1], sum = bf16;
    for (size_t v = 0; v < vectors; ++v) {
      // The largest e5m2 value is 128 times that of e4m3: on the scale of e4m3 its exponents start seven lower.
      const Vec<T> here = load<T>(x + v * kLanes<T>), y = here * float8_scale, d = bfloat16_error<T>(here);
      const Vec<T> d4m3 = y - rounded<T, 3, -6>(y), d5m2 = y - rounded<T, 2, -14 - 7>(y);
      e4m3 += d4m3 * d4m3, e5m2 += d5m2 * d5m2, sum += d * d;
      scalar(v);
    }
    float8[0] = e4m3, float8[1] = e5m2, bf16 = sum;
  }
  template <class Scalar> inline void add_above(const T* x, size_t vectors, const Scalar& scalar) {
    Vec<T> sums[kPrunePoints];
    for (int e = 0; e < kPrunePoints; ++e) sums[e] = above[e];
    for (size_t v = 0; v < vectors; ++v) {
      const Vec<T> here = load<T>(x + v * kLanes<T>), square = here * here;
      const Vec<Int> magnitude = (Vec<Int>)here & Int(~typename Bits<T>::Unsigned(0) >> 1);
#pragma GCC unroll 7
      for (int e = 0; e < kPrunePoints; ++e) sums[e] = add_from<T>(sums[e], square, magnitude, edges[e]);
      scalar(v);
    }
    for (int e = 0; e < kPrunePoints; ++e) above[e] = sums[e];
  }
  void flush(double* tile) {
    for (int b = 0; b < 7; ++b) tile[kBits2 + b] += sum_of<T>(bits[b]) * unit[b] * unit[b];
    tile[kE4M3] += sum_of<T>(float8[0]) * float8_unit * float8_unit;
    tile[kE5M2] += sum_of<T>(float8[1]) * float8_unit * float8_unit;
    tile[kBF16] += sum_of<T>(bf16);
    for (int e = 0; e < kPrunePoints; ++e) tile[kAbove + e] += sum_of<T>(above[e]);
    clear();
  }
};

struct NoSteps {
  template <class Raw> inline void step(Raw) {}
  template <class Raw> inline void finish(const Raw*, size_t) {}
};

// Adds a part of a tile; passes every raw value to `steps`.
template <class T, class Steps> static void add_part(const T* x, size_t count, ErrorSums<T>& sums, Steps& steps) {
  constexpr size_t kN = kLanes<T>, kVectors = 64;
  const size_t whole = count / kN;
  for (size_t v = 0; v < whole; v += kVectors) sums.add(x + v * kN, whole - v < kVectors ? whole - v : kVectors, steps);
  if (whole * kN == count) return;
  T padded[kN] = {};
  for (size_t i = whole * kN; i < count; ++i) padded[i - whole * kN] = x[i], steps.step(bit_cast<typename Bits<T>::Unsigned>(x[i]));
  NoSteps nothing;
  sums.add(padded, 1, nothing);
}

// Adds one tile in parts that stay in the L1 cache; narrow sums are flushed to doubles on the way.
template <class T, class Steps>
static void add_errors(const T* x, size_t count, ErrorSums<T>& sums, Steps& steps, double* tile) {
  constexpr size_t kPart = 4096, kFlush = 2 * kPart;
  for (size_t i = 0; i < count; i += kPart) {
    const size_t n = count - i < kPart ? count - i : kPart;
    add_part<T>(x + i, n, sums, steps);
    steps.finish(reinterpret_cast<const typename Bits<T>::Unsigned*>(x + i), n);
    if ((i + kPart) % kFlush == 0) sums.flush(tile);
  }
  sums.flush(tile);
}

template <class T> static void clean(const T* from, size_t count, double* to) {
  for (size_t i = 0; i < count; ++i) {
    const bool finite = (bit_cast<typename Bits<T>::Unsigned>(from[i]) & kMagnitude<Wide<T>>) < Wide<T>::kInfinity;
    to[i] = finite ? double(from[i]) : 0.0;
  }
}

template <class T> static void refine_floats(RefineJob& job, const ErrorJob& errors) {
  using Raw = typename Bits<T>::Unsigned;
  const T* data = static_cast<const T*>(job.data);
  Refiner<Raw> refiner(job);
  Sifted<Raw> sifted(refiner);
  ErrorSums<T> sums(errors);
  ErrorSums<double> wide_sums(errors);
  NoSteps nothing;
  const bool ordinary = sizeof(T) == 8 || (errors.peak > 0x1p-40 && errors.peak < 0x1p60);
  for (size_t start = 0, t = 0; start < job.count; start += errors.tile_elements, ++t) {
    const size_t n = job.count - start < errors.tile_elements ? job.count - start : errors.tile_elements;
    double* tile = errors.tiles + t * kErrorFields;
    if (ordinary && all_finite(data + start, n)) {
      add_errors<T>(data + start, n, sums, sifted, tile);
    } else {
      clean(data + start, n, errors.wide);
      add_errors<double>(errors.wide, n, wide_sums, nothing, tile);
      for (size_t i = 0; i < n; ++i) refiner.step(bit_cast<Raw>(data[start + i]));
    }
  }
  job.match_count = size_t(refiner.next - job.matches);
}

template <class Raw> static void refine_only(RefineJob& job) {
  const Raw* data = static_cast<const Raw*>(job.data);
  Refiner<Raw> refiner(job);
  for (size_t i = 0; i < job.count; ++i) refiner.step(data[i]);
  job.match_count = size_t(refiner.next - job.matches);
}

}  // namespace ASSAY_ISA
