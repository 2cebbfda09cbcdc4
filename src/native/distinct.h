// Patterns that occur and their counts: read from tables of counts, or from a small hash table if there are few.
#pragma once
#include <memory>

#include "vectors.h"

namespace ASSAY_ISA {

// Extracts the patterns with a count in either of two tables and clears the tables; returns their number.
static size_t occurring(uint32_t* tables, uint16_t* patterns, uint64_t* counts) {
  constexpr size_t kN = kLanes<uint32_t>, kTable = 65536;
  size_t used = 0;
  for (size_t i = 0; i < kTable; i += kN) {
    const Vec<uint32_t> even = load<uint32_t>(tables + i), odd = load<uint32_t>(tables + kTable + i), any = even | odd;
    if (!any_of<uint32_t>(any)) continue;
    for (size_t k = 0; k < kN; ++k) {
      patterns[used] = uint16_t(i + k);
      counts[used] = uint64_t(even[k]) + odd[k];
      used += any[k] != 0;
    }
    store(tables + i, Vec<uint32_t>{});
    store(tables + kTable + i, Vec<uint32_t>{});
  }
  return used;
}

template <class Raw> struct FewValues {
  size_t limit, room = 16, size = 0;
  uint64_t *values, *counts;
  std::unique_ptr<uint32_t[]> places;
  FewValues(size_t limit, uint64_t* values, uint64_t* counts) : limit(limit), values(values), counts(counts) {
    while (room < 4 * limit) room *= 2;
    places.reset(new uint32_t[room]());
  }
  // The index of the value, which is added if it is new; `limit` or more means that there are too many values.
  inline size_t find(Raw raw) {
    size_t at = (uint64_t(raw) * 0x9e3779b97f4a7c15u >> 20) & (room - 1);
    while (places[at] && values[places[at] - 1] != raw) at = (at + 1) & (room - 1);
    if (places[at]) return places[at] - 1;
    values[size] = raw, counts[size] = 0;
    places[at] = uint32_t(size + 1);
    return size++;
  }
};

// Distinct values and their counts; returns their number, or `limit + 1` if there are more than `limit`.
template <class Raw>
static size_t few_values(const Raw* data, size_t count, size_t limit, uint64_t* values, uint64_t* counts) {
  constexpr size_t kN = kLanes<Raw>;
  FewValues<Raw> few(limit, values, counts);
  size_t i = 0;
  while (i < count) {
    const size_t place = few.find(data[i]);
    if (place >= limit) return limit + 1;
    // Runs of one value are measured first: incrementing the same count repeatedly would stall.
    const size_t start = i++;
    const Vec<Raw> same = splat<Raw>(data[start]);
    while (i + kN <= count && !any_of<Raw>(load<Raw>(data + i) ^ same)) i += kN;
    while (i < count && data[i] == data[start]) ++i;
    counts[place] += i - start;
  }
  return few.size;
}

static size_t run_distinct(const void* data, size_t item, size_t count, size_t limit, uint64_t* values, uint64_t* counts) {
  return item == 4 ? few_values(static_cast<const uint32_t*>(data), count, limit, values, counts)
                   : few_values(static_cast<const uint64_t*>(data), count, limit, values, counts);
}

}  // namespace ASSAY_ISA
