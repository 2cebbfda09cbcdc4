// Patterns that occur and their counts: read from tables of counts, from a hash table if there are few, or by sorting.
#pragma once
#include <algorithm>
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
  int shift = 64 - 4;
  uint64_t *values, *counts;
  std::unique_ptr<uint32_t[]> places;
  FewValues(size_t limit, uint64_t* values, uint64_t* counts) : limit(limit), values(values), counts(counts) {
    while (room < 4 * limit) room *= 2, --shift;
    places.reset(new uint32_t[room]());
  }
  // The index of the value, which is added if it is new; `limit` or more means that there are too many values.
  inline size_t find(Raw raw) {
    // The top bits of the product depend on all bits: the low bits of most doubles are zero.
    size_t at = uint64_t(raw) * 0x9e3779b97f4a7c15u >> shift;
    while (places[at] && values[places[at] - 1] != raw) at = (at + 1) & (room - 1);
    if (places[at]) return places[at] - 1;
    values[size] = raw, counts[size] = 0;
    places[at] = uint32_t(size + 1);
    return size++;
  }
};

struct ValueCount {
  uint64_t value, count;
};
static inline uint64_t sort_key(uint32_t raw) { return raw; }
static inline uint64_t sort_key(uint64_t raw) { return raw; }
static inline uint64_t sort_key(const ValueCount& one) { return one.value; }

// Sorts by key, the lowest digit first; skips digits that all keys share. `bits` is the width of a key.
template <class Item> static void sort_keys(Item* items, size_t n, int bits) {
  if (n < 128) return std::sort(items, items + n, [](const Item& a, const Item& b) { return sort_key(a) < sort_key(b); });
  constexpr int kDigit = 11, kMost = (64 + kDigit - 1) / kDigit;
  constexpr size_t kPlaces = 1 << kDigit;
  const int digits = (bits + kDigit - 1) / kDigit;
  std::unique_ptr<uint32_t[]> places(new uint32_t[kMost * kPlaces]());
  std::unique_ptr<Item[]> room(new Item[n]);
  for (size_t i = 0; i < n; ++i)
    for (int d = 0; d < digits; ++d) ++places[d * kPlaces + (sort_key(items[i]) >> d * kDigit & (kPlaces - 1))];
  Item *from = items, *to = room.get();
  for (int d = 0; d < digits; ++d) {
    uint32_t *place = places.get() + d * kPlaces, next = 0;
    const int shift = d * kDigit;
    if (place[sort_key(items[0]) >> shift & (kPlaces - 1)] == n) continue;
    for (size_t i = 0; i < kPlaces; ++i) next += std::exchange(place[i], next);
    for (size_t i = 0; i < n; ++i) to[place[sort_key(from[i]) >> shift & (kPlaces - 1)]++] = from[i];
    std::swap(from, to);
  }
  if (from != items) std::copy(from, from + n, items);
}

// Distinct values in ascending order and their counts, by sorting; returns their number.
template <class Raw> static size_t every_value(const Raw* data, size_t count, uint64_t* values, uint64_t* counts) {
  std::unique_ptr<Raw[]> sorted(new Raw[count + 1]);
  std::copy(data, data + count, sorted.get());
  sort_keys(sorted.get(), count, 8 * sizeof(Raw));
  size_t used = 0, start = 0;
  for (size_t i = 0; i < count; ++i) {
    if (i + 1 < count && sorted[i] == sorted[i + 1]) continue;
    values[used] = sorted[i], counts[used++] = i + 1 - start;
    start = i + 1;
  }
  return used;
}

// The same from a hash table; returns `limit + 1`, and no order, as soon as there are more than `limit`.
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
  std::unique_ptr<ValueCount[]> sorted(new ValueCount[few.size + 1]);
  for (size_t k = 0; k < few.size; ++k) sorted[k] = {values[k], counts[k]};
  sort_keys(sorted.get(), few.size, 8 * sizeof(Raw));
  for (size_t k = 0; k < few.size; ++k) values[k] = sorted[k].value, counts[k] = sorted[k].count;
  return few.size;
}

// Distinct values in ascending order and their counts; returns their number, or `limit + 1` if there are more than `limit`.
static size_t run_distinct(const void* data, size_t item, size_t count, size_t limit, uint64_t* values, uint64_t* counts) {
  const auto run = [&](const auto* raws) {
    return count <= limit ? every_value(raws, count, values, counts) : few_values(raws, count, limit, values, counts);
  };
  return item == 4 ? run(static_cast<const uint32_t*>(data)) : run(static_cast<const uint64_t*>(data));
}

}  // namespace ASSAY_ISA
