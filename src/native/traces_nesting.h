// Nests spans: a sort that exploits the order events already have in files, and one pass with a stack.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace assay::traces {

struct Nested {
  std::vector<int32_t> order;   // rows of the input, sorted by track, then start, then longest first
  std::vector<int32_t> parent;  // indices into `order`; -1 for a span that is not nested
  std::vector<int64_t> end;     // end times, never later than the parent's
  int64_t overlapping = 0;      // number of spans that were cut so that all spans nest
};

// Sorts `rows` by merging runs that are already sorted; Kineto writes a few long ones.
template <class Less>
void merge_runs(std::vector<int32_t>& rows, Less less) {
  std::vector<size_t> bounds{0};
  for (size_t i = 1; i < rows.size(); ++i)
    if (less(rows[i], rows[i - 1])) bounds.push_back(i);
  if (bounds.size() > rows.size() / 8 + 2) {
    std::stable_sort(rows.begin(), rows.end(), less);
    return;
  }
  bounds.push_back(rows.size());
  std::vector<int32_t> other(rows.size());
  while (bounds.size() > 2) {
    std::vector<size_t> merged{0};
    for (size_t i = 0; i + 1 < bounds.size(); i += 2) {
      const size_t middle = bounds[i + 1], end = i + 2 < bounds.size() ? bounds[i + 2] : middle;
      std::merge(rows.begin() + bounds[i], rows.begin() + middle, rows.begin() + middle, rows.begin() + end,
                 other.begin() + bounds[i], less);
      merged.push_back(end);
    }
    rows.swap(other);
    bounds.swap(merged);
  }
}

// Of two spans that overlap without nesting, the soft one is cut; if both are equal, the one that loses less. Python
// frames are soft: a label begins inside the frame of the function that starts it.
inline Nested nest(const int64_t* start, const int64_t* duration, const int32_t* track, const uint8_t* soft,
                   std::vector<int32_t> rows) {
  merge_runs(rows, [&](int32_t a, int32_t b) {
    if (track[a] != track[b]) return track[a] < track[b];
    if (start[a] != start[b]) return start[a] < start[b];
    return duration[a] > duration[b];
  });
  Nested found;
  const size_t count = rows.size();
  found.parent.resize(count);
  found.end.resize(count);
  std::vector<int32_t> open;
  for (size_t i = 0; i < count; ++i) {
    const int32_t row = rows[i];
    const int64_t begin = start[row];
    int64_t end = begin + duration[row];
    if (i && track[row] != track[rows[i - 1]]) open.clear();
    while (!open.empty() && found.end[size_t(open.back())] <= begin) open.pop_back();
    while (!open.empty() && end > found.end[size_t(open.back())]) {
      const size_t around = size_t(open.back());
      const uint8_t softness = soft[rows[around]];
      ++found.overlapping;
      if (softness < soft[row] || (softness == soft[row] && end - found.end[around] <= found.end[around] - begin)) {
        end = found.end[around];
        break;
      }
      found.end[around] = begin;
      open.pop_back();
    }
    found.parent[i] = open.empty() ? -1 : open.back();
    found.end[i] = end;
    open.push_back(int32_t(i));
  }
  found.order = std::move(rows);
  return found;
}

// Per span, the innermost flagged span among itself and its ancestors; -1 if none.
inline std::vector<int32_t> nearest(const int32_t* parent, const uint8_t* flag, size_t count) {
  std::vector<int32_t> found(count);
  for (size_t i = 0; i < count; ++i)
    found[i] = flag[i] ? int32_t(i) : parent[i] < 0 ? -1 : found[size_t(parent[i])];
  return found;
}

// The time of each flagged span without the flagged spans nested in it; 0 for the rest. If all are flagged, these are
// self times.
inline std::vector<int64_t> own(const int32_t* parent, const int64_t* start, const int64_t* end, const uint8_t* flag,
                                size_t count) {
  std::vector<int64_t> found(count);
  std::vector<int32_t> around(count);
  for (size_t i = 0; i < count; ++i) {
    const int32_t above = parent[i] < 0 ? -1 : around[size_t(parent[i])];
    around[i] = flag[i] ? int32_t(i) : above;
    if (!flag[i]) continue;
    found[i] += end[i] - start[i];
    if (above >= 0) found[size_t(above)] -= end[i] - start[i];
  }
  return found;
}

}  // namespace assay::traces
