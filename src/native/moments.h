// Moments in double precision: two passes over a block that fits in the L1 cache, or one if the mean is approximately
// known. Blocks are joined by Pébay's formulas.
#pragma once
#include "formats.h"
#include "kernel.h"

namespace ASSAY_ISA {
using namespace assay;

constexpr size_t kMomentBlock = 1024, kLongBlock = 8 * kMomentBlock;

// Converts the finite values of a block to doubles; returns their number.
template <class T> static size_t widen(const T* from, size_t count, double* to, double& infinite) {
  using B = Bits<T>;
  size_t kept = 0;
  for (size_t i = 0; i < count; ++i) {
    const auto magnitude = bit_cast<typename B::Unsigned>(from[i]) & kMagnitude<Wide<T>>;
    infinite += magnitude == Wide<T>::kInfinity;
    if (magnitude < Wide<T>::kInfinity) to[kept++] = double(from[i]);
  }
  return kept;
}
template <class T> static bool all_finite(const T* from, size_t count) {
  using Order = typename Bits<T>::Signed;
  Vec<Order> high{};
  size_t i = 0;
  for (; i + kLanes<T> <= count; i += kLanes<T>) high = larger(high, load<Order>(from + i) & Order(kMagnitude<Wide<T>>));
  Order top = largest_of<Order>(high);
  for (; i < count; ++i) {
    const Order magnitude = Order(bit_cast<typename Bits<T>::Unsigned>(from[i]) & kMagnitude<Wide<T>>);
    top = magnitude > top ? magnitude : top;
  }
  return typename Bits<T>::Unsigned(top) < Wide<T>::kInfinity;
}

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

static void add_block(const double* x, size_t n, Moments& moments, double* tile) {
  constexpr int kN = kLanes<double>;
  constexpr int kWays = 2;  // two chains of sums hide the latency of addition
  Vec<double> sum[kWays]{}, l1[kWays]{}, low = splat(tile[kMin]), high = splat(tile[kMax]);
  Vec<int64_t> zeros{};
  const size_t body = n / (kN * kWays) * (kN * kWays);
  double total = 0, absolute = 0;
  for (size_t i = 0; i < body; i += kN * kWays)
    for (int w = 0; w < kWays; ++w) {
      const Vec<double> v = load<double>(x + i + w * kN);
      sum[w] += v;
      l1[w] += (Vec<double>)((Vec<int64_t>)v & INT64_MAX);
      low = smaller(low, v), high = larger(high, v);
      zeros -= (Vec<int64_t>)(v == 0.0);
    }
  for (int w = 0; w < kWays; ++w) total += sum_of<double>(sum[w]), absolute += sum_of<double>(l1[w]);
  for (int i = 0; i < kN; ++i) {
    tile[kMin] = low[i] < tile[kMin] ? low[i] : tile[kMin];
    tile[kMax] = high[i] > tile[kMax] ? high[i] : tile[kMax];
    tile[kZeros] += double(zeros[i]);
  }
  for (size_t i = body; i < n; ++i) {
    total += x[i], absolute += x[i] < 0 ? -x[i] : x[i];
    tile[kMin] = x[i] < tile[kMin] ? x[i] : tile[kMin];
    tile[kMax] = x[i] > tile[kMax] ? x[i] : tile[kMax];
    tile[kZeros] += x[i] == 0;
  }
  tile[kL1] += absolute;
  Moments block;
  block.n = double(n), block.mean = total / double(n);
  Vec<double> first[kWays]{}, second[kWays]{}, third[kWays]{}, fourth[kWays]{};
  for (size_t i = 0; i < body; i += kN * kWays)
    for (int w = 0; w < kWays; ++w) {
      const Vec<double> d = load<double>(x + i + w * kN) - block.mean, square = d * d;
      first[w] += d, second[w] += square, third[w] += square * d, fourth[w] += square * square;
    }
  double rest = 0;
  for (int w = 0; w < kWays; ++w) {
    rest += sum_of<double>(first[w]);
    block.m2 += sum_of<double>(second[w]), block.m3 += sum_of<double>(third[w]), block.m4 += sum_of<double>(fourth[w]);
  }
  for (size_t i = body; i < n; ++i) {
    const double d = x[i] - block.mean;
    rest += d, block.m2 += d * d, block.m3 += d * d * d, block.m4 += d * d * d * d;
  }
  // The rounded mean is slightly off: shift the moments to the true mean with the remaining Σd.
  const double shift = rest / block.n;
  block.m4 += -4 * shift * block.m3 + 6 * shift * shift * block.m2;
  block.m3 += -3 * shift * block.m2;
  block.m2 -= rest * shift;
  block.mean += shift;
  moments.join(block);
}

template <class T> static size_t as_doubles(const T* from, size_t n, double* to, double&) {
  for (size_t i = 0; i < n; ++i) to[i] = double(from[i]);
  return n;
}
template <class T> static size_t finite_doubles(const T* from, size_t n, double* to, double& infinite) {
  return all_finite(from, n) ? as_doubles(from, n, to, infinite) : widen(from, n, to, infinite);
}

// Adds whole vectors in one pass: sums powers of the deviations from the mean of all previous values. There are at least
// as many of these, so cancellation is small. Returns false, and adds nothing, if a value is not finite.
static bool add_in_one_pass(const float* x, size_t n, Moments& moments, double* tile) {
  constexpr int kN = kLanes<float>, kHalf = kLanes<double>, kParts = kN / kHalf;
  typedef float Half __attribute__((vector_size(kHalf * sizeof(float))));
  Vec<double> first[kParts]{}, second[kParts]{}, third[kParts]{}, fourth[kParts]{}, l1[kParts]{};
  Vec<float> low = load<float>(x), high = low;
  Vec<int32_t> zeros{}, top{};
  const double center = moments.mean;
  for (size_t i = 0; i < n; i += kN) {
    const Vec<float> v = load<float>(x + i);
    low = smaller(low, v), high = larger(high, v);
    top = larger(top, (Vec<int32_t>)v & INT32_MAX);
    zeros -= (Vec<int32_t>)(v == 0.0f);
    for (int part = 0; part < kParts; ++part) {
      Half half;
      std::memcpy(&half, x + i + part * kHalf, sizeof half);
      const Vec<double> wide = __builtin_convertvector(half, Vec<double>), d = wide - center, square = d * d;
      l1[part] += (Vec<double>)((Vec<int64_t>)wide & INT64_MAX);
      first[part] += d, second[part] += square, third[part] += square * d, fourth[part] += square * square;
    }
  }
  if (uint32_t(largest_of<int32_t>(top)) >= Wide<float>::kInfinity) return false;
  double s1 = 0, s2 = 0, s3 = 0, s4 = 0;
  for (int part = 0; part < kParts; ++part) {
    s1 += sum_of<double>(first[part]), s2 += sum_of<double>(second[part]);
    s3 += sum_of<double>(third[part]), s4 += sum_of<double>(fourth[part]);
    tile[kL1] += sum_of<double>(l1[part]);
  }
  for (int i = 0; i < kN; ++i) {
    tile[kMin] = low[i] < tile[kMin] ? low[i] : tile[kMin];
    tile[kMax] = high[i] > tile[kMax] ? high[i] : tile[kMax];
    tile[kZeros] += double(zeros[i]);
  }
  const double shift = s1 / double(n);
  Moments block;
  block.n = double(n), block.mean = center + shift;
  block.m2 = s2 - s1 * shift;
  block.m3 = s3 - 3 * shift * s2 + 2 * shift * shift * s1;
  block.m4 = s4 - 4 * shift * s3 + 6 * shift * shift * s2 - 3 * shift * shift * shift * s1;
  moments.join(block);
  return true;
}
template <class T> static bool add_in_one_pass(const T*, size_t, Moments&, double*) { return false; }

template <class T, size_t (*kConvert)(const T*, size_t, double*, double&)>
static void add_moments(const T* data, size_t count, double* tile) {
  double block[kMomentBlock];
  Moments moments;
  tile[kMin] = __DBL_MAX__, tile[kMax] = -__DBL_MAX__;
  for (size_t i = 0; i < count;) {
    const size_t fewer = count - i < kLongBlock ? count - i : kLongBlock;
    const size_t whole = (moments.n < double(fewer) ? size_t(moments.n) : fewer) / kMomentBlock * kMomentBlock;
    if (whole && add_in_one_pass(data + i, whole, moments, tile)) {
      i += whole;
      continue;
    }
    const size_t n = count - i < kMomentBlock ? count - i : kMomentBlock;
    const size_t kept = kConvert(data + i, n, block, tile[kInfinite]);
    if (kept) add_block(block, kept, moments, tile);
    i += n;
  }
  tile[kFinite] = moments.n, tile[kMean] = moments.mean;
  tile[kM2] = moments.m2, tile[kM3] = moments.m3, tile[kM4] = moments.m4;
}

}  // namespace ASSAY_ISA
