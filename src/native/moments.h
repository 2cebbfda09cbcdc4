// Moments in double precision: two passes over a block that fits in the L1 cache, or one if the mean is approximately
// known. Blocks are joined by Pébay's formulas.
#pragma once
#include <type_traits>

#include "formats.h"
#include "kernel.h"

namespace ASSAY_ISA {
using namespace assay;

constexpr size_t kMomentBlock = 1024, kLongBlock = 8 * kMomentBlock;

struct Moments {
  double n = 0, mean = 0, m2 = 0, m3 = 0, m4 = 0;
  void join(const Moments& b) {
    if (b.n == 0) return;
    const double total = n + b.n, delta = b.mean - mean, step = delta / total;
    const double cross = delta * step * n * b.n;
    m4 += b.m4 + cross * step * step * (n * n - n * b.n + b.n * b.n) +
          6 * step * step * (n * n * b.m2 + b.n * b.n * m2) + 4 * step * (n * b.m3 - b.n * m3);
    m3 += b.m3 + cross * step * (n - b.n) + 3 * step * (n * b.m2 - b.n * m2);
    m2 += b.m2 + cross;
    mean += step * b.n;
    n = total;
  }
};

// Adds doubles in two passes; the number must be a multiple of `kBlockStep`. Values that are not finite are left out;
// there may only be such values if not `kFinite`.
constexpr int kWays = 2;  // two chains of sums hide the latency of addition
constexpr size_t kBlockStep = kWays * kLanes<double>;
template <bool kFinite> static void add_block(const double* x, size_t n, Moments& moments, double* tile) {
  constexpr int kN = kLanes<double>;
  Vec<double> sum[kWays]{}, l1[kWays]{}, low = splat(tile[kMin]), high = splat(tile[kMax]);
  Vec<int64_t> zeros{}, infinite{}, finite{};
  for (size_t i = 0; i < n; i += kBlockStep)
    for (int w = 0; w < kWays; ++w) {
      const Vec<double> here = load<double>(x + i + w * kN), v = only_finite<kFinite, double>(here, here);
      sum[w] += v;
      l1[w] += (Vec<double>)((Vec<int64_t>)v & INT64_MAX);
      zeros -= (Vec<int64_t>)(v == 0.0);
      if (kFinite) {
        low = smaller(low, v), high = larger(high, v);
      } else {
        const Vec<int64_t> kept = finite_lanes<double>(here);
        low = smaller(low, kept ? v : low), high = larger(high, kept ? v : high);
        finite -= kept;
        infinite -= (Vec<int64_t>)(((Vec<int64_t>)here & INT64_MAX) == int64_t(Wide<double>::kInfinity));
      }
    }
  double total = 0, kept = 0, zero = 0;
  for (int w = 0; w < kWays; ++w) total += sum_of<double>(sum[w]), tile[kL1] += sum_of<double>(l1[w]);
  for (int i = 0; i < kN; ++i) {
    tile[kMin] = low[i] < tile[kMin] ? low[i] : tile[kMin];
    tile[kMax] = high[i] > tile[kMax] ? high[i] : tile[kMax];
    tile[kInfinite] += double(infinite[i]), kept += double(finite[i]), zero += double(zeros[i]);
  }
  Moments block;
  block.n = kFinite ? double(n) : kept;
  tile[kZeros] += zero - (double(n) - block.n);
  if (block.n == 0) return;
  block.mean = total / block.n;
  Vec<double> first[kWays]{}, second[kWays]{}, third[kWays]{}, fourth[kWays]{};
  for (size_t i = 0; i < n; i += kBlockStep)
    for (int w = 0; w < kWays; ++w) {
      const Vec<double> v = load<double>(x + i + w * kN), d = only_finite<kFinite, double>(v, v - block.mean), square = d * d;
      first[w] += d, second[w] += square, third[w] += square * d, fourth[w] += square * square;
    }
  double rest = 0;
  for (int w = 0; w < kWays; ++w) {
    rest += sum_of<double>(first[w]);
    block.m2 += sum_of<double>(second[w]), block.m3 += sum_of<double>(third[w]), block.m4 += sum_of<double>(fourth[w]);
  }
  // The rounded mean is slightly off: shift the moments to the true mean with the remaining Σd.
  const double shift = rest / block.n;
  block.m4 += -4 * shift * block.m3 + 6 * shift * shift * block.m2;
  block.m3 += -3 * shift * block.m2;
  block.m2 -= rest * shift;
  block.mean += shift;
  moments.join(block);
}

// Converts a block to doubles, and appends NaN, which is left out, up to a whole step; returns the new length.
template <class T> static size_t as_doubles(const T* from, size_t n, double* to) {
  for (size_t i = 0; i < n; ++i) to[i] = double(from[i]);
  for (; n % kBlockStep; ++n) to[n] = bit_cast<double>(~uint64_t(0));
  return n;
}

// Adds whole vectors in one pass: sums powers of the deviations from the mean of all previous values. There are at least
// as many of these, so cancellation is small. Returns false, and adds nothing, if a value is not finite but `kFinite`.
template <bool kFinite> static bool add_in_one_pass(const float* x, size_t n, Moments& moments, double* tile) {
  constexpr int kN = kLanes<float>, kParts = kN / kLanes<double>;
  Vec<double> first[kParts]{}, second[kParts]{}, third[kParts]{}, fourth[kParts]{}, l1[kParts]{};
  Vec<float> low = splat(float(tile[kMin])), high = splat(float(tile[kMax]));
  Vec<int32_t> zeros{}, top{}, infinite{}, finite{};
  const double center = moments.mean;
  for (size_t i = 0; i < n; i += kN) {
    const Vec<float> here = load<float>(x + i), v = only_finite<kFinite, float>(here, here);
    const Vec<int32_t> magnitude = (Vec<int32_t>)here & INT32_MAX;
    zeros -= (Vec<int32_t>)(v == 0.0f);
    if (kFinite) {
      low = smaller(low, v), high = larger(high, v);
      top = larger(top, magnitude);
    } else {
      const Vec<int32_t> kept = finite_lanes<float>(here);
      low = smaller(low, kept ? v : low), high = larger(high, kept ? v : high);
      finite -= kept;
      infinite -= (Vec<int32_t>)(magnitude == int32_t(Wide<float>::kInfinity));
    }
    for (int part = 0; part < kParts; ++part) {
      const Vec<double> wide = doubles(x + i + part * kLanes<double>), kept = only_finite<kFinite, double>(wide, wide);
      const Vec<double> d = only_finite<kFinite, double>(wide, wide - center), square = d * d;
      l1[part] += (Vec<double>)((Vec<int64_t>)kept & INT64_MAX);
      first[part] += d, second[part] += square, third[part] += square * d, fourth[part] += square * square;
    }
  }
  if (kFinite && uint32_t(largest_of<int32_t>(top)) >= Wide<float>::kInfinity) return false;
  double s1 = 0, s2 = 0, s3 = 0, s4 = 0, kept = 0, zero = 0;
  for (int part = 0; part < kParts; ++part) {
    s1 += sum_of<double>(first[part]), s2 += sum_of<double>(second[part]);
    s3 += sum_of<double>(third[part]), s4 += sum_of<double>(fourth[part]);
    tile[kL1] += sum_of<double>(l1[part]);
  }
  for (int i = 0; i < kN; ++i) {
    tile[kMin] = low[i] < tile[kMin] ? low[i] : tile[kMin];
    tile[kMax] = high[i] > tile[kMax] ? high[i] : tile[kMax];
    tile[kInfinite] += double(infinite[i]), kept += double(finite[i]), zero += double(zeros[i]);
  }
  Moments block;
  block.n = kFinite ? double(n) : kept;
  tile[kZeros] += zero - (double(n) - block.n);
  if (block.n == 0) return true;
  const double shift = s1 / block.n;
  block.mean = center + shift;
  block.m2 = s2 - s1 * shift;
  block.m3 = s3 - 3 * shift * s2 + 2 * shift * shift * s1;
  block.m4 = s4 - 4 * shift * s3 + 6 * shift * shift * s2 - 3 * shift * shift * shift * s1;
  moments.join(block);
  return true;
}
template <class T> static void add_moments(const T* data, size_t count, double* tile) {
  double block[kMomentBlock];
  Moments moments;
  bool finite = true;  // so far
  tile[kMin] = __DBL_MAX__, tile[kMax] = -__DBL_MAX__;
  for (size_t i = 0; i < count;) {
    if constexpr (std::is_same_v<T, float>) {
      const size_t fewer = count - i < kLongBlock ? count - i : kLongBlock;
      const size_t whole = (moments.n < double(fewer) ? size_t(moments.n) : fewer) / kMomentBlock * kMomentBlock;
      if (whole) {
        finite = finite && add_in_one_pass<true>(data + i, whole, moments, tile);
        if (!finite) add_in_one_pass<false>(data + i, whole, moments, tile);
        i += whole;
        continue;
      }
    }
    const size_t n = count - i < kMomentBlock ? count - i : kMomentBlock, padded = as_doubles(data + i, n, block);
    if constexpr (std::is_floating_point_v<T>) finite = finite && all_finite(data + i, n);
    finite && padded == n ? add_block<true>(block, n, moments, tile) : add_block<false>(block, padded, moments, tile);
    i += n;
  }
  tile[kFinite] = moments.n, tile[kMean] = moments.mean;
  tile[kM2] = moments.m2, tile[kM3] = moments.m3, tile[kM4] = moments.m4;
}

}  // namespace ASSAY_ISA
