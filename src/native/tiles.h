// Runs the row-wise pass over whole rows, with one record of sums per tile of rows.
#pragma once
#include "columns.h"
#include "kernel.h"

namespace ASSAY_ISA {

// A power of two that brings a peak far from 1 near it, so that sums of squares stay well inside the precision.
template <class S> static typename S::Real scale_for(typename S::Raw peak) {
  using T = typename S::Real;
  using Int = typename Bits<T>::Signed;
  constexpr Int kNear = sizeof(T) == 4 ? 40 : 400, kBias = Bits<T>::kBias;
  const Int exponent = bit_cast<Int>(S::value(peak)) >> Bits<T>::kMantissa;
  if (peak == 0 || (exponent > kBias - kNear && exponent < kBias + kNear)) return 1;
  return bit_cast<T>((exponent < 2 * kBias ? 2 * kBias - exponent : 1) << Bits<T>::kMantissa);
}

// Adds the sums of a row that was scaled.
static void finish_row(const RowSums& row, double scale, bool dead, double* tile) {
  const double undo = scale == 1 ? 1 : 1 / scale, norm = __builtin_sqrt(row.energy) * undo;
  const double sums[] = {row.energy,       row.error8_row, row.error4_row, row.error8_group,
                         row.error4_group, row.kept_1_4,   row.kept_2_4,   row.kept_4_8};
  for (int i = 0; i < 8; ++i) tile[i] += sums[i] * undo * undo;
  tile[kNormMin] = norm < tile[kNormMin] ? norm : tile[kNormMin];
  tile[kNormMax] = norm > tile[kNormMax] ? norm : tile[kNormMax];
  tile[kNormSum] += norm;
  tile[kDeadRows] += dead;
}

template <class S, bool kColumns> static void sweep(const RowJob& job, const Scratch& scratch) {
  using T = typename S::Real;
  const auto* data = static_cast<const typename S::Raw*>(job.data);
  Peaks<S> peaks{static_cast<T*>(scratch.peaks), 0}, next_peaks{peaks.groups + (job.cols + kGroup - 1) / kGroup, 0};
  constexpr bool kMayBeHard = S::kInfinity <= kMagnitude<S>;
  const Pass<S> pass{job.cols, {job.counts, job.counts + kPatterns}, static_cast<T*>(scratch.narrow), scratch.wide};
  if (S::kRounded) peaks.template take_all<false>(data, job.cols);
  for (size_t first = 0, t = 0; first < job.rows; first += job.tile_rows, ++t) {
    double* tile = job.tiles + t * job.tile_stride;
    tile[kNormMin] = __DBL_MAX__;
    const size_t last = first + job.tile_rows < job.rows ? first + job.tile_rows : job.rows;
    size_t flushed = first;
    bool narrow = false;  // whether narrow column sums may be smaller than they should
    for (size_t r = first; r < last; ++r) {
      const typename S::Raw* row = data + r * job.cols;
      const typename S::Raw* next = r + 1 < job.rows ? row + job.cols : nullptr;
      T scale = 1;
      bool hard = false;
      if (kMayBeHard) {
        hard = peaks.whole >= S::kInfinity;
        if (hard) peaks.template take_all<true>(row, job.cols);
        if (S::kUnderflows) scale = scale_for<S>(peaks.whole);
        hard |= scale != 1;
      }
      const auto add = hard ? add_row<S, kColumns, kMayBeHard> : add_row<S, kColumns, false>;
      const RowSums sums = add(pass, row, peaks, scale, next, next_peaks);
      finish_row(sums, scale, S::kRounded ? peaks.whole == 0 : sums.energy == 0, tile);
      narrow |= S::kUnderflows && !hard && peaks.whole != 0;
      std::swap(peaks, next_peaks);
      if (kColumns && (r + 1 - flushed == kFlushRows || r + 1 == last)) {
        flush_columns<S>(pass, data + flushed * job.cols, r + 1 - flushed, narrow, job);
        flushed = r + 1, narrow = false;
      }
    }
  }
}

}  // namespace ASSAY_ISA
