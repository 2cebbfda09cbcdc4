// The Python module: buffers in, arrays out, the interpreter released while the kernel runs.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstring>
#include <memory>
#include <stdexcept>

#include "dispatch.h"

namespace nb = nanobind;
using namespace assay;

namespace {

using Bytes = nb::ndarray<const uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T> using Input = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T> using Output = nb::ndarray<nb::numpy, T>;

template <class T> struct Array {
  std::unique_ptr<T[]> data;
  size_t rows, cols;
  Array(size_t rows, size_t cols) : data(new T[rows * cols ? rows * cols : 1]()), rows(rows), cols(cols) {}
  T* get() const { return data.get(); }
  Output<T> give() {
    T* held = data.release();
    nb::capsule owner(held, [](void* p) noexcept { delete[] static_cast<T*>(p); });
    return Output<T>(held, {rows, cols}, owner);
  }
};

void want(bool right, const char* message) {
  if (!right) throw std::invalid_argument(message);
}

size_t tiles_of(size_t rows, size_t tile_rows) { return tile_rows ? (rows + tile_rows - 1) / tile_rows : 0; }

// Adds the kernel's interleaved narrow tables up into one wide one.
template <int kTables> Array<uint64_t> added(const uint32_t* tables, size_t length) {
  Array<uint64_t> total(1, length);
  for (int t = 0; t < kTables; ++t)
    for (size_t i = 0; i < length; ++i) total.get()[i] += tables[t * length + i];
  return total;
}

Output<uint64_t> count16(Bytes data) {
  want(data.size() % 2 == 0, "count16 wants whole 16-bit values");
  Array<uint64_t> counts(1, 65536);
  {
    nb::gil_scoped_release released;
    Array<uint32_t> tables(2, 65536);
    chosen_kernel().count16(reinterpret_cast<const uint16_t*>(data.data()), data.size() / 2, tables.get());
    counts = added<2>(tables.get(), 65536);
  }
  return counts.give();
}

Output<uint64_t> count8(Bytes data) {
  Array<uint64_t> counts(1, 256);
  {
    nb::gil_scoped_release released;
    Array<uint32_t> tables(4, 256);
    chosen_kernel().count8(data.data(), data.size(), tables.get());
    counts = added<4>(tables.get(), 256);
  }
  return counts.give();
}

Output<uint64_t> digests(Bytes data, size_t tile_bytes) {
  want(tile_bytes > 0, "digests wants tiles of at least one byte");
  Array<uint64_t> out(tiles_of(data.size(), tile_bytes), 2);
  {
    nb::gil_scoped_release released;
    for (size_t t = 0; t < out.rows; ++t) {
      const size_t start = t * tile_bytes, left = data.size() - start;
      chosen_kernel().digest(data.data() + start, left < tile_bytes ? left : tile_bytes, out.get() + 2 * t);
    }
  }
  return out.give();
}

constexpr size_t kItemBytes[kFormats] = {2, 2, 4, 8, 4, 4, 8, 8};

// Tables that a thread keeps: fresh memory costs more than counting into it.
uint32_t* cleared_tables() {
  constexpr size_t kLength = 2 * 65536;
  thread_local std::unique_ptr<uint32_t[]> tables(new uint32_t[kLength]);
  std::memset(tables.get(), 0, kLength * sizeof(uint32_t));
  return tables.get();
}

// The patterns that occur, and how often.
struct Occurring {
  Array<uint16_t> patterns;
  Array<uint64_t> counts;
  explicit Occurring(const uint32_t* tables) : patterns(1, 0), counts(1, 0) {
    size_t used = 0;
    for (size_t i = 0; i < 65536; ++i) used += (tables[i] | tables[65536 + i]) != 0;
    patterns = Array<uint16_t>(1, used), counts = Array<uint64_t>(1, used);
    for (size_t i = 0, at = 0; at < used; ++i)
      if (tables[i] | tables[65536 + i]) {
        patterns.get()[at] = uint16_t(i);
        counts.get()[at++] = uint64_t(tables[i]) + tables[65536 + i];
      }
  }
};

nb::tuple rows(Bytes data, int format, size_t rows, size_t cols, size_t tile_rows, bool columns, bool counting) {
  want(format >= 0 && format <= kFloat64, "rows wants a floating format");
  want(tile_rows > 0 && cols > 0, "rows wants tiles and columns of at least one");
  const size_t row_bytes = cols * kItemBytes[format];
  want(data.size() == rows * row_bytes, "rows wants rows x cols values");
  const bool wide = format >= kFloat32;
  Array<double> tiles(tiles_of(rows, tile_rows), wide ? kWideFields : kRowFields);
  Array<uint64_t> digests(tiles.rows, 2);
  Array<double> sums(2, columns ? cols : 0);
  std::unique_ptr<Occurring> occurring;
  {
    nb::gil_scoped_release released;
    const Kernel& kernel = chosen_kernel();
    uint32_t* tables = cleared_tables();
    const size_t groups = cols / 128 + 1, padded = groups * 128;
    std::unique_ptr<double[]> peaks(new double[groups]), narrow(new double[(columns ? padded : 0) + 8]()), row(new double[padded]),
        wide_peaks(new double[groups]);
    const size_t over = reinterpret_cast<uintptr_t>(narrow.get()) % 64 / sizeof(double);
    double* aligned = narrow.get() + (over ? 8 - over : 0);  // sums split over cache lines cost a fifth of the pass
    std::unique_ptr<double[]> blocked(columns ? new double[2 * padded]() : nullptr);
    const Scratch scratch{peaks.get(), aligned, row.get(), wide_peaks.get()};
    // Everything about a tile while it is in the cache.
    for (size_t t = 0; t < tiles.rows; ++t) {
      const size_t first = t * tile_rows, here = rows - first < tile_rows ? rows - first : tile_rows;
      const uint8_t* from = data.data() + first * row_bytes;
      double* tile = tiles.get() + t * tiles.cols;
      kernel.rows(Format(format), RowJob{from, here, cols, tile_rows, counting || wide ? tables : nullptr, tile, tiles.cols,
                                         blocked.get(), columns ? blocked.get() + padded : nullptr}, scratch);
      if (wide) kernel.moments(Format(format), from, here * cols, tile);
      kernel.digest(from, here * row_bytes, digests.get() + 2 * t);
    }
    for (size_t part = 0; columns && part < 2; ++part)
      kernel.columns(Format(format), blocked.get() + part * padded, cols, sums.get() + part * cols);
    occurring = std::make_unique<Occurring>(tables);
  }
  return nb::make_tuple(nb::make_tuple(occurring->patterns.give(), occurring->counts.give()), tiles.give(), sums.give(),
                        digests.give());
}

nb::tuple integers(Bytes data, int format, size_t tile_elements) {
  want(format >= kInt32 && format < kFormats && tile_elements > 0, "integers wants an integer format and tiles");
  const size_t item = kItemBytes[format], count = data.size() / item;
  Array<double> tiles(tiles_of(count, tile_elements), kWideFields);
  Array<uint64_t> digests(tiles.rows, 2);
  std::unique_ptr<Occurring> occurring;
  {
    nb::gil_scoped_release released;
    uint32_t* tables = cleared_tables();
    for (size_t i = 0; i < count; ++i) {
      const uint8_t* top = data.data() + i * item + item - 2;
      ++tables[(i & 1) * 65536 + (top[0] | size_t(top[1]) << 8)];
    }
    for (size_t t = 0; t < tiles.rows; ++t) {
      const size_t start = t * tile_elements, left = count - start, here = left < tile_elements ? left : tile_elements;
      chosen_kernel().moments(Format(format), data.data() + start * item, here, tiles.get() + t * tiles.cols);
      chosen_kernel().digest(data.data() + start * item, here * item, digests.get() + 2 * t);
    }
    occurring = std::make_unique<Occurring>(tables);
  }
  return nb::make_tuple(nb::make_tuple(occurring->patterns.give(), occurring->counts.give()), tiles.give(), digests.give());
}

// The distinct values of 32- or 64-bit items, at most `limit`; one more than that means there are more.
Output<uint64_t> distinct(Bytes data, size_t item, size_t limit) {
  want(item == 4 || item == 8, "distinct wants items of 4 or 8 bytes");
  Array<uint64_t> found(1, limit + 1);
  size_t n = 0;
  {
    nb::gil_scoped_release released;
    size_t room = 16;
    while (room < 4 * limit) room *= 2;
    Array<uint32_t> places(1, room);
    for (size_t i = 0; i + item <= data.size() && n <= limit; i += item) {
      uint64_t value = 0;
      std::memcpy(&value, data.data() + i, item);
      size_t at = (value * 0x9e3779b97f4a7c15u >> 20) & (room - 1);
      while (places.get()[at] && found.get()[places.get()[at] - 1] != value) at = (at + 1) & (room - 1);
      if (!places.get()[at]) found.get()[n] = value, places.get()[at] = uint32_t(++n);
    }
  }
  found.cols = n;
  return found.give();
}

nb::tuple refine(Bytes data, int format, int shift, Bytes slots, Input<uint64_t> prefixes, bool planes,
                 size_t tile_elements, double peak, double near, Input<double> edges) {
  want(format >= kFloat32 && format < kFormats, "refine wants a 32- or 64-bit format");
  want(slots.size() == 65536, "refine wants 65,536 slots");
  const size_t item = kItemBytes[format], count = data.size() / item;
  const bool errors = tile_elements > 0;
  want(!errors || edges.size() == kPrunePoints, "refine wants one edge for each point of the pruning curve");
  Array<uint64_t> low(item / 2 - 1, planes ? 65536 : 0);
  Array<double> tiles(errors ? tiles_of(count, tile_elements) : 0, kErrorFields);
  Array<uint32_t> found(1, 0);
  {
    nb::gil_scoped_release released;
    std::unique_ptr<uint32_t[]> list(new uint32_t[count + 1]);
    Array<uint32_t> tables(planes || errors ? low.rows : 0, 65536);  // beside errors there is always counting
    std::unique_ptr<double[]> wide(new double[errors ? tile_elements : 1]);
    RefineJob job{data.data(), count, shift, slots.data(), prefixes.data(), prefixes.size(), list.get(), 0,
                  planes || errors ? tables.get() : nullptr};
    ErrorJob sums{tile_elements, peak, near, {}, tiles.get(), wide.get()};
    if (errors)
      for (int e = 0; e < kPrunePoints; ++e) sums.edges[e] = edges.data()[e];
    chosen_kernel().refine(Format(format), job, errors ? &sums : nullptr);
    for (size_t i = 0; i < low.rows * low.cols; ++i) low.get()[i] = tables.get()[i];
    Array<uint32_t> kept(1, job.found_count);
    std::memcpy(kept.get(), list.get(), job.found_count * sizeof(uint32_t));
    found = std::move(kept);
  }
  return nb::make_tuple(found.give(), low.give(), tiles.give());
}

// Sorts values of one slot by their low halfwords.
void sort_halfwords(uint32_t* values, size_t n, uint32_t* room) {
  if (n < 2) return;
  uint32_t places[2][257] = {};
  for (size_t i = 0; i < n; ++i) ++places[0][(values[i] & 255) + 1], ++places[1][(values[i] >> 8 & 255) + 1];
  for (int i = 0; i < 256; ++i) places[0][i + 1] += places[0][i], places[1][i + 1] += places[1][i];
  for (size_t i = 0; i < n; ++i) room[places[0][values[i] & 255]++] = values[i];
  for (size_t i = 0; i < n; ++i) values[places[1][room[i] >> 8 & 255]++] = room[i];
}

// A refining pass's list in rising order: dealt out by slot, then each slot's halfwords by their two bytes.
Output<uint32_t> sorted(Input<uint32_t> found) {
  const size_t n = found.size();
  Array<uint32_t> out(1, n);
  {
    nb::gil_scoped_release released;
    constexpr size_t kSlots = 256;
    size_t starts[kSlots + 1] = {};
    for (size_t i = 0; i < n; ++i) ++starts[(found.data()[i] >> 16 & 255) + 1];
    size_t longest = 0;
    for (size_t s = 0; s < kSlots; ++s) {
      longest = starts[s + 1] > longest ? starts[s + 1] : longest;
      starts[s + 1] += starts[s];
    }
    size_t places[kSlots];
    std::memcpy(places, starts, sizeof places);
    for (size_t i = 0; i < n; ++i) out.get()[places[found.data()[i] >> 16 & 255]++] = found.data()[i];
    std::unique_ptr<uint32_t[]> room(new uint32_t[longest + 1]);
    for (size_t s = 0; s < kSlots; ++s) sort_halfwords(out.get() + starts[s], starts[s + 1] - starts[s], room.get());
  }
  return out.give();
}

// Adds a refining pass's list to dense counts.
void tally(Input<uint32_t> found, nb::ndarray<uint64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu> counts) {
  nb::gil_scoped_release released;
  for (size_t i = 0; i < found.size(); ++i)
    if (found.data()[i] < counts.size()) ++counts.data()[found.data()[i]];
}

}  // namespace

NB_MODULE(_kernel, m) {
  m.doc() = "Statistics over the bytes of tensors.";
  m.def("isa", [] { return chosen_kernel().name; });
  m.def("count16", &count16);
  m.def("count8", &count8);
  m.def("digests", &digests);
  m.def("rows", &rows);
  m.def("integers", &integers);
  m.def("distinct", &distinct);
  m.def("refine", &refine);
  m.def("sorted", &sorted);
  m.def("tally", &tally);
}
