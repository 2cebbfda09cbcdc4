// The refining pass: matches of requested prefixes, counts of the low halfwords, and per-tensor rounding errors.
#pragma once
#include <cmath>

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

static inline Vec<double> add_from(Vec<double> sum, Vec<double> square, Vec<int64_t> magnitude, Vec<int64_t> edge) {
#if defined(__AVX512DQ__)
  const __mmask8 kept = _mm512_cmp_epi64_mask((__m512i)magnitude, (__m512i)edge, _MM_CMPINT_NLT);
  return (Vec<double>)_mm512_mask_add_pd((__m512d)sum, kept, (__m512d)sum, (__m512d)square);
#else
  return sum + where<double>((Vec<int64_t>)((Vec<double>)magnitude >= (Vec<double>)edge), square);
#endif
}

// Adds the squares of a vector to the sum of each edge that the magnitude reaches; doubles, so that one large square does
// not absorb others.
template <bool kPlain, class T> static inline void add_squares(Vec<double>* sums, const T* x, const Vec<T>* edges) {
  for (int i = 0; i < kLanes<T>; i += kLanes<double>) {
    const Vec<double> any = doubles(x + i), here = only_finite<kPlain, double>(any, any);
    const Vec<int64_t> magnitude = (Vec<int64_t>)here & INT64_MAX;
#pragma GCC unroll 7
    for (int e = 0; e < kPrunePoints; ++e)
      sums[e] = add_from(sums[e], here * here, magnitude, (Vec<int64_t>)(Vec<double>{} + double(edges[e][0])));
  }
}
#if defined(__AVX512DQ__)
// One comparison of sixteen singles gives the masks of both halves.
template <bool kPlain> static inline void add_squares(Vec<double>* sums, const float* x, const Vec<float>* edges) {
  const Vec<float> any = load<float>(x);
  const Vec<int32_t> magnitude = (Vec<int32_t>)only_finite<kPlain, float>(any, any) & INT32_MAX;
  const Vec<double> a = doubles(x), b = doubles(x + kLanes<double>);
  const __m512d low = (__m512d)only_finite<kPlain, double>(a, a * a), high = (__m512d)only_finite<kPlain, double>(b, b * b);
#pragma GCC unroll 7
  for (int e = 0; e < kPrunePoints; ++e) {
    const __mmask16 kept = _mm512_cmp_epi32_mask((__m512i)magnitude, (__m512i)edges[e], _MM_CMPINT_NLT);
    const __m512d sum = _mm512_mask_add_pd((__m512d)sums[e], __mmask8(kept), (__m512d)sums[e], low);
    sums[e] = (Vec<double>)_mm512_mask_add_pd(sum, __mmask8(_kshiftri_mask16(kept, 8)), sum, high);
  }
}
#endif

template <class T> __attribute__((noinline)) static void add_lanes(Vec<double>& sum, Vec<T> v) {
  T lanes[kLanes<T>];
  store(lanes, v);
  for (int i = 0; i < kLanes<T>; i += kLanes<double>) sum += doubles(lanes + i);
}

// The error of rounding to bfloat16; for ties the size of the error is the same in both directions.
template <class T> static inline Vec<T> bfloat16_error(Vec<T> x) { return x - rounded<T, 7, -126>(x); }
template <> inline Vec<float> bfloat16_error<float>(Vec<float> x) {
  return x - (Vec<float>)(((Vec<int32_t>)x + 0x8000) & int32_t(0xffff0000));
}
// Larger magnitudes round to infinity, this one too.
constexpr double kBF16Overflow = 0x1.ffp127;

// Rounding errors relative to the peak. `kPlain` is for tiles without NaN, infinities or overflows, and for peaks whose
// squares are in the range of T; others are cleaned and scaled while they are loaded.
template <class T> struct ErrorSums {
  using Int = typename Bits<T>::Signed;
  bool plain;
  T scale, bf16_scale;  // powers of two
  Vec<T> inverse[7], float8_scale, edges[kPrunePoints];
  double unit[7], float8_unit;
  Vec<double> bits[7], float8[2], bf16, above[kPrunePoints];
  Vec<Int> overflows;

  explicit ErrorSums(const ErrorJob& job) {
    plain = sizeof(T) == 4 ? job.peak > 0x1p-40 && job.peak < 0x1p60 : job.peak > 0x1p-400 && job.peak < kBF16Overflow;
    scale = plain ? 1 : near_one(job.peak);
    bf16_scale = plain ? 1 : near_one(job.peak < kBF16Overflow ? job.peak : kBF16Overflow);
    const double peak = job.peak * double(scale);
    for (int b = 0; b < 7; ++b) {
      const double levels = (1 << (b + 1)) - 1;
      inverse[b] = splat<T>(peak > 0 ? T(levels / peak) : T(0));
      unit[b] = job.peak / levels;
    }
    float8_scale = splat<T>(peak > 0 ? T(448 / peak) : T(0)), float8_unit = job.peak / 448;
    for (int e = 0; e < kPrunePoints; ++e) edges[e] = splat(T(job.edges[e]));
    clear();
  }
  // A power of two that brings the peak to about 1, or near enough for squares to be in range.
  static T near_one(double peak) {
    constexpr int kMost = sizeof(T) == 4 ? 100 : 900;
    int exponent = 0;
    std::frexp(peak, &exponent);
    return T(std::ldexp(1.0, -(exponent < -kMost ? -kMost : exponent > kMost ? kMost : exponent)));
  }
  void clear() {
    for (auto& v : bits) v = Vec<double>{};
    for (auto& v : above) v = Vec<double>{};
    float8[0] = float8[1] = bf16 = Vec<double>{};
    overflows = Vec<Int>{};
  }
  template <bool kPlain> inline Vec<T> read(const T* from) const {
    const Vec<T> x = load<T>(from);
    return kPlain ? x : only_finite<kPlain, T>(x, x) * scale;
  }
  // Adds vectors in three rounds, each with sums that fit in registers. Each round passes a share of the values to
  // `steps`, so that scalar and vector instructions run in parallel.
  template <bool kPlain, class Steps> inline void add(const T* x, size_t vectors, Steps& steps) {
    constexpr int kN = kLanes<T>;
    add_bits<kPlain>(x, vectors, [&](size_t v) __attribute__((always_inline)) { pass_on<0, kN * 3 / 8>(x + v * kN, steps); });
    add_casts<kPlain>(x, vectors, [&](size_t v) __attribute__((always_inline)) { pass_on<kN * 3 / 8, kN / 2>(x + v * kN, steps); });
    add_above<kPlain>(x, vectors, [&](size_t v) __attribute__((always_inline)) { pass_on<kN / 2, kN>(x + v * kN, steps); });
  }
  template <int kFrom, int kTo, class Steps> static inline void pass_on(const T* x, Steps& steps) {
#pragma GCC unroll 8
    for (int k = kFrom; k < kTo; ++k) steps.step(bit_cast<typename Bits<T>::Unsigned>(x[k]));
  }
  template <bool kPlain, class Scalar> inline void add_bits(const T* x, size_t vectors, const Scalar& scalar) {
    Vec<T> sums[7] = {};
    for (size_t v = 0; v < vectors; ++v) {
      const Vec<T> here = read<kPlain>(x + v * kLanes<T>);
#pragma GCC unroll 7
      for (int b = 0; b < 7; ++b) sums[b] += rounding<T>(here, inverse[b]);
      scalar(v);
    }
    for (int b = 0; b < 7; ++b) add_lanes<T>(bits[b], sums[b]);
  }
  template <bool kPlain, class Scalar> inline void add_casts(const T* x, size_t vectors, const Scalar& scalar) {
    Vec<T> e4m3{}, e5m2{}, sum{};
    for (size_t v = 0; v < vectors; ++v) {
      // The largest e5m2 value is 128 times that of e4m3: on the scale of e4m3 its exponents start seven lower.
      const Vec<T> y = read<kPlain>(x + v * kLanes<T>) * float8_scale;
      const Vec<T> d4m3 = y - rounded<T, 3, -6>(y), d5m2 = y - rounded<T, 2, -14 - 7>(y);
      const Vec<T> d = bfloat16_part<kPlain>(load<T>(x + v * kLanes<T>));
      e4m3 += d4m3 * d4m3, e5m2 += d5m2 * d5m2, sum += d * d;
      scalar(v);
    }
    add_lanes<T>(float8[0], e4m3), add_lanes<T>(float8[1], e5m2), add_lanes<T>(bf16, sum);
  }
  template <bool kPlain> inline Vec<T> bfloat16_part(Vec<T> x) {
    if (kPlain) return bfloat16_error<T>(x);
    const auto fits = (Vec<Int>)(((Vec<Int>)x & Int(kMagnitude<Wide<T>>)) < splat(bit_cast<Int>(T(kBF16Overflow))));
    overflows += fits - finite_lanes<T>(x);
    return where<T>(fits, bfloat16_error<T>(x)) * bf16_scale;
  }
  template <bool kPlain, class Scalar> inline void add_above(const T* x, size_t vectors, const Scalar& scalar) {
    Vec<double> sums[kPrunePoints] = {};
    for (size_t v = 0; v < vectors; ++v) {
      add_squares<kPlain>(sums, x + v * kLanes<T>, edges);
      scalar(v);
    }
    for (int e = 0; e < kPrunePoints; ++e) above[e] += sums[e];
  }
  void flush(double* tile) {
    for (int b = 0; b < 7; ++b) tile[kBits2 + b] = sum_of<double>(bits[b]) * unit[b] * unit[b];
    tile[kE4M3] = sum_of<double>(float8[0]) * float8_unit * float8_unit;
    tile[kE5M2] = sum_of<double>(float8[1]) * float8_unit * float8_unit;
    tile[kBF16] = sum_of<double>(bf16) / double(bf16_scale) / double(bf16_scale);
    for (int i = 0; i < kLanes<T>; ++i) tile[kBF16Overflows] += double(overflows[i]);
    for (int e = 0; e < kPrunePoints; ++e) tile[kAbove + e] = sum_of<double>(above[e]);
    clear();
  }
};

struct NoSteps {
  template <class Raw> inline void step(Raw) {}
};

// Adds a part of a tile; passes every raw value to `steps`.
template <class T, bool kPlain, class Steps> static void add_part(const T* x, size_t count, ErrorSums<T>& sums, Steps& steps) {
  constexpr size_t kN = kLanes<T>, kVectors = 64;
  const size_t whole = count / kN;
  for (size_t v = 0; v < whole; v += kVectors)
    sums.template add<kPlain>(x + v * kN, whole - v < kVectors ? whole - v : kVectors, steps);
  if (whole * kN == count) return;
  T padded[kN] = {};
  for (size_t i = whole * kN; i < count; ++i) padded[i - whole * kN] = x[i], steps.step(bit_cast<typename Bits<T>::Unsigned>(x[i]));
  NoSteps nothing;
  sums.template add<kPlain>(padded, 1, nothing);
}

// Adds one tile in parts that stay in the L1 cache.
template <class T, class Steps>
static void add_errors(const T* x, size_t count, ErrorSums<T>& sums, Steps& steps, double* tile) {
  constexpr size_t kPart = 4096;
  for (size_t i = 0; i < count; i += kPart) {
    const size_t n = count - i < kPart ? count - i : kPart;
    const bool plain = sums.plain && all_finite(x + i, n);
    plain ? add_part<T, true>(x + i, n, sums, steps) : add_part<T, false>(x + i, n, sums, steps);
    steps.finish(reinterpret_cast<const typename Bits<T>::Unsigned*>(x + i), n);
  }
  sums.flush(tile);
}

template <class T> static void refine_floats(RefineJob& job, const ErrorJob& errors) {
  using Raw = typename Bits<T>::Unsigned;
  const T* data = static_cast<const T*>(job.data);
  Refiner<Raw> refiner(job);
  Sifted<Raw> sifted(refiner);
  ErrorSums<T> sums(errors);
  for (size_t start = 0, t = 0; start < job.count; start += errors.tile_elements, ++t) {
    const size_t n = job.count - start < errors.tile_elements ? job.count - start : errors.tile_elements;
    add_errors<T>(data + start, n, sums, sifted, errors.tiles + t * kErrorFields);
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
