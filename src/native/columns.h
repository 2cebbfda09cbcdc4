// Column sums that do not depend on the order of additions: pairs of doubles, to which narrow sums are flushed.
#pragma once
#include "rows.h"

namespace ASSAY_ISA {

struct ColumnSums {
  double *high, *low;  // in block order; null if column sums are not requested
};

static inline void add_exactly(double& high, double& low, double value) {
  const double sum = high + value, back = sum - high;
  low += (high - (sum - back)) + (value - back);
  high = sum;
}

// The column at each position of a loaded block: applies load8 to a block that contains its own positions.
template <class S> static void find_places(size_t* place) {
  using T = typename S::Real;
  using Probe = typename std::conditional<sizeof(typename S::Raw) == 2, BFloat16, S>::type;
  constexpr int kBlock = 8 * kLanes<T>;
  typename S::Raw positions[kBlock];
  for (int j = 0; j < kBlock; ++j)
    positions[j] = typename S::Raw(bit_cast<typename Bits<T>::Unsigned>(T(j)) >> 8 * (sizeof(T) - sizeof(typename S::Raw)));
  Vec<T> x[8];
  Probe::load8(positions, x);
  for (int k = 0; k < 8; ++k)
    for (int i = 0; i < kLanes<T>; ++i) place[k * kLanes<T> + i] = size_t(x[k][i]);
}

static void flush_columns(float* __restrict narrow, size_t padded, double* __restrict high, double* __restrict low) {
  for (size_t j = 0; j < padded; ++j) {
    add_exactly(high[j], low[j], double(narrow[j]));
    narrow[j] = 0;
  }
}
static void flush_columns(double* __restrict narrow, size_t padded, double* __restrict high, double* __restrict low) {
  for (size_t j = 0; j < padded; ++j) {
    add_exactly(high[j], low[j], narrow[j]);
    narrow[j] = 0;
  }
}

// Adds the squares of a row of doubles, in block order.
template <class S> static void add_squares(const double* row, size_t cols, ColumnSums columns) {
  constexpr size_t kBlock = 8 * kLanes<typename S::Real>;
  size_t place[kBlock];
  find_places<S>(place);
  for (size_t start = 0; start < cols; start += kBlock)
    for (size_t j = 0; j < kBlock; ++j)
      if (start + place[j] < cols) {
        const double value = row[start + place[j]];
        add_exactly(columns.high[start + j], columns.low[start + j], value * value);
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
