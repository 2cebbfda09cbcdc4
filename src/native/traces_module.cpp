// The Python module: pieces of a trace in, columns out, the interpreter released while the scanner runs.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include <memory>

#include "traces_nesting.h"
#include "traces_scanner.h"

namespace nb = nanobind;
using namespace assay::traces;

namespace {

template <class T> using Input = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T> using Output = nb::ndarray<nb::numpy, T, nb::ndim<1>>;

template <class T> Output<T> given(std::vector<T>&& values) {
  auto* held = new std::vector<T>(std::move(values));
  held->shrink_to_fit();
  nb::capsule owner(held, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  return Output<T>(held->data(), {held->size()}, owner);
}

nb::bytes as_bytes(const std::string& text) { return nb::bytes(text.data(), text.size()); }

nb::list texts_of(const Interner& interner) {
  nb::list found;
  for (const std::string& text : interner.texts()) found.append(as_bytes(text));
  return found;
}

void feed(Scanner& scanner, nb::bytes data, bool last) {
  const char* bytes = data.c_str();
  const size_t size = data.size();
  nb::gil_scoped_release released;
  scanner.feed(bytes, size, last);
}

nb::dict take(Scanner& scanner) {
  Columns columns = std::move(scanner.columns);
  nb::dict found;
  auto give = [&](const char* name, auto& column) { found[name] = given(std::move(column)); };
  const size_t rows = columns.start.size();
#define GIVE(name) give(#name, columns.name)
  GIVE(start), GIVE(duration), GIVE(name), GIVE(track), GIVE(shape), GIVE(external);
  GIVE(link_row), GIVE(link_correlation), GIVE(link_bytes), GIVE(link_device), GIVE(link_stream);
  GIVE(sequence_row), GIVE(sequence_number), GIVE(sequence_backward);
  GIVE(memory_time), GIVE(memory_bytes), GIVE(memory_total);
  GIVE(memory_track), GIVE(memory_device_type), GIVE(memory_device);
  GIVE(flow_id), GIVE(flow_time), GIVE(flow_track), GIVE(flow_end);
  GIVE(mark_time), GIVE(mark_name), GIVE(mark_track), GIVE(mark_end);
  GIVE(stack_row), GIVE(stack_text);
#undef GIVE
  scanner.taken(rows);
  return found;
}

nb::dict tables(const Scanner& scanner) {
  nb::dict found, skipped, phases;
  nb::list labels, root;
  for (const auto& [reason, count] : scanner.skipped) skipped[reason.c_str()] = count;
  for (const auto& [phase, count] : scanner.phases) phases[nb::str(&phase, 1)] = count;
  for (const auto& [key, text] : scanner.labels)
    labels.append(nb::make_tuple(as_bytes(key[0]), as_bytes(key[1]), as_bytes(key[2]), as_bytes(text)));
  for (const auto& [key, value] : scanner.root) root.append(nb::make_tuple(as_bytes(key), as_bytes(value)));
  found["names"] = texts_of(scanner.names);
  found["tracks"] = texts_of(scanner.tracks);
  found["shapes"] = texts_of(scanner.shapes);
  found["stacks"] = texts_of(scanner.stacks);
  found["skipped"] = skipped;
  found["phases"] = phases;
  found["labels"] = labels;
  found["root"] = root;
  found["unfinished"] = scanner.unfinished;
  found["complete"] = scanner.complete;
  return found;
}

nb::tuple nested(Input<int64_t> start, Input<int64_t> duration, Input<int32_t> track, Input<uint8_t> soft,
                 Input<int32_t> rows) {
  Nested found;
  {
    nb::gil_scoped_release released;
    found = nest(start.data(), duration.data(), track.data(), soft.data(),
                 {rows.data(), rows.data() + rows.size()});
  }
  return nb::make_tuple(given(std::move(found.order)), given(std::move(found.parent)),
                        given(std::move(found.end)), found.overlapping);
}

Output<int32_t> nearest_flagged(Input<int32_t> parent, Input<uint8_t> flag) {
  return given(nearest(parent.data(), flag.data(), parent.size()));
}

Output<int64_t> own_time(Input<int32_t> parent, Input<int64_t> start, Input<int64_t> end, Input<uint8_t> flag) {
  return given(own(parent.data(), start.data(), end.data(), flag.data(), parent.size()));
}

}  // namespace

NB_MODULE(_scanner, m) {
  nb::class_<Scanner>(m, "Scanner")
      .def(nb::init<>())
      .def("feed", &feed, nb::arg("data"), nb::arg("last") = false)
      .def("rows", &Scanner::rows)
      .def("take", &take)
      .def("tables", &tables);
  m.def("nest", &nested);
  m.def("nearest", &nearest_flagged);
  m.def("own", &own_time);
}
