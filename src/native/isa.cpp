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

static void run_rows(Format format, const RowJob& job, const Scratch& scratch) {
  const bool counting = job.counts != nullptr;
  switch (format) {
    case kBFloat16: return counting ? sweep<BFloat16, true>(job, scratch) : sweep<BFloat16, false>(job, scratch);
    case kFloat16: return sweep<Float16, true>(job, scratch);
    case kFloat32: return sweep<Wide<float>, true>(job, scratch);
    case kFloat64: return sweep<Wide<double>, true>(job, scratch);
    default: return;
  }
}

static void run_columns(Format format, const double* from, size_t cols, double* to) {
  using Run = void (*)(const double*, size_t, double*);
  static constexpr Run kRuns[] = {place_columns<BFloat16>, place_columns<Float16>, place_columns<Wide<float>>,
                                  place_columns<Wide<double>>};
  kRuns[format](from, cols, to);
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

static void count8(const uint8_t* data, size_t count, uint32_t* tables) {
  size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    uint64_t eight;
    std::memcpy(&eight, data + i, sizeof eight);
    for (int k = 0; k < 8; ++k) ++tables[(k & 3) * 256 + (eight >> 8 * k & 0xff)];
  }
  for (; i < count; ++i) ++tables[data[i]];
}

template <class T> static void integers(const void* data, size_t count, double* tile) {
  add_moments<T, as_doubles<T>>(static_cast<const T*>(data), count, tile);
}
template <class T> static void floats(const void* data, size_t count, double* tile) {
  add_moments<T, finite_doubles<T>>(static_cast<const T*>(data), count, tile);
}

static void run_moments(Format format, const void* data, size_t count, double* tile) {
  using Run = void (*)(const void*, size_t, double*);
  static constexpr Run kRuns[kFormats] = {nullptr,           nullptr,           floats<float>,     floats<double>,
                                          integers<int32_t>, integers<uint32_t>, integers<int64_t>, integers<uint64_t>};
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
                             ASSAY_ISA::count8,     ASSAY_ISA::run_moments, ASSAY_ISA::run_refine,  ASSAY_ISA::digest,
                             ASSAY_ISA::summary,    ASSAY_ISA::occurring,   ASSAY_ISA::sort_matches,
                             ASSAY_ISA::find_magnitude, ASSAY_ISA::run_distinct};
}  // namespace assay
