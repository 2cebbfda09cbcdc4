// The second pass: the halfwords behind chosen prefixes, counts of the low halfwords, and per-tensor errors.
#pragma once
#include "kernel.h"
#include "rows.h"
#include "sieve.h"

namespace ASSAY_ISA {
using namespace assay;

constexpr int kBatch = 4;
static_assert(7 + kBatch / 2 + kPrunePoints == 16, "scalar work is dealt out in sixteen parts");

// x rounded to a float of so many mantissa bits and so small a least exponent; ties to even.
template <class T, int kMantissaBits, int kLeastExponent> static inline Vec<T> rounded(Vec<T> x) {
  using B = Bits<T>;
  using Int = typename B::Signed;
  constexpr Int kExponents = Int(2 * B::kBias + 1) << B::kMantissa;
  constexpr Int kLeast = Int(kLeastExponent + B::kBias) << B::kMantissa;
  constexpr Int kUp = (Int(B::kMantissa - kMantissaBits) << B::kMantissa) + (Int(1) << (B::kMantissa - 1));
  const Vec<T> shift = (Vec<T>)(larger((Vec<Int>)x & kExponents, splat<Int>(kLeast)) + kUp);
  return (x + shift) - shift;
}

// Adds the squares of magnitudes from an edge on.
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

template <class T> struct ErrorSums {
  using Int = typename Bits<T>::Signed;
  Vec<T> inverse[7], e4m3, e5m2;
  Vec<Int> edges[kPrunePoints], near;
  double unit[7], unit_e4m3, unit_e5m2;
  Vec<T> bits[7], float8[2], bf16, above[kPrunePoints];
  Vec<Int> small;

  explicit ErrorSums(const ErrorJob& job) {
    for (int b = 0; b < 7; ++b) {
      const double levels = (1 << (b + 1)) - 1;
      inverse[b] = splat<T>(job.peak > 0 ? T(levels / job.peak) : T(0));
      unit[b] = job.peak / levels;
    }
    e4m3 = splat<T>(job.peak > 0 ? T(448 / job.peak) : T(0)), unit_e4m3 = job.peak / 448;
    e5m2 = splat<T>(job.peak > 0 ? T(57344 / job.peak) : T(0)), unit_e5m2 = job.peak / 57344;
    for (int e = 0; e < kPrunePoints; ++e) edges[e] = splat<Int>(bit_cast<Int>(T(job.edges[e])));
    near = splat<Int>(bit_cast<Int>(T(job.near)));
    clear();
  }
  void clear() {
    for (auto& v : bits) v = Vec<T>{};
    for (auto& v : above) v = Vec<T>{};
    float8[0] = float8[1] = bf16 = Vec<T>{};
    small = Vec<Int>{};
  }
  // Takes several vectors at once, so that each sum is fetched and put back once for all of them. `between` is
  // called 16 times: scalar work put there runs beside the vectors'.
  template <class Between> inline void add(const Vec<T>* x, const Between& between) {
    for (int b = 0; b < 7; ++b) {
      Vec<T> sum = bits[b];
#pragma GCC unroll 4
      for (int k = 0; k < kBatch; ++k) sum += rounding<T>(x[k], inverse[b]);
      bits[b] = sum;
      between(b);
    }
    Vec<Int> magnitude[kBatch];
    Vec<T> square[kBatch];
#pragma GCC unroll 4
    for (int k = 0; k < kBatch; ++k) {
      const Vec<T> y = x[k] * e4m3, z = x[k] * e5m2;
      const Vec<T> dy = y - rounded<T, 3, -6>(y), dz = z - rounded<T, 2, -14>(z), dx = x[k] - rounded<T, 7, -126>(x[k]);
      float8[0] += dy * dy, float8[1] += dz * dz, bf16 += dx * dx;
      magnitude[k] = (Vec<Int>)x[k] & Int(~typename Bits<T>::Unsigned(0) >> 1);
      square[k] = x[k] * x[k];
      small -= (Vec<Int>)(magnitude[k] <= near);
      if (k % 2) between(7 + k / 2);
    }
    for (int e = 0; e < kPrunePoints; ++e) {
      Vec<T> sum = above[e];
#pragma GCC unroll 4
      for (int k = 0; k < kBatch; ++k) sum = add_from<T>(sum, square[k], magnitude[k], edges[e]);
      above[e] = sum;
      between(9 + e);
    }
  }
  void flush(double* tile) {
    for (int b = 0; b < 7; ++b) tile[kBits2 + b] += sum_of<T>(bits[b]) * unit[b] * unit[b];
    tile[kE4M3] += sum_of<T>(float8[0]) * unit_e4m3 * unit_e4m3;
    tile[kE5M2] += sum_of<T>(float8[1]) * unit_e5m2 * unit_e5m2;
    tile[kBF16] += sum_of<T>(bf16);
    for (int e = 0; e < kPrunePoints; ++e) tile[kAbove + e] += sum_of<T>(above[e]);
    for (int i = 0; i < kLanes<T>; ++i) tile[kNear] += double(small[i]);
    clear();
  }
};

struct NoSteps {
  template <class Raw> inline void step(Raw) {}
};

// Adds one tile; `steps` looks at every raw value on the way, so that scalar and vector work overlap.
template <class T, class Steps>
static void add_errors(const T* x, size_t count, ErrorSums<T>& sums, Steps& steps, double* tile) {
  using Raw = typename Bits<T>::Unsigned;
  constexpr size_t kN = kLanes<T> * kBatch;
  constexpr size_t kFlush = kN * 128;
  constexpr size_t kShare = kN / 16;
  const auto add = [&](const T* from, const auto& between) __attribute__((always_inline)) {
    Vec<T> batch[kBatch];
    for (int k = 0; k < kBatch; ++k) batch[k] = load<T>(from + k * kLanes<T>);
    sums.add(batch, between);
  };
  size_t i = 0;
  for (; i + kN <= count; i += kN) {
    add(x + i, [&](size_t part) __attribute__((always_inline)) {
      for (size_t k = 0; k < kShare; ++k) steps.step(bit_cast<Raw>(x[i + part * kShare + k]));
    });
    if ((i + kN) % kFlush == 0) sums.flush(tile);
  }
  if (i < count) {
    T padded[kN] = {};
    for (size_t k = 0; i + k < count; ++k) padded[k] = x[i + k], steps.step(bit_cast<Raw>(x[i + k]));
    add(padded, [](size_t) {});
    tile[kNear] -= double(kN - (count - i));
  }
  sums.flush(tile);
}

template <class T> static size_t clean(const T* from, size_t count, double* to) {
  size_t dropped = 0;
  for (size_t i = 0; i < count; ++i) {
    const bool finite = (bit_cast<typename Bits<T>::Unsigned>(from[i]) & kMagnitude<Wide<T>>) < Wide<T>::kInfinity;
    to[i] = finite ? double(from[i]) : 0.0;
    dropped += !finite;
  }
  return dropped;
}

template <class T> static void refine_floats(RefineJob& job, const ErrorJob& errors) {
  using Raw = typename Bits<T>::Unsigned;
  const T* data = static_cast<const T*>(job.data);
  Refiner<Raw> refiner{job};
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
      sifted.finish(reinterpret_cast<const Raw*>(data + start), n);
    } else {
      const size_t dropped = clean(data + start, n, errors.wide);
      add_errors<double>(errors.wide, n, wide_sums, nothing, tile);
      tile[kNear] -= double(dropped);
      for (size_t i = 0; i < n; ++i) refiner.step(bit_cast<Raw>(data[start + i]));
    }
  }
  job.found_count = refiner.found;
}

template <class Raw> static void refine_only(RefineJob& job) {
  const Raw* data = static_cast<const Raw*>(job.data);
  Refiner<Raw> refiner{job};
  for (size_t i = 0; i < job.count; ++i) refiner.step(data[i]);
  job.found_count = refiner.found;
}

}  // namespace ASSAY_ISA
