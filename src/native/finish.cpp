#include "finish.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "dispatch.h"
#include "entropy.h"

namespace assay {
namespace {

struct Values {
  std::vector<double> numbers;
  std::vector<uint64_t> weights;
};

double number_of(const TableJob& job, size_t i) {
  if (job.numbers) return job.numbers[job.patterns[i]];
  const uint64_t raw = job.raws[i];
  const auto as = [raw](auto value) {
    std::memcpy(&value, &raw, sizeof value);
    return double(value);
  };
  switch (job.format) {
    case kFloat32: return as(float());
    case kFloat64: return as(double());
    case kInt32: return as(int32_t());
    case kUInt32: return as(uint32_t());
    case kInt64: return as(int64_t());
    default: return as(uint64_t());
  }
}

// Visits the values in ascending order, with NaN at either end.
template <class Visit> void ascend(const TableJob& job, const Visit& visit) {
  const auto raw = [&](size_t i) { return job.patterns ? job.patterns[i] : job.raws[i]; };
  const uint64_t sign = uint64_t(1) << (job.bits - 1);
  size_t negative = job.size;  // the first value with the sign bit
  while (job.order != kUnsignedOrder && negative && raw(negative - 1) >= sign) --negative;
  if (job.order == kFloatOrder)
    for (size_t i = job.size; i > negative; --i) visit(i - 1);
  else
    for (size_t i = negative; i < job.size; ++i) visit(i);
  for (size_t i = 0; i < negative; ++i) visit(i);
}

Values finite_values(const TableJob& job, double* out) {
  Values found;
  found.numbers.reserve(job.size), found.weights.reserve(job.size);
  bool infinities[2] = {}, nan = false;
  ascend(job, [&](size_t i) {
    const double number = number_of(job, i) + 0.0, weight = double(job.weights[i]);
    if (std::isnan(number)) {
      out[kNan] += weight, nan = true;
    } else if (std::isinf(number)) {
      out[kInf] += weight, infinities[number > 0] = true;
    } else {
      out[kDistinct] += found.numbers.empty() || found.numbers.back() != number;
      out[kDenormals] += number != 0 && std::fabs(number) < job.tiny ? weight : 0;
      found.numbers.push_back(number), found.weights.push_back(job.weights[i]);
    }
  });
  out[kDistinct] += double(nan) + infinities[0] + infinities[1];
  return found;
}

// The bits of an order-0 code of the patterns, or of each halfword of the raw values by itself.
double coded_bits(const TableJob& job) {
  if (job.patterns) return Entropy(job.counts, job.size).total_bits();
  thread_local std::unique_ptr<uint64_t[]> halfwords(new uint64_t[65536]());  // empty between calls
  double bits = 0;
  for (int shift = 0; shift < job.bits; shift += 16) {
    const auto count_of = [&](size_t i) -> uint64_t& { return halfwords[job.raws[i] >> shift & 0xffff]; };
    for (size_t i = 0; i < job.size; ++i) count_of(i) += job.counts[i];
    Entropy entropy;
    for (size_t i = 0; i < job.size; ++i) entropy.add(std::exchange(count_of(i), 0));
    bits += entropy.total_bits();
  }
  return bits;
}

struct Rank {
  double below, part;  // the rank below a quantile, and the fraction of the way to the next rank
};

void interpolate(const Rank* ranks, const std::vector<double>& needed, const double* at, double* out) {
  const auto value_at = [&](double rank) { return at[std::lower_bound(needed.begin(), needed.end(), rank) - needed.begin()]; };
  for (int q = 0; q < kQuantiles; ++q) {
    const double low = value_at(ranks[q].below);
    out[q] = ranks[q].part ? low + ranks[q].part * (value_at(ranks[q].below + 1) - low) : low;
  }
}

void add_summary(const TableJob& job, const Values& values, double* out) {
  uint64_t total = 0;
  for (uint64_t weight : values.weights) total += weight;
  const double n = double(total), last = double(total - 1), low = values.numbers.front(), high = values.numbers.back();
  Rank ranks[kQuantiles];
  std::vector<double> needed;
  for (int q = 0; q < kQuantiles; ++q) {
    const double position = job.quantiles[q] * last, below = std::min(std::floor(position), last);
    ranks[q] = {below, position - below};
    needed.push_back(below);
    if (ranks[q].part) needed.push_back(below + 1);
  }
  std::sort(needed.begin(), needed.end());
  needed.erase(std::unique(needed.begin(), needed.end()), needed.end());
  double edges[kBins - 1], removed[kPrunePoints];
  const double step = std::isfinite(high - low) ? (high - low) / kBins : high / kBins - low / kBins;
  const size_t edge_count = low < high ? kBins - 1 : 0;
  for (size_t e = 0; e < edge_count; ++e) edges[e] = double(e + 1) * step + low;
  for (int p = 0; p < kPrunePoints; ++p) removed[p] = std::floor(job.shares[p] * n);
  std::vector<double> record(kSums + needed.size() + edge_count + 1 + kPrunePoints + kAbove);
  chosen_kernel().summary(SummaryJob{values.numbers.data(), values.weights.data(), values.numbers.size(), needed.data(), edges,
                                     removed, needed.size(), edge_count, job.near_share, record.data()});
  const double *sums = record.data(), *at = sums + kSums, *bins = at + needed.size(), *kept = bins + edge_count + 1;
  out[kLow] = low, out[kHigh] = high;
  std::copy(sums, at, out + kTableFields);
  interpolate(ranks, needed, at, out + kQuantileFields);
  std::copy(bins, kept, out + kBinFields);
  std::copy(kept, sums + record.size(), out + kKeptFields);
  Entropy entropy;
  for (size_t b = 0; b <= edge_count; ++b) entropy.add(uint64_t(bins[b]));
  out[kEntropyBits] = entropy.bits();
}

// Sums whose rounding error does not grow with their number, by Neumaier's method.
struct ExactSum {
  double sum = 0, rest = 0;
  void add(double value) {
    const double next = sum + value;
    rest += std::fabs(sum) >= std::fabs(value) ? (sum - next) + value : (value - next) + sum;
    sum = next;
  }
  double value() const { return std::isfinite(sum) ? sum + rest : sum; }
};

void sum_columns(const double* columns, size_t cols, double* out) {
  std::unique_ptr<double[]> norms(new double[cols]);
  double total = 0, low = std::numeric_limits<double>::infinity(), high = 0, squares = 0;
  for (size_t j = 0; j < cols; ++j) {
    const double norm = norms[j] = std::sqrt(columns[j] + columns[cols + j]);
    total += norm, low = std::min(low, norm), high = std::max(high, norm);
    out[kColumnDead] += norm == 0;
  }
  const double mean = total / double(cols);
  for (size_t j = 0; j < cols; ++j) squares += (norms[j] - mean) * (norms[j] - mean);
  out[kColumnMin] = low, out[kColumnMax] = high, out[kColumnMean] = mean, out[kColumnStd] = std::sqrt(squares / double(cols));
}

}  // namespace

void finish_table(const TableJob& job, double* out) {
  out[kCodedBits] = coded_bits(job);
  const Values values = finite_values(job, out);
  if (!values.numbers.empty()) add_summary(job, values, out);
}

void sum_rows(const double* records, size_t tiles, size_t stride, const double* columns, size_t cols, double* out) {
  ExactSum sums[kRowFields];
  double low = std::numeric_limits<double>::infinity(), high = 0;
  for (size_t t = 0; t < tiles; ++t) {
    const double* record = records + t * stride;
    for (int f = 0; f < kRowFields; ++f) sums[f].add(record[f]);
    low = std::min(low, record[kNormMin]), high = std::max(high, record[kNormMax]);
  }
  for (int f = 0; f < kRowFields; ++f) out[f] = sums[f].value();
  out[kNormMin] = low, out[kNormMax] = high;
  if (cols) sum_columns(columns, cols, out);
}

}  // namespace assay
