// The matches of a refining pass: sorting them, and finding magnitudes by rank.
#pragma once
#include <algorithm>
#include <memory>

#include "formats.h"
#include "kernel.h"

namespace ASSAY_ISA {
using namespace assay;

// Sorts the matches of one list by their halfwords.
static void sort_halfwords(uint32_t* values, size_t n, uint32_t* room) {
  if (n < 256) return std::sort(values, values + n);
  uint32_t places[2][257] = {};
  for (size_t i = 0; i < n; ++i) ++places[0][(values[i] & 255) + 1], ++places[1][(values[i] >> 8 & 255) + 1];
  for (int i = 0; i < 256; ++i) places[0][i + 1] += places[0][i], places[1][i + 1] += places[1][i];
  for (size_t i = 0; i < n; ++i) room[places[0][values[i] & 255]++] = values[i];
  for (size_t i = 0; i < n; ++i) values[places[1][room[i] >> 8 & 255]++] = room[i];
}

// Sorts the matches: first distributes them by list, then sorts each list by the two bytes of the halfword.
static void sort_matches(const uint32_t* matches, size_t n, uint32_t* out) {
  constexpr size_t kLists = 256;
  size_t starts[kLists + 1] = {}, places[kLists], longest = 0;
  for (size_t i = 0; i < n; ++i) ++starts[(matches[i] >> 16 & 255) + 1];
  for (size_t s = 0; s < kLists; ++s) {
    longest = starts[s + 1] > longest ? starts[s + 1] : longest;
    starts[s + 1] += starts[s];
  }
  std::memcpy(places, starts, sizeof places);
  for (size_t i = 0; i < n; ++i) out[places[matches[i] >> 16 & 255]++] = matches[i];
  std::unique_ptr<uint32_t[]> room(new uint32_t[longest + 1]);
  for (size_t s = 0; s < kLists; ++s) sort_halfwords(out + starts[s], starts[s + 1] - starts[s], room.get());
}

// The range of one list in the sorted keys.
struct Listed {
  size_t at, end;
  Listed(const uint32_t* keys, size_t n, uint64_t list)
      : at(std::lower_bound(keys, keys + n, list << 16) - keys),
        end(list ? std::lower_bound(keys + at, keys + n, (list + 1) << 16) - keys : at) {}
};

static inline double number_of(uint64_t bits, bool narrow) {
  return narrow ? double(bit_cast<float>(uint32_t(bits))) : bit_cast<double>(bits);
}

// Answers one query: visits the values of both signs with the prefix, in order of magnitude.
static void find_magnitude(const MatchesJob& job, const MagnitudeQuery& query, MagnitudeAnswer& answer) {
  Listed plus(job.keys, job.size, query.plus), minus(job.keys, job.size, query.minus);
  uint64_t before = 0, start = 0, last = ~uint64_t(0);
  while (plus.at < plus.end || minus.at < minus.end) {
    const bool take_plus =
        minus.at == minus.end || (plus.at < plus.end && (job.keys[plus.at] & 0xffff) <= (job.keys[minus.at] & 0xffff));
    const size_t at = take_plus ? plus.at++ : minus.at++;
    const uint64_t count = job.counts ? job.counts[at] : 1, key = query.prefix << 16 | (job.keys[at] & 0xffff);
    if (key != last) last = key, start = before;
    if (before <= query.rank && query.rank < before + count) answer.key = key, answer.rest = query.rank - start;
    if (query.rank < before + count) {
      const double value = number_of(key, job.narrow);
      answer.energy += double(before > query.rank ? count : before + count - query.rank) * value * value;
    }
    before += count;
  }
}

}  // namespace ASSAY_ISA
