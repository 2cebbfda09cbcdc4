// The Python module: takes buffers, returns arrays, and releases the GIL while the kernel runs.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <vector>

#include "dispatch.h"
#include "entropy.h"
#include "finish.h"

namespace nb = nanobind;
using namespace assay;

namespace {

using Bytes = nb::ndarray<const uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T> using Input = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T> using Rows = nb::ndarray<const T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
template <class T> using Output = nb::ndarray<nb::numpy, T>;

template <class T> struct Array {
  std::unique_ptr<T[]> data;
  size_t rows, cols;
  Array(size_t rows, size_t cols) : data(new T[rows * cols ? rows * cols : 1]()), rows(rows), cols(cols) {}
  T* get() const { return data.get(); }
  Output<T> to_python() {
    T* values = data.release();
    nb::capsule owner(values, [](void* p) noexcept { delete[] static_cast<T*>(p); });
    return Output<T>(values, {rows, cols}, owner);
  }
};

void require(bool condition, const char* message) {
  if (!condition) throw std::invalid_argument(message);
}

size_t tiles_of(size_t rows, size_t tile_rows) { return tile_rows ? (rows + tile_rows - 1) / tile_rows : 0; }

// Adds up the kernel's narrow tables into one wide table.
template <int kTables> Array<uint64_t> added(const uint32_t* tables, size_t length) {
  Array<uint64_t> total(1, length);
  for (int t = 0; t < kTables; ++t)
    for (size_t i = 0; i < length; ++i) total.get()[i] += tables[t * length + i];
  return total;
}

Output<uint64_t> count16(Bytes data) {
  require(data.size() % 2 == 0, "count16: data must be a whole number of 16-bit values");
  Array<uint64_t> counts(1, 65536);
  {
    nb::gil_scoped_release released;
    Array<uint32_t> tables(2, 65536);
    chosen_kernel().count16(reinterpret_cast<const uint16_t*>(data.data()), data.size() / 2, tables.get());
    counts = added<2>(tables.get(), 65536);
  }
  return counts.to_python();
}

Output<uint64_t> digests(Bytes data, size_t tile_bytes) {
  require(tile_bytes > 0, "digests: tile_bytes must be at least 1");
  Array<uint64_t> out(tiles_of(data.size(), tile_bytes), 2);
  {
    nb::gil_scoped_release released;
    for (size_t t = 0; t < out.rows; ++t) {
      const size_t start = t * tile_bytes, left = data.size() - start;
      chosen_kernel().digest(data.data() + start, left < tile_bytes ? left : tile_bytes, out.get() + 2 * t);
    }
  }
  return out.to_python();
}

constexpr size_t kItemBytes[kFormats] = {2, 2, 4, 8, 4, 4, 8, 8, 1, 1, 1, 1, 1, 1};

constexpr size_t kPatterns = 65536;

// Tables kept by each thread and empty between calls: allocating them costs more than counting.
uint32_t* empty_tables() {
  thread_local std::unique_ptr<uint32_t[]> tables(new uint32_t[2 * kPatterns]());
  return tables.get();
}

constexpr size_t kFew = 2048, kFewBytes = 16384;

struct Shape {
  size_t rows, cols;
};

// The patterns that occur, in ascending order, and their counts; clears the tables in which they were counted.
struct Occurring {
  Array<uint16_t> patterns;
  Array<uint64_t> counts;
  // `tops` are the halfwords that were counted, `step` bytes apart.
  Occurring(uint32_t* tables, const uint8_t* tops, size_t step, size_t count) : patterns(1, 0), counts(1, 0) {
    if (count <= kFew) collect_few(tables, tops, step, count);
    else scan(tables);
  }
  // Bytes were counted in pairs; the last byte of a row of odd length with a zero.
  Occurring(uint32_t* tables, const uint8_t* data, Shape shape) : patterns(1, 0), counts(1, 0) {
    uint64_t bytes[256] = {};
    if (shape.rows * shape.cols <= kFewBytes) split_few(tables, data, shape, bytes);
    else chosen_kernel().split_pairs(tables, bytes);
    if (shape.cols % 2) bytes[0] -= shape.rows;
    resize(256 - size_t(std::count(bytes, bytes + 256, 0)));
    for (size_t byte = 0, used = 0; byte < 256; ++byte)
      if (bytes[byte]) patterns.get()[used] = uint16_t(byte), counts.get()[used++] = bytes[byte];
  }
  void scan(uint32_t* tables) {
    thread_local std::unique_ptr<uint16_t[]> occurring(new uint16_t[kPatterns + 1]);
    thread_local std::unique_ptr<uint64_t[]> frequencies(new uint64_t[kPatterns + 1]);
    resize(chosen_kernel().occurring(tables, occurring.get(), frequencies.get()));
    std::memcpy(patterns.get(), occurring.get(), patterns.cols * sizeof(uint16_t));
    std::memcpy(counts.get(), frequencies.get(), counts.cols * sizeof(uint64_t));
  }
  // Reading a few values again is faster than scanning the tables.
  void collect_few(uint32_t* tables, const uint8_t* tops, size_t step, size_t count) {
    uint32_t packed[kFew];  // pattern << 16 | count
    size_t used = 0;
    for (size_t i = 0; i < count; ++i) {
      const uint32_t top = tops[i * step] | uint32_t(tops[i * step + 1]) << 8;
      if (const uint32_t frequency = tables[top] + tables[kPatterns + top]) packed[used++] = top << 16 | frequency;
      tables[top] = tables[kPatterns + top] = 0;
    }
    std::sort(packed, packed + used);
    resize(used);
    for (size_t i = 0; i < used; ++i) patterns.get()[i] = uint16_t(packed[i] >> 16), counts.get()[i] = packed[i] & 0xffff;
  }
  void split_few(uint32_t* tables, const uint8_t* data, Shape shape, uint64_t* bytes) {
    for (size_t r = 0; r < shape.rows; ++r, data += shape.cols)
      for (size_t c = 0; c < shape.cols; c += 2) {
        const size_t first = data[c], second = c + 1 < shape.cols ? data[c + 1] : 0;
        const size_t pair = second << 8 | (first ^ (second & 0xf0));
        const uint32_t frequency = tables[pair] + tables[kPatterns + pair];
        bytes[first] += frequency, bytes[second] += frequency;
        tables[pair] = tables[kPatterns + pair] = 0;
      }
  }
  void resize(size_t used) { patterns = Array<uint16_t>(1, used), counts = Array<uint64_t>(1, used); }
};

nb::tuple rows(Bytes data, int format, size_t rows, size_t cols, size_t tile_rows, bool columns) {
  require((format >= 0 && format <= kFloat64) || (format >= kInt8 && format < kFormats),
          "rows: format must be a floating-point or 8-bit format");
  require(tile_rows > 0 && cols > 0, "rows: tile_rows and cols must be at least 1");
  const size_t item = kItemBytes[format], row_bytes = cols * item;
  require(data.size() == rows * row_bytes, "rows: data must have rows x cols values");
  const bool wide = format == kFloat32 || format == kFloat64;
  Array<double> tiles(tiles_of(rows, tile_rows), wide ? kWideFields : kRowFields);
  Array<uint64_t> digests(tiles.rows, 2);
  Array<double> sums(2, columns ? cols : 0);
  std::unique_ptr<Occurring> occurring;
  {
    nb::gil_scoped_release released;
    const Kernel& kernel = chosen_kernel();
    uint32_t* tables = empty_tables();
    const size_t groups = cols / 128 + 1, padded = groups * 128;
    std::unique_ptr<double[]> peaks(new double[2 * groups]), column_sums(new double[columns ? 4 * padded + 8 : 0]());
    const size_t over = reinterpret_cast<uintptr_t>(column_sums.get()) % 64 / sizeof(double);
    double* narrow = column_sums.get() + (over ? 8 - over : 0);  // unaligned sums would slow down the pass by a fifth
    const Scratch scratch{peaks.get(), narrow, narrow + padded};
    double *high = columns ? narrow + 2 * padded : nullptr, *low = columns ? high + padded : nullptr;
    // Do all the work on a tile while it is in the cache.
    for (size_t t = 0; t < tiles.rows; ++t) {
      const size_t first = t * tile_rows, here = rows - first < tile_rows ? rows - first : tile_rows;
      const uint8_t* from = data.data() + first * row_bytes;
      double* tile = tiles.get() + t * tiles.cols;
      kernel.rows(Format(format), RowJob{from, here, cols, tile_rows, tables, tile, tiles.cols, high, low}, scratch);
      if (wide) kernel.moments(Format(format), from, here * cols, tile);
      kernel.digest(from, here * row_bytes, digests.get() + 2 * t);
    }
    for (size_t part = 0; columns && part < 2; ++part)
      kernel.columns(Format(format), high + part * padded, cols, sums.get() + part * cols);
    occurring = item == 1 ? std::make_unique<Occurring>(tables, data.data(), Shape{rows, cols})
                          : std::make_unique<Occurring>(tables, data.data() + item - 2, item, rows * cols);
  }
  return nb::make_tuple(nb::make_tuple(occurring->patterns.to_python(), occurring->counts.to_python()),
                        tiles.to_python(), sums.to_python(), digests.to_python());
}

nb::tuple integers(Bytes data, int format, size_t tile_elements) {
  require(format >= kInt32 && format <= kUInt64 && tile_elements > 0, "integers: format must be an integer format and tile_elements at least 1");
  const size_t item = kItemBytes[format], count = data.size() / item;
  Array<double> tiles(tiles_of(count, tile_elements), kWideFields);
  Array<uint64_t> digests(tiles.rows, 2);
  std::unique_ptr<Occurring> occurring;
  {
    nb::gil_scoped_release released;
    uint32_t* tables = empty_tables();
    for (size_t i = 0; i < count; ++i) {
      const uint8_t* top = data.data() + i * item + item - 2;
      ++tables[(i & 1) * 65536 + (top[0] | size_t(top[1]) << 8)];
    }
    for (size_t t = 0; t < tiles.rows; ++t) {
      const size_t start = t * tile_elements, left = count - start, here = left < tile_elements ? left : tile_elements;
      chosen_kernel().moments(Format(format), data.data() + start * item, here, tiles.get() + t * tiles.cols);
      chosen_kernel().digest(data.data() + start * item, here * item, digests.get() + 2 * t);
    }
    occurring = std::make_unique<Occurring>(tables, data.data() + item - 2, item, count);
  }
  return nb::make_tuple(nb::make_tuple(occurring->patterns.to_python(), occurring->counts.to_python()),
                        tiles.to_python(), digests.to_python());
}

// The distinct values of 32- or 64-bit items in ascending order, and their counts; `limit + 1` values, in no order, if there
// are more than `limit`.
nb::tuple distinct(Bytes data, size_t item, size_t limit) {
  require(item == 4 || item == 8, "distinct: item must be 4 or 8 bytes");
  const size_t count = data.size() / item, room = (count < limit ? count : limit) + 1;
  Array<uint64_t> values(1, 0), counts(1, 0);
  {
    nb::gil_scoped_release released;
    thread_local std::vector<uint64_t> found, frequencies;
    if (found.size() < room) found.resize(room), frequencies.resize(room);
    const size_t used = chosen_kernel().distinct(data.data(), item, count, limit, found.data(), frequencies.data());
    values = Array<uint64_t>(1, used), counts = Array<uint64_t>(1, used);
    std::copy_n(found.data(), used, values.get());
    std::copy_n(frequencies.data(), used, counts.get());
  }
  return nb::make_tuple(values.to_python(), counts.to_python());
}

// Bits per item of an order-0 code of items with these counts.
template <class Count> double entropy(Input<Count> counts) {
  nb::gil_scoped_release released;
  return Entropy(counts.data(), counts.size()).bits();
}

// Room for the matches of a chunk, kept by each thread: touching new memory takes longer than writing them.
uint32_t* kept_list(size_t size) {
  thread_local std::unique_ptr<uint32_t[]> list;
  thread_local size_t room = 0;
  if (room < size) list.reset(new uint32_t[size]), room = size;
  return list.get();
}

// A row of `prefixes` has bits, list, first edge and number of edges; a row of `edges` the smallest halfword and a count.
nb::tuple refine(Bytes data, int format, int shift, Bytes slots, Rows<uint64_t> prefixes, Rows<uint64_t> edges, bool planes,
                 size_t tile_elements, double peak, Input<double> above) {
  require(format >= kFloat32 && format <= kUInt64, "refine: format must be a 32- or 64-bit format");
  require(slots.size() == kPatterns, "refine: slots must have 65,536 elements");
  require(prefixes.shape(1) == 4 && edges.shape(1) == 2, "refine: prefixes must have four columns and edges two");
  const size_t item = kItemBytes[format], count = data.size() / item, edge_count = edges.shape(0);
  const bool errors = tile_elements > 0;
  require(!errors || above.size() == kPrunePoints, "refine: above must have one magnitude per point of the pruning curve");
  Array<uint32_t> low(item / 2 - 1, planes || errors ? kPatterns : 0);  // errors are always computed together with counts
  Array<double> tiles(errors ? tiles_of(count, tile_elements) : 0, kErrorFields);
  Array<uint64_t> edge_counts(1, edge_count);
  Array<uint32_t> matches(1, 0);
  {
    nb::gil_scoped_release released;
    uint32_t* list = kept_list(count + 1);
    std::unique_ptr<Prefix[]> requested(new Prefix[prefixes.shape(0) + 1]);
    std::unique_ptr<Edge[]> spans(new Edge[edge_count + 1]());
    for (size_t i = 0; i < edge_count; ++i) spans[i] = {uint32_t(edges(i, 0)), uint32_t(edges(i, 1)), 0};
    requested[0] = {0, 0, uint32_t(edge_count), 0};
    for (size_t i = 0; i < prefixes.shape(0); ++i) {
      const bool valid = prefixes(i, 2) + prefixes(i, 3) <= edge_count;
      requested[i + 1] = {prefixes(i, 0), uint32_t(prefixes(i, 1)),
                          uint32_t(valid && prefixes(i, 3) ? prefixes(i, 2) : edge_count),
                          uint32_t(valid ? prefixes(i, 3) : 0)};
    }
    RefineJob job{data.data(), count, shift, slots.data(), requested.get(), prefixes.shape(0), spans.get(), list, 0,
                  planes || errors ? low.get() : nullptr};
    ErrorJob sums{tile_elements, peak, {}, tiles.get()};
    if (errors)
      for (int e = 0; e < kPrunePoints; ++e) sums.edges[e] = above.data()[e];
    chosen_kernel().refine(Format(format), job, errors ? &sums : nullptr);
    for (size_t i = 0; i < edge_count; ++i) edge_counts.get()[i] = spans[i].count;
    Array<uint32_t> kept(1, job.match_count);
    std::memcpy(kept.get(), list, job.match_count * sizeof(uint32_t));
    matches = std::move(kept);
  }
  return nb::make_tuple(matches.to_python(), edge_counts.to_python(), low.to_python(), tiles.to_python());
}

// The matches of a refining pass in ascending order.
Output<uint32_t> sorted(Input<uint32_t> matches) {
  Array<uint32_t> out(1, matches.size());
  {
    nb::gil_scoped_release released;
    chosen_kernel().sort_matches(matches.data(), matches.size(), out.get());
  }
  return out.to_python();
}

// Adds the matches of a refining pass to dense counts.
void tally(Input<uint32_t> matches, nb::ndarray<uint64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu> counts) {
  nb::gil_scoped_release released;
  for (size_t i = 0; i < matches.size(); ++i)
    if (matches.data()[i] < counts.size()) ++counts.data()[matches.data()[i]];
}

// Finds magnitudes by rank. A row of `queries` has a prefix, the lists of its positive and negative values, and a rank.
// Returns rows of the prefix extended by the halfword and the rank among equals, and the energies from the ranks on.
nb::tuple magnitudes(Input<uint32_t> keys, Input<uint64_t> counts, size_t item, Rows<uint64_t> queries) {
  require(item == 4 || item == 8, "magnitudes: item must be 4 or 8 bytes");
  require(queries.shape(1) == 4, "magnitudes: queries must have four columns");
  require(counts.size() == 0 || counts.size() == keys.size(), "magnitudes: counts must be empty or have one count per key");
  Array<uint64_t> out(queries.shape(0), 2);
  Array<double> energies(1, queries.shape(0));
  {
    nb::gil_scoped_release released;
    const MatchesJob job{keys.data(), counts.size() ? counts.data() : nullptr, keys.size(), item == 4};
    for (size_t m = 0; m < queries.shape(0); ++m) {
      MagnitudeAnswer answer;
      chosen_kernel().magnitude(job, {queries(m, 0), queries(m, 1), queries(m, 2), queries(m, 3)}, answer);
      out.get()[2 * m] = answer.key, out.get()[2 * m + 1] = answer.rest, energies.get()[m] = answer.energy;
    }
  }
  return nb::make_tuple(out.to_python(), energies.to_python());
}

// The statistics of a table of values. Its patterns (16 bits) or raw values (64 bits) ascend; `numbers` has the value of
// every pattern.
Output<double> table(nb::ndarray<nb::ndim<1>, nb::c_contig, nb::device::cpu> raws, Input<uint64_t> counts,
                     Input<uint64_t> weights, Input<double> numbers, int format, int order, int bits, double tiny,
                     Input<double> quantiles, Input<double> shares, double near_share) {
  const bool patterns = raws.dtype() == nb::dtype<uint16_t>();
  require(patterns || raws.dtype() == nb::dtype<uint64_t>(), "table: raws must have 16 or 64 bits");
  require(raws.size() == counts.size() && raws.size() == weights.size(), "table: one count and weight per value");
  require(bits <= 64 && (!patterns || numbers.size() >> bits), "table: one number per pattern");
  require(quantiles.size() == kQuantiles && shares.size() == kPrunePoints, "table: unexpected number of quantiles or shares");
  Array<double> out(1, kTableRecord);
  {
    nb::gil_scoped_release released;
    const TableJob job{patterns ? static_cast<const uint16_t*>(raws.data()) : nullptr,
                       patterns ? nullptr : static_cast<const uint64_t*>(raws.data()),
                       counts.data(), weights.data(), raws.size(), patterns ? numbers.data() : nullptr, Format(format),
                       Order(order), bits, tiny, quantiles.data(), shares.data(), near_share};
    finish_table(job, out.get());
  }
  return out.to_python();
}

// The sums over the records of tiles, and statistics of the norms of the columns.
Output<double> row_sums(Rows<double> records, Rows<double> columns) {
  require(records.shape(1) >= kRowFields && columns.shape(0) >= 2, "row_sums: too few fields");
  Array<double> out(1, kRowSums);
  sum_rows(records.data(), records.shape(0), records.shape(1), columns.data(), columns.shape(1), out.get());
  return out.to_python();
}

}  // namespace

NB_MODULE(_kernel, m) {
  m.doc() = "Statistics of tensors from their bytes.";
  m.def("isa", [] { return chosen_kernel().name; });
  m.def("count16", &count16);
  m.def("digests", &digests);
  m.def("rows", &rows);
  m.def("integers", &integers);
  m.def("distinct", &distinct);
  m.def("entropy", &entropy<uint32_t>);
  m.def("entropy", &entropy<uint64_t>);
  m.def("refine", &refine);
  m.def("sorted", &sorted);
  m.def("magnitudes", &magnitudes);
  m.def("table", &table);
  m.def("row_sums", &row_sums);
  m.def("tally", &tally);
}
