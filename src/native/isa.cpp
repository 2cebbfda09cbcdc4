// The kernel for one instruction set, named by ASSAY_ISA; compiled once per instruction set.
#include "digest.h"
#include "distinct.h"
#include "finds.h"
#include "kernel.h"
#include "moments.h"
#include "refine.h"
#include "summary.h"
#include "tiles.h"

namespace ASSAY_ISA {

template <class S> struct RowFormat {
  static void rows(const RowJob& job, const Scratch& scratch) {
    job.column_high ? sweep<S, true>(job, scratch) : sweep<S, false>(job, scratch);
  }
  static void columns(const double* from, size_t cols, double* to) { place_columns<S>(from, cols, to); }
};

// Calls a function of the format of rows: `run` is given a RowFormat.
template <class Run> static void with_format(Format format, Run run) {
  switch (format) {
    case kBFloat16: return run(RowFormat<BFloat16>{});
    case kFloat16: return run(RowFormat<Float16>{});
    case kFloat32: return run(RowFormat<Wide<float>>{});
    case kFloat64: return run(RowFormat<Wide<double>>{});
    case kInt8: return run(RowFormat<Int8>{});
    case kUInt8: return run(RowFormat<UInt8>{});
    case kFloat8E4M3FN: return run(RowFormat<E4M3FN>{});
    case kFloat8E5M2: return run(RowFormat<E5M2>{});
    case kFloat8E4M3FNUZ: return run(RowFormat<E4M3FNUZ>{});
    case kFloat8E5M2FNUZ: return run(RowFormat<E5M2FNUZ>{});
    default: return;
  }
}

static void run_rows(Format format, const RowJob& job, const Scratch& scratch) {
  with_format(format, [&](auto rows_of) { rows_of.rows(job, scratch); });
}

static void run_columns(Format format, const double* from, size_t cols, double* to) {
  with_format(format, [&](auto rows_of) { rows_of.columns(from, cols, to); });
}

static void count16(const uint16_t* data, size_t count, uint32_t* tables) {
  size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    uint64_t two[2];
    std::memcpy(two, data + i, sizeof two);
    for (int k = 0; k < 64; k += 32)
      for (uint64_t four : two) ++tables[four >> k & 0xffff], ++tables[65536 + (four >> (k + 16) & 0xffff)];
  }
  for (; i < count; ++i) ++tables[data[i]];
}

template <class T> static void moments_of(const void* data, size_t count, double* tile) {
  add_moments(static_cast<const T*>(data), count, tile);
}

static void run_moments(Format format, const void* data, size_t count, double* tile) {
  using Run = void (*)(const void*, size_t, double*);
  static constexpr Run kRuns[kFormats] = {nullptr,
                                          nullptr,
                                          moments_of<float>,
                                          moments_of<double>,
                                          moments_of<int32_t>,
                                          moments_of<uint32_t>,
                                          moments_of<int64_t>,
                                          moments_of<uint64_t>};
  kRuns[format](data, count, tile);
}

static void run_refine(Format format, RefineJob& job, const ErrorJob* errors) {
  if (errors && format == kFloat32) return refine_floats<float>(job, *errors);
  if (errors && format == kFloat64) return refine_floats<double>(job, *errors);
  const bool narrow = format == kFloat32 || format == kInt32 || format == kUInt32;
  return narrow ? refine_only<uint32_t>(job) : refine_only<uint64_t>(job);
}

}  // namespace ASSAY_ISA

namespace assay {
#define ASSAY_TEXT_OF(name) #name
#define ASSAY_TEXT(name) ASSAY_TEXT_OF(name)
const Kernel ASSAY_KERNEL = {ASSAY_TEXT(ASSAY_ISA), ASSAY_ISA::run_rows,    ASSAY_ISA::run_columns, ASSAY_ISA::count16,
                             ASSAY_ISA::split_pairs, ASSAY_ISA::run_moments, ASSAY_ISA::run_refine,  ASSAY_ISA::digest,
                             ASSAY_ISA::summary,    ASSAY_ISA::occurring,   ASSAY_ISA::sort_matches,
                             ASSAY_ISA::find_magnitude, ASSAY_ISA::run_distinct};
}  // namespace assay
