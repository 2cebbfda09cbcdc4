// Counts of the top halfwords of values; 8-bit values are counted as pairs.
#pragma once
#include "formats.h"

namespace ASSAY_ISA {

constexpr size_t kGroup = 128;
constexpr size_t kPatterns = 65536;

struct Tally {
  uint32_t *even, *odd;  // two tables, so that equal neighbours do not stall each other
};

// What is counted at once: a value, or a pair of bytes.
template <class S>
using Unit = typename std::conditional<sizeof(typename S::Raw) == 1, uint16_t, typename S::Raw>::type;
template <class S> constexpr int kTop = 8 * sizeof(Unit<S>) - 16;  // position of the counted halfword, in bits
template <class S> constexpr size_t kGroupUnits = kGroup * sizeof(typename S::Raw) / sizeof(Unit<S>);

// Pairs with a common first byte would be counted in few cache sets: shuffles the index of a pair by its second byte.
template <class S, class V> static inline V shuffled(V units) {
  return sizeof(typename S::Raw) == 1 ? V(units ^ (units >> 8 & 0xf0)) : units;
}

template <class S> static inline size_t top_at(const void* from, size_t i) {
  Unit<S> unit;
  std::memcpy(&unit, static_cast<const char*>(from) + i * sizeof unit, sizeof unit);
  return shuffled<S>(size_t(unit >> kTop<S>));
}

// Counts kSize bytes; loads whole words and shifts them, because loads are the bottleneck.
template <class S, int kSize> static inline void count_part(const void* from, Tally tally) {
  constexpr int kPerWord = 8 / sizeof(Unit<S>), kStep = 8 * sizeof(Unit<S>), kUnits = kSize / sizeof(Unit<S>);
#pragma GCC unroll 16
  for (int i = 0; i < kUnits; i += kPerWord) {
    uint64_t word;
    std::memcpy(&word, static_cast<const char*>(from) + i * sizeof(Unit<S>), sizeof word);
#pragma GCC unroll 4
    for (int k = 0; k < kPerWord; ++k) ++((i + k) & 1 ? tally.odd : tally.even)[word >> (kTop<S> + k * kStep) & 0xffff];
  }
}

// A value that many neighbours share would make them wait for its counter. So its occurrences in a span of groups are
// spread: one pattern per lane is counted in its place, and corrected at the end.
template <class S> class Spread {
  using U = Unit<S>;
  static constexpr U kFirst = 0x7fe0;
  Vec<U> common_{}, spares_{}, hits_{};
  bool needed_ = false;
  alignas(64) U group_[kGroupUnits<S>];

 public:
  // Looks for a value that is frequent in a span of groups.
  Spread(const void* from, size_t groups) {
    const size_t samples = groups == 0 ? 0 : groups < 4 ? groups + 2 : 6;
    U tops[6];
    for (size_t i = 0; i < samples; ++i) {
      const size_t at = (uint32_t(i + 1) * 2654435769u >> 8) * (groups * kGroupUnits<S>) >> 24;
      tops[i] = U(top_at<S>(from, at));
      for (size_t j = 0; j < i; ++j)
        if (tops[j] == tops[i]) needed_ = true, common_ = splat<U>(tops[i]);
    }
    if (needed_)
      for (int lane = 0; lane < kLanes<U>; ++lane) spares_[lane] = U(kFirst + lane) << kTop<S>;
  }
  // A group, prepared for counting.
  inline const char* prepare(const void* group) {
    const char* from = static_cast<const char*>(group);
    if (sizeof(typename S::Raw) > 1 && !needed_) return from;
    for (size_t i = 0; i < kGroupUnits<S>; i += kLanes<U>) {
      const Vec<U> units = shuffled<S>(load<U>(from + i * sizeof(U)));
      const auto equal = (units >> kTop<S>) == common_;
      hits_ -= (Vec<U>)equal;
      store(group_ + i, equal ? spares_ : units);
    }
    from = reinterpret_cast<const char*>(group_);
    __asm__("" : "+r"(from) : : "memory");  // else compilers would take the units from vectors, one by one
    return from;
  }
  void settle(Tally tally) const {
    for (int lane = 0; needed_ && lane < kLanes<U>; ++lane) {
      tally.even[common_[lane]] += uint32_t(hits_[lane]);
      (lane & 1 ? tally.odd : tally.even)[kFirst + lane] -= uint32_t(hits_[lane]);
    }
  }
};

// Counts a group that is not whole: `padded` has a zero after `left` values.
template <class S> static inline void count_rest(const void* padded, size_t left, Tally tally) {
  const size_t units = (left * sizeof(typename S::Raw) + sizeof(Unit<S>) - 1) / sizeof(Unit<S>);
  for (size_t i = 0; i + 1 < units; i += 2) ++tally.even[top_at<S>(padded, i)], ++tally.odd[top_at<S>(padded, i + 1)];
  if (units % 2) ++tally.even[top_at<S>(padded, units - 1)];
}

// Adds up counts of pairs into counts of bytes, and clears the tables.
static void split_pairs(uint32_t* tables, uint64_t* counts) {
  uint32_t first[256] = {};
  for (size_t second = 0; second < 256; ++second) {
    uint32_t total = 0;
    for (size_t part = 0; part < 256; part += 16) {
      uint32_t *even = tables + 256 * second + part, *odd = even + kPatterns, *to = first + (part ^ (second & 0xf0));
      for (size_t i = 0; i < 16; ++i) {
        const uint32_t pairs = even[i] + odd[i];
        to[i] += pairs, total += pairs;
        even[i] = odd[i] = 0;
      }
    }
    counts[second] += total;
  }
  for (size_t i = 0; i < 256; ++i) counts[i] += first[i];
}

}  // namespace ASSAY_ISA
