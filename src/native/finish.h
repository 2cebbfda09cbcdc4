// What follows from the results of the passes: statistics of distinct values, and sums over the records of tiles.
#pragma once
#include "kernel.h"

namespace assay {

enum Order { kFloatOrder, kSignedOrder, kUnsignedOrder };

constexpr int kQuantiles = 11, kBins = 64;

// The record of a table of values. Summary fields, quantiles, bins, kept energies and errors up to bf16 follow.
enum TableField { kNan, kInf, kDistinct, kDenormals, kCodedBits, kEntropyBits, kLow, kHigh, kTableFields };
constexpr int kQuantileFields = kTableFields + kSums, kBinFields = kQuantileFields + kQuantiles,
              kKeptFields = kBinFields + kBins, kCastFields = kKeptFields + kPrunePoints,
              kTableRecord = kCastFields + kAbove;

struct TableJob {
  const uint16_t* patterns;  // ascending; or null
  const uint64_t* raws;      // ascending; or null
  const uint64_t *counts;    // how often each is stored
  const uint64_t *weights;   // and how often it counts in the tensor
  size_t size;
  const double* numbers;  // the value of every pattern; null for raws
  Format format;          // of raws
  Order order;
  int bits;  // of a pattern or raw
  double tiny;  // the smallest normal number
  const double *quantiles, *shares;
  double near_share;
};

// Fields of the sums over tiles: those of a record up to kRowFields, then the norms of the columns.
enum ColumnField { kColumnMin = kRowFields, kColumnMax, kColumnMean, kColumnStd, kColumnDead, kRowSums };

void finish_table(const TableJob& job, double* out);
void sum_rows(const double* records, size_t tiles, size_t stride, const double* columns, size_t cols, double* out);

}  // namespace assay
