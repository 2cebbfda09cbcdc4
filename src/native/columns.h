// Column sums that do not depend on the order of additions: pairs of doubles, to which narrow sums are flushed.
#pragma once
#include "kernel.h"
#include "rows.h"

namespace ASSAY_ISA {
using namespace assay;

constexpr size_t kFlushRows = 64;  // narrow column sums are flushed to pairs of doubles after this many rows

static inline void add_exactly(double& high, double& low, double value) {
  const double sum = high + value, back = sum - high;
  low += (high - (sum - back)) + (value - back);
  high = sum;
}

// The column at each position of a loaded block: applies load8 to a block that contains its own positions.
template <class S> static void find_places(size_t* place) {
  using T = typename S::Real;
  using Raw = typename S::Raw;
  using Probe = typename std::conditional<sizeof(Raw) == 1, UInt8,
                                          typename std::conditional<sizeof(Raw) == 2, BFloat16, S>::type>::type;
  constexpr int kBlock = 8 * kLanes<T>;
  Raw positions[kBlock];
  for (int j = 0; j < kBlock; ++j) {
    const auto bits = bit_cast<typename Bits<T>::Unsigned>(T(j));
    positions[j] = sizeof(Raw) == 1 ? Raw(j) : Raw(bits >> 8 * (sizeof(T) - sizeof(Raw)));
  }
  Vec<T> x[8];
  Probe::load8(positions, x);
  for (int k = 0; k < 8; ++k)
    for (int i = 0; i < kLanes<T>; ++i) place[k * kLanes<T> + i] = size_t(x[k][i]);
}

// The column sums of a block over some rows, in double precision.
template <class S>
static void sum_block(const typename S::Raw* from, size_t rows, size_t cols, size_t start, double* sums) {
  constexpr size_t kBlock = 8 * kLanes<typename S::Real>;
  const size_t here = cols - start < kBlock ? cols - start : kBlock;
  typename S::Raw padded[kBlock] = {};
  for (size_t j = 0; j < kBlock; ++j) sums[j] = 0;
  for (size_t r = 0; r < rows; ++r) {
    std::memcpy(padded, from + r * cols + start, here * sizeof *from);
    Vec<typename S::Real> x[8];
    load8_finite<S>(padded, x);
    add_wide_squares<typename S::Real>(x, 1, sums);
  }
}

// Adds the sums of the last rows to the pairs. Small sums are computed again if narrow squares may have underflowed.
template <class S>
static void flush_columns(const Pass<S>& pass, const typename S::Raw* from, size_t rows, bool check, const RowJob& job) {
  using T = typename S::Real;
  constexpr size_t kBlock = 8 * kLanes<T>;
  size_t place[kBlock];
  find_places<S>(place);
  for (size_t start = 0; start < pass.cols; start += kBlock) {
    T* narrow = pass.narrow + start;
    double *wide = pass.wide + start, *high = job.column_high + start, *low = job.column_low + start;
    double sums[kBlock], exact[kBlock];
    const bool whole = start + kBlock <= pass.cols;
    bool small = false;
    for (size_t j = 0; j < kBlock; ++j) {
      sums[j] = double(narrow[j]) + wide[j];
      small |= narrow[j] < kNegligible<T> && (whole || start + place[j] < pass.cols);
      narrow[j] = 0, wide[j] = 0;
    }
    if (small && check) {
      sum_block<S>(from, rows, pass.cols, start, exact);
      for (size_t j = 0; j < kBlock; ++j) sums[j] = sums[j] < kNegligible<T> ? exact[j] : sums[j];
    }
    for (size_t j = 0; j < kBlock; ++j) add_exactly(high[j], low[j], sums[j]);
  }
}

// Copies sums from block order to column order.
template <class S> static void place_columns(const double* from, size_t cols, double* to) {
  constexpr size_t kBlock = 8 * kLanes<typename S::Real>;
  size_t place[kBlock];
  find_places<S>(place);
  for (size_t start = 0; start < cols; start += kBlock)
    for (size_t j = 0; j < kBlock; ++j)
      if (start + place[j] < cols) to[start + place[j]] = from[start + j];
}

}  // namespace ASSAY_ISA
