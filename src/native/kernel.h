// The interface of every build of the kernel; plain data, so that builds share no inline code.
// A halfword is 16 bits of a value. Keep the fields in the order of layout.py.
#pragma once
#include <cstddef>
#include <cstdint>

namespace assay {

enum Format {
  kBFloat16, kFloat16, kFloat32, kFloat64, kInt32, kUInt32, kInt64, kUInt64,
  kInt8, kUInt8, kFloat8E4M3FN, kFloat8E5M2, kFloat8E4M3FNUZ, kFloat8E5M2FNUZ,
  kFormats
};

// The record of a tile: sums over its rows, then the norms of its rows, then the moments of wide formats.
enum TileField {
  kEnergy, kError8Row, kError4Row, kError8Group, kError4Group, kKept14, kKept24, kKept48,
  kNormMin, kNormMax, kNormSum, kDeadRows,
  kRowFields,
  kFinite = kRowFields, kMean, kM2, kM3, kM4, kL1, kMin, kMax, kZeros, kInfinite,
  kWideFields
};

constexpr int kPrunePoints = 7;
// The record of the last pass: squared error at 2…8 bits, e4m3, e5m2 and bf16, without values that overflow bf16; how many
// of these there are; energy above each edge.
enum ErrorField { kBits2, kE4M3 = 7, kE5M2, kBF16, kBF16Overflows, kAbove, kErrorFields = kAbove + kPrunePoints };

// The first fields of a summary; values at ranks, counts of bins, kept energies and rounding errors follow.
enum SumField {
  kSumCount, kSumMean, kSumM2, kSumM3, kSumM4, kSumL1, kSumEnergy, kSumZeros, kSumNear, kSumNearBelow, kSumPeak, kSums
};

struct RowJob {
  const void* data;
  size_t rows, cols, tile_rows;
  uint32_t* counts;  // two tables of 65,536
  double* tiles;
  size_t tile_stride;
  double *column_high, *column_low;  // in block order, whole groups of 128; or null
};

struct Scratch {
  void *peaks, *narrow;
  double* wide;
};

// A requested prefix: values with it are listed, and counted if their halfword is in the span of an edge.
struct Prefix {
  uint64_t bits;    // the bits of a value above the halfword
  uint32_t list;    // the number of the list for these values, or 0
  uint32_t edge, edges;  // the first edge with this prefix, and the number of edges
};

struct Edge {
  uint32_t low, span;
  uint64_t count;
};

struct RefineJob {
  const void* data;
  size_t count;
  int shift;             // position of the requested halfword, in bits
  const uint8_t* slots;    // by top halfword: the first prefix that starts with it, or 0
  const Prefix* prefixes;  // sorted, starting at index 1; index 0 matches no value
  size_t prefix_count;
  Edge* edges;       // with one extra at the end, for values without an edge
  uint32_t* matches;  // list << 16 | halfword
  size_t match_count;
  uint32_t* planes;  // counts of halfwords, for each position below the top; or null
};

struct ErrorJob {
  size_t tile_elements;
  double peak;
  double edges[kPrunePoints];
  double* tiles;
};

struct SummaryJob {
  const double* values;  // ascending, finite
  const uint64_t* counts;
  size_t size;
  const double *ranks, *edges, *removed;  // ascending; `removed` has one per point of the pruning curve
  size_t rank_count, edge_count;
  double near_share;
  double* out;
};

// Matches as sorted keys (list << 16 | halfword), and their counts; null if each stands for one value.
struct MatchesJob {
  const uint32_t* keys;
  const uint64_t* counts;
  size_t size;
  bool narrow;  // whether values have single precision
};

// The prefix of a magnitude, the lists of its positive and negative values, and the rank among values with it.
struct MagnitudeQuery {
  uint64_t prefix, plus, minus, rank;
};

struct MagnitudeAnswer {
  uint64_t key = 0, rest = 0;  // the prefix extended by the halfword, and the rank among equals
  double energy = 0;           // of the values from the rank on; valid if the key has all bits
};

struct Kernel {
  const char* name;
  void (*rows)(Format, const RowJob&, const Scratch&);
  void (*columns)(Format, const double* in_block_order, size_t cols, double* to);
  void (*count16)(const uint16_t*, size_t, uint32_t*);
  void (*split_pairs)(uint32_t* tables, uint64_t* counts);
  void (*moments)(Format, const void*, size_t count, double* tile);
  void (*refine)(Format, RefineJob&, const ErrorJob*);
  void (*digest)(const uint8_t*, size_t bytes, uint64_t* two);
  void (*summary)(const SummaryJob&);
  size_t (*occurring)(uint32_t* tables, uint16_t* patterns, uint64_t* counts);
  void (*sort_matches)(const uint32_t*, size_t, uint32_t* out);
  void (*magnitude)(const MatchesJob&, const MagnitudeQuery&, MagnitudeAnswer&);
  size_t (*distinct)(const void*, size_t item, size_t count, size_t limit, uint64_t* values, uint64_t* counts);
};

extern const Kernel kBaseline;
#if defined(ASSAY_X86)
extern const Kernel kAvx2, kAvx512;
#endif

}  // namespace assay
