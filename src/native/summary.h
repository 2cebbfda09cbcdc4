// Statistics of values in ascending order and their counts: sums, ranks, bins, pruning and rounding errors.
#pragma once
#include <memory>

#include "kernel.h"
#include "refine.h"

namespace ASSAY_ISA {
using namespace assay;

using Doubles = Vec<double>;
constexpr size_t kStep = kLanes<double>;

// Values and counts as doubles, padded with values of count zero.
struct Table {
  size_t size, padded;
  std::unique_ptr<double[]> room;
  double *values, *counts;
  explicit Table(const SummaryJob& job)
      : size(job.size), padded((job.size + kStep - 1) / kStep * kStep), room(new double[2 * padded]()),
        values(room.get()), counts(room.get() + padded) {
    std::memcpy(values, job.values, size * sizeof(double));
    for (size_t i = 0; i < size; ++i) counts[i] = double(job.counts[i]);
  }
  template <class Each> inline double sum(const Each& each) const {
    Doubles total{};
    for (size_t i = 0; i < padded; i += kStep) total += load<double>(counts + i) * each(load<double>(values + i));
    return sum_of<double>(total);
  }
};

static inline Doubles magnitude_of(Doubles v) { return (Doubles)((Vec<int64_t>)v & INT64_MAX); }

static void sum_powers(const Table& table, double peak, double near_share, double* out) {
  const double n = table.sum([](Doubles) { return splat(1.0); });
  // Even the sum of two huge values may overflow.
  const double unit = peak * n < 0x1p1000 ? 1 : n;
  double mean = table.sum([=](Doubles v) { return v / unit; }) / (n / unit);
  mean += table.sum([=](Doubles v) { return (v - mean) / unit; }) / (n / unit);
  out[kSumCount] = n, out[kSumMean] = mean;
  out[kSumM2] = table.sum([=](Doubles v) { return (v - mean) * (v - mean); });
  out[kSumM3] = table.sum([=](Doubles v) { const Doubles d = v - mean; return d * d * d; });
  out[kSumM4] = table.sum([=](Doubles v) { const Doubles d = v - mean; return d * d * (d * d); });
  out[kSumL1] = table.sum([](Doubles v) { return magnitude_of(v); });
  out[kSumEnergy] = table.sum([](Doubles v) { return v * v; });
  // Relative to the peak, so that no square overflows.
  const double near =
      peak > 0 ? near_share * peak * __builtin_sqrt(table.sum([=](Doubles v) { return v / peak * (v / peak); }) / n) : 0;
  out[kSumNearBelow] = near;
  for (size_t i = 0; i < table.size; ++i) {
    const double v = table.values[i];
    out[kSumZeros] += v == 0 ? table.counts[i] : 0;
    out[kSumNear] += v <= near && v >= -near ? table.counts[i] : 0;
  }
}

// The values at the ranks below and above every quantile.
static void find_quantiles(const Table& table, const SummaryJob& job, double* out) {
  double before = 0;
  size_t at = 0;
  for (size_t q = 0; q < job.rank_count; ++q) {
    while (at + 1 < table.size && before + table.counts[at] <= job.ranks[q]) before += table.counts[at++];
    out[q] = table.values[at];
  }
}

static void fill_bins(const Table& table, const SummaryJob& job, double* out) {
  size_t bin = 0;
  for (size_t i = 0; i < table.size; ++i) {
    while (bin < job.edge_count && job.edges[bin] <= table.values[i]) ++bin;
    out[bin] += table.counts[i];
  }
}

// The energy that remains when shares of the smallest values are set to zero; visits the largest magnitudes first.
static void prune(const Table& table, const SummaryJob& job, double* out) {
  size_t low = 0, high = table.size;
  double left = 0, kept = 0;
  for (size_t i = 0; i < table.size; ++i) left += table.counts[i];
  int point = kPrunePoints - 1;
  while (low < high && point >= 0) {
    const size_t at = -table.values[low] > table.values[high - 1] ? low++ : --high;
    const double square = table.values[at] * table.values[at], count = table.counts[at];
    while (point >= 0 && left - count <= job.removed[point]) {
      out[point] = kept + (left - job.removed[point]) * square;
      --point;
    }
    left -= count, kept += count * square;
  }
}

static void sum_errors(const Table& table, double peak, double* out) {
  if (!(peak > 0)) return;
  for (int b = 0; b < 7; ++b) {
    const double unit = peak / ((1 << (b + 1)) - 1);
    if (!(unit > 0)) continue;
    out[kBits2 + b] = table.sum([=](Doubles v) {
      const Doubles steps = v / unit, shifted = steps + kRounder<double>, d = v - (shifted - kRounder<double>) * unit;
      return d * d;
    });
  }
  const double unit4 = peak / 448, unit5 = peak / 57344;
  out[kE4M3] = table.sum([=](Doubles v) {
    const Doubles scaled = v / peak * 448.0, d = (scaled - rounded<double, 3, -6>(scaled)) * unit4;
    return d * d;
  });
  out[kE5M2] = table.sum([=](Doubles v) {
    const Doubles scaled = v / peak * 57344.0, d = (scaled - rounded<double, 2, -14>(scaled)) * unit5;
    return d * d;
  });
  const auto fits = [](Doubles v) { return magnitude_of(v) < kBF16Overflow; };
  out[kBF16] = table.sum([=](Doubles v) {
    const Doubles d = where<double>(fits(v), v - rounded<double, 7, -126>(v));
    return d * d;
  });
  out[kBF16Overflows] = table.sum([=](Doubles v) { return where<double>(~fits(v), splat(1.0)); });
}

static void summary(const SummaryJob& job) {
  const Table table(job);
  double* out = job.out;
  const double low = -table.values[0], high = table.values[table.size - 1], peak = low > high ? low : high;
  out[kSumPeak] = peak;
  sum_powers(table, peak, job.near_share, out);
  out += kSums;
  find_quantiles(table, job, out);
  out += job.rank_count;
  fill_bins(table, job, out);
  out += job.edge_count + 1;
  prune(table, job, out);
  sum_errors(table, peak, out + kPrunePoints);
}

}  // namespace ASSAY_ISA
