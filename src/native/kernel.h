// What every instruction set's build of the kernel offers; plain data, so that builds share no inline code.
#pragma once
#include <cstddef>
#include <cstdint>

namespace assay {

enum Format { kBFloat16, kFloat16, kFloat32, kFloat64, kInt32, kUInt32, kInt64, kUInt64, kFormats };

// A tile's record: sums over its rows, then the spread of its rows' norms, then the moments of wide formats.
enum TileField {
  kEnergy, kError8Row, kError4Row, kError8Group, kError4Group, kKept14, kKept24, kKept48,
  kNormMin, kNormMax, kNormSum, kDeadRows,
  kRowFields,
  kFinite = kRowFields, kMean, kM2, kM3, kM4, kL1, kMin, kMax, kZeros, kInfinite,
  kWideFields
};

constexpr int kPrunePoints = 7;
// The second pass's record: squared error at 2…8 bits, e4m3, e5m2 and bf16; energy above each edge; near-zeros.
enum ErrorField { kBits2, kE4M3 = 7, kE5M2, kBF16, kAbove, kNear = kAbove + kPrunePoints, kErrorFields };

struct RowJob {
  const void* data;
  size_t rows, cols, tile_rows;
  uint32_t* counts;  // two tables of 65,536, or null
  double* tiles;
  size_t tile_stride;
  double *column_high, *column_low;  // in block order, whole groups of 128; or null
};

struct Scratch {
  void *peaks, *narrow;
  double *wide_row, *wide_peaks;
};

struct RefineJob {
  const void* data;
  size_t count;
  int shift;                 // of the halfword wanted, in bits
  const uint8_t* slots;      // by top halfword: 0, or 1 + the first prefix with it
  const uint64_t* prefixes;  // sorted; a value's bits above the halfword
  size_t prefix_count;
  uint32_t* found;           // (1 + index of prefix) << 16 | halfword
  size_t found_count;
  uint32_t* planes;          // counts of each halfword below the top, or null
};

struct ErrorJob {
  size_t tile_elements;
  double peak, near;
  double edges[kPrunePoints];
  double* tiles;
  double* wide;  // room for one tile as doubles
};

struct Kernel {
  const char* name;
  void (*rows)(Format, const RowJob&, const Scratch&);
  void (*columns)(Format, const double* in_block_order, size_t cols, double* to);
  void (*count16)(const uint16_t*, size_t, uint32_t*);
  void (*count8)(const uint8_t*, size_t, uint32_t*);
  void (*moments)(Format, const void*, size_t count, double* tile);
  void (*refine)(Format, RefineJob&, const ErrorJob*);
  void (*digest)(const uint8_t*, size_t bytes, uint64_t* two);
};

extern const Kernel kBaseline;
#if defined(ASSAY_X86)
extern const Kernel kAvx2, kAvx512;
#endif

}  // namespace assay
