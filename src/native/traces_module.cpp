// The Python module of the trace scanner; the interpreter lock is released while the scanner runs.
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

template <class T> Output<T> as_array(std::vector<T>&& values) {
  auto* storage = new std::vector<T>(std::move(values));
  storage->shrink_to_fit();
  nb::capsule owner(storage, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  return Output<T>(storage->data(), {storage->size()}, owner);
}

nb::bytes as_bytes(const std::string& text) { return nb::bytes(text.data(), text.size()); }

nb::list texts_of(const Interner& interner) {
  nb::list texts;
  for (const std::string& text : interner.texts()) texts.append(as_bytes(text));
  return texts;
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
  auto add = [&](const char* name, auto& column) { found[name] = as_array(std::move(column)); };
  const size_t rows = columns.start.size();
#define ADD(name) add(#name, columns.name)
  ADD(start), ADD(duration), ADD(name), ADD(track), ADD(shape), ADD(external);
  ADD(link_row), ADD(link_correlation), ADD(link_bytes), ADD(link_device), ADD(link_stream);
  ADD(sequence_row), ADD(sequence_number), ADD(sequence_backward);
  ADD(memory_time), ADD(memory_bytes), ADD(memory_total);
  ADD(memory_track), ADD(memory_device_type), ADD(memory_device);
  ADD(flow_id), ADD(flow_time), ADD(flow_track), ADD(flow_end);
  ADD(mark_time), ADD(mark_name), ADD(mark_track), ADD(mark_end);
  ADD(stack_row), ADD(stack_text);
#undef ADD
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
  return nb::make_tuple(as_array(std::move(found.order)), as_array(std::move(found.parent)),
                        as_array(std::move(found.end)), found.overlapping);
}

Output<int32_t> nearest_flagged(Input<int32_t> parent, Input<uint8_t> flag) {
  return as_array(nearest(parent.data(), flag.data(), parent.size()));
}

Output<int64_t> own_time(Input<int32_t> parent, Input<int64_t> start, Input<int64_t> end, Input<uint8_t> flag) {
  return as_array(own(parent.data(), start.data(), end.data(), flag.data(), parent.size()));
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
