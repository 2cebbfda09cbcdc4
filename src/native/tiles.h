// Runs the row-wise pass over whole rows, with one record of sums per tile of rows.
#pragma once
#include "columns.h"
#include "kernel.h"

namespace ASSAY_ISA {

template <class S> static bool ordinary(typename S::Raw peak) {
  if (peak >= S::kInfinity) return false;
  if (sizeof(typename S::Real) == 8 || peak == 0) return true;
  const float value = float(S::value(peak));  // squares and reciprocals stay well inside single precision
  return value > 0x1p-40f && value < 0x1p60f;
}

template <class S> static void count_row(const typename S::Raw* row, size_t cols, Tally tally) {
  const uint16_t* halves = reinterpret_cast<const uint16_t*>(row) + S::kCountOffset;
  for (size_t i = 0; i < cols; ++i) ++(i & 1 ? tally.odd : tally.even)[halves[i * S::kCountStride]];
}

// Adds a row with non-finite or very large or small values: in double precision, with non-finite values as zero.
template <class S>
static void add_hard_row(const typename S::Raw* row, size_t cols, const Scratch& scratch, ColumnSums columns, RowSums& sums) {
  for (size_t i = 0; i < cols; ++i) {
    const bool finite = (row[i] & kMagnitude<S>) < S::kInfinity;
    scratch.wide_row[i] = finite ? double(S::value(row[i])) : 0.0;
  }
  if (columns.high) add_squares<S>(scratch.wide_row, cols, columns);
  using Double = Wide<double>;
  const uint64_t* raw = reinterpret_cast<const uint64_t*>(scratch.wide_row);
  Peaks<Double> peaks{scratch.wide_peaks, 0}, none{nullptr, 0};
  peaks.take_all(raw, cols);
  add_row<Double, false, false>(raw, cols, peaks, Tally{}, nullptr, sums, nullptr, none);
}

static void finish_row(const RowSums& row, double* tile) {
  const double norm = __builtin_sqrt(row.energy);
  const double sums[] = {row.energy,       row.error8_row, row.error4_row, row.error8_group,
                         row.error4_group, row.kept_1_4,   row.kept_2_4,   row.kept_4_8};
  for (int i = 0; i < 8; ++i) tile[i] += sums[i];
  tile[kNormMin] = norm < tile[kNormMin] ? norm : tile[kNormMin];
  tile[kNormMax] = norm > tile[kNormMax] ? norm : tile[kNormMax];
  tile[kNormSum] += norm;
  tile[kDeadRows] += row.energy == 0;
}

template <class S, bool kCount>
static void sweep(const RowJob& job, const Scratch& scratch) {
  using T = typename S::Real;
  const auto* data = static_cast<const typename S::Raw*>(job.data);
  Peaks<S> peaks{static_cast<T*>(scratch.peaks), 0}, next_peaks{peaks.groups + (job.cols + kGroup - 1) / kGroup, 0};
  T* narrow = static_cast<T*>(scratch.narrow);
  const Tally tally{job.counts, job.counts ? job.counts + 65536 : nullptr};
  const ColumnSums columns{job.column_high, job.column_low};
  if (job.rows) peaks.take_all(data, job.cols);
  for (size_t first = 0, t = 0; first < job.rows; first += job.tile_rows, ++t) {
    double* tile = job.tiles + t * job.tile_stride;
    tile[kNormMin] = __DBL_MAX__;
    const size_t last = first + job.tile_rows < job.rows ? first + job.tile_rows : job.rows;
    for (size_t r = first; r < last; ++r) {
      const typename S::Raw* row = data + r * job.cols;
      const typename S::Raw* next = r + 1 < job.rows ? row + job.cols : nullptr;
      RowSums sums;
      if (ordinary<S>(peaks.whole)) {
        const auto add = columns.high ? add_row<S, kCount, true> : add_row<S, kCount, false>;
        add(row, job.cols, peaks, tally, narrow, sums, next, next_peaks);
      } else {
        if (kCount) count_row<S>(row, job.cols, tally);
        add_hard_row<S>(row, job.cols, scratch, columns, sums);
        if (next) next_peaks.take_all(next, job.cols);
      }
      std::swap(peaks, next_peaks);
      finish_row(sums, tile);
      if (columns.high && ((r - first + 1) % kFlushRows == 0 || r + 1 == last))
        flush_columns(narrow, (job.cols + kGroup - 1) / kGroup * kGroup, columns.high, columns.low);
    }
  }
}

}  // namespace ASSAY_ISA
