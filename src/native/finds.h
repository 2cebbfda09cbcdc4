// A refining pass's finds: put in order, and asked for magnitudes by rank.
#pragma once
#include <algorithm>
#include <memory>

#include "formats.h"
#include "kernel.h"

namespace ASSAY_ISA {
using namespace assay;

// Sorts values of one list by their halfwords.
static void sort_halfwords(uint32_t* values, size_t n, uint32_t* room) {
  if (n < 256) return std::sort(values, values + n);
  uint32_t places[2][257] = {};
  for (size_t i = 0; i < n; ++i) ++places[0][(values[i] & 255) + 1], ++places[1][(values[i] >> 8 & 255) + 1];
  for (int i = 0; i < 256; ++i) places[0][i + 1] += places[0][i], places[1][i + 1] += places[1][i];
  for (size_t i = 0; i < n; ++i) room[places[0][values[i] & 255]++] = values[i];
  for (size_t i = 0; i < n; ++i) values[places[1][room[i] >> 8 & 255]++] = room[i];
}

// The finds in rising order: dealt out by list, then each list's halfwords by their two bytes.
static void sort_finds(const uint32_t* found, size_t n, uint32_t* out) {
  constexpr size_t kLists = 256;
  size_t starts[kLists + 1] = {}, places[kLists], longest = 0;
  for (size_t i = 0; i < n; ++i) ++starts[(found[i] >> 16 & 255) + 1];
  for (size_t s = 0; s < kLists; ++s) {
    longest = starts[s + 1] > longest ? starts[s + 1] : longest;
    starts[s + 1] += starts[s];
  }
  std::memcpy(places, starts, sizeof places);
  for (size_t i = 0; i < n; ++i) out[places[found[i] >> 16 & 255]++] = found[i];
  std::unique_ptr<uint32_t[]> room(new uint32_t[longest + 1]);
  for (size_t s = 0; s < kLists; ++s) sort_halfwords(out + starts[s], starts[s + 1] - starts[s], room.get());
}

// The finds of one list: where they lie among the sorted keys.
struct Listed {
  size_t at, end;
  Listed(const uint32_t* keys, size_t n, uint64_t list)
      : at(std::lower_bound(keys, keys + n, list << 16) - keys),
        end(list ? std::lower_bound(keys + at, keys + n, (list + 1) << 16) - keys : at) {}
};

static inline double number_of(uint64_t bits, bool narrow) {
  return narrow ? double(bit_cast<float>(uint32_t(bits))) : bit_cast<double>(bits);
}

// One magnitude: values of both signs behind a prefix are gone through from the smallest.
static void find_magnitude(const FindsJob& job, const MagnitudeWanted& wanted, MagnitudeFound& found) {
  Listed plus(job.keys, job.size, wanted.plus), minus(job.keys, job.size, wanted.minus);
  uint64_t before = 0, start = 0, last = ~uint64_t(0);
  while (plus.at < plus.end || minus.at < minus.end) {
    const bool take_plus =
        minus.at == minus.end || (plus.at < plus.end && (job.keys[plus.at] & 0xffff) <= (job.keys[minus.at] & 0xffff));
    const size_t at = take_plus ? plus.at++ : minus.at++;
    const uint64_t often = job.counts ? job.counts[at] : 1, key = wanted.prefix << 16 | (job.keys[at] & 0xffff);
    if (key != last) last = key, start = before;
    if (before <= wanted.rank && wanted.rank < before + often) found.key = key, found.rest = wanted.rank - start;
    if (wanted.rank < before + often) {
      const double value = number_of(key, job.narrow);
      found.energy += double(before > wanted.rank ? often : before + often - wanted.rank) * value * value;
    }
    before += often;
  }
}

}  // namespace ASSAY_ISA
