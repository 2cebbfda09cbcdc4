#include "traces_scanner.h"

#include <initializer_list>

namespace assay::traces {

namespace {

constexpr size_t kLongestEvent = 8u << 20;
constexpr size_t kLongestRootValue = 8u << 20;
constexpr size_t kOverlap = 64;  // bytes that are searched again, because the start of an event may straddle two pieces
constexpr Text kPhases = "BEXiICnbeSTpFstfPNODMVvRc(),=";  // all phases of the format; most are not spans
constexpr char kSeparator = '\x1f';

// Whether an event begins at `at`: a brace, then one of the keys with which events begin.
bool looks_like_event(const char* at, const char* end) {
  ++at;
  while (at < end && is_space(*at)) ++at;
  for (Text key : {Text("\"ph\""), Text("\"name\""), Text("\"cat\""), Text("\"pid\""), Text("\"ts\"")})
    if (size_t(end - at) >= key.size() && Text(at, key.size()) == key) return true;
  return false;
}

// Whether a list contains events, judged by the key that Kineto writes first: the list's own key may be damaged.
Status begins_with_phase(const Cursor& cursor) {
  const char* at = cursor.at + 1;
  for (Text expected : {Text("{"), Text("\"ph\"")}) {
    while (at < cursor.end && is_space(*at)) ++at;
    if (size_t(cursor.end - at) < expected.size()) return cursor.last ? Status::kBad : Status::kMore;
    if (Text(at, expected.size()) != expected) return Status::kBad;
    at += expected.size();
  }
  return Status::kOk;
}

int64_t int_or(Text text, int64_t otherwise) {
  int64_t value = otherwise;
  return !text.empty() && parse_int(text, value) ? value : otherwise;
}

int32_t narrow(int64_t value) { return value >= INT32_MIN && value <= INT32_MAX ? int32_t(value) : -1; }

}  // namespace

void Scanner::feed(const char* data, size_t size, bool last) {
  buffer_.append(data, size);
  Cursor cursor{buffer_.data(), buffer_.data() + buffer_.size(), last};
  const char* safe = cursor.at;
  while (step(cursor) != Status::kMore) safe = cursor.at;
  complete = where_ == Where::kEnd;
  if (last && where_ == Where::kEvents) {
    while (safe < cursor.end && (is_space(*safe) || *safe == ',')) ++safe;
    if (safe < cursor.end) skip("cut off at the end");
  }
  buffer_.erase(0, last ? buffer_.size() : size_t(safe - buffer_.data()));
}

// Reads one event or key; after kMore the position of the cursor is undefined.
Status Scanner::step(Cursor& cursor) {
  switch (where_) {
    case Where::kBegin:
      return begin(cursor);
    case Where::kRoot:
      return root_key(cursor);
    case Where::kEvents:
      return events(cursor);
    case Where::kLost:
      return lost(cursor);
    case Where::kEnd:
      break;
  }
  // Nothing should follow the end of the JSON; if a stray bracket ended it too early, events do.
  cursor.skip_space();
  if (cursor.done()) return Status::kMore;
  skip("unreadable behind the end");
  where_ = Where::kLost;
  return Status::kOk;
}

Status Scanner::begin(Cursor& cursor) {
  if (cursor.end - cursor.at < 3 && !cursor.last) return Status::kMore;
  if (cursor.end - cursor.at >= 3 && std::memcmp(cursor.at, "\xEF\xBB\xBF", 3) == 0) cursor.at += 3;
  cursor.skip_space();
  if (cursor.done()) return Status::kMore;
  if (*cursor.at == '[') {
    where_ = Where::kEvents;
    after_ = Where::kEnd;
  } else if (*cursor.at == '{') {
    where_ = after_ = Where::kRoot;
  } else {
    skip("not a JSON object or list at the beginning");
    where_ = Where::kLost;
    return Status::kOk;
  }
  ++cursor.at;
  return Status::kOk;
}

Status Scanner::root_key(Cursor& cursor) {
  while (!cursor.done() && (is_space(*cursor.at) || *cursor.at == ',')) ++cursor.at;
  if (cursor.done()) return Status::kMore;
  if (*cursor.at == '}') {
    ++cursor.at;
    where_ = Where::kEnd;
    return Status::kOk;
  }
  const char* start = cursor.at;
  Text key, value;
  if (*cursor.at != '"') {
    where_ = Where::kLost;
    skip("unreadable between the file's keys");
    return Status::kOk;
  }
  Status status = cursor.string(key);
  if (status == Status::kOk) {
    cursor.skip_space();
    if (cursor.done()) return Status::kMore;
    if (*cursor.at == ':') ++cursor.at;
    cursor.skip_space();
    if (cursor.done()) return Status::kMore;
    if (*cursor.at == '[') {
      const Status holds = key == "traceEvents" ? Status::kOk : begins_with_phase(cursor);
      if (holds == Status::kMore) return holds;
      if (holds == Status::kOk) {
        ++cursor.at;
        where_ = Where::kEvents;
        return holds;
      }
    }
    // Events outside a list are searched for individually.
    status = key == "traceEvents" ? Status::kBad : cursor.value(value);
  }
  if (status == Status::kOk) {
    root.emplace_back(std::string(key), std::string(value));
  } else if (status == Status::kBad || cursor.last || size_t(cursor.end - start) > kLongestRootValue) {
    cursor.at = start + 1;
    where_ = Where::kLost;
    skip("unreadable between the file's keys");
    return Status::kOk;
  }
  return status;
}

Status Scanner::events(Cursor& cursor) {
  while (!cursor.done() && (is_space(*cursor.at) || *cursor.at == ',')) ++cursor.at;
  if (cursor.done()) return Status::kMore;
  const char* start = cursor.at;
  if (*start == ']') {
    ++cursor.at;
    where_ = after_;
    return Status::kOk;
  }
  Event found;
  Status status = *start == '{' ? event(cursor, found) : Status::kBad;
  if (status == Status::kOk) {
    keep(found);
    return status;
  }
  if (status == Status::kMore && size_t(cursor.end - start) <= kLongestEvent) return status;
  skip("damaged");
  cursor.at = start + 1;
  where_ = Where::kLost;
  return Status::kOk;
}

// Skips to the next text that looks like the beginning of an event.
Status Scanner::lost(Cursor& cursor) {
  if (cursor.done()) return Status::kMore;
  for (; cursor.at < cursor.end; ++cursor.at) {
    if (*cursor.at != '{') continue;
    if (!cursor.last && size_t(cursor.end - cursor.at) < kOverlap) return Status::kMore;
    if (looks_like_event(cursor.at, cursor.end)) {
      where_ = Where::kEvents;
      return Status::kOk;
    }
  }
  return Status::kOk;
}

// Reads an object and calls `field` for each key, with the cursor at its value.
template <class Field>
static Status object(Cursor& cursor, Field field) {
  ++cursor.at;
  for (;;) {
    while (!cursor.done() && (is_space(*cursor.at) || *cursor.at == ',')) ++cursor.at;
    if (cursor.done()) return Status::kMore;
    if (*cursor.at == '}') {
      ++cursor.at;
      return Status::kOk;
    }
    if (*cursor.at != '"') return Status::kBad;
    Text key;
    Status status = cursor.string(key);
    if (status != Status::kOk) return status;
    // If the end of an event is missing, its last string would run into the next event's first key.
    if (key.find('"') != Text::npos && key.find_first_of("{}") != Text::npos) return Status::kBad;
    cursor.skip_space();
    if (cursor.done()) return Status::kMore;
    if (*cursor.at != ':') return Status::kBad;
    ++cursor.at;
    cursor.skip_space();
    if (cursor.done()) return Status::kMore;
    status = field(key);
    if (status != Status::kOk) return status;
  }
}

Status Scanner::event(Cursor& cursor, Event& found) {
  return object(cursor, [&](Text key) {
    if (key == "args" && *cursor.at == '{') return arguments(cursor, found);
    Text value;
    const Status status = cursor.value(value);
    if (status != Status::kOk) return status;
    switch (key.size()) {
      case 2:
        if (key == "ph") found.phase = unquoted(value).empty() ? 0 : unquoted(value)[0];
        else if (key == "ts") found.time = value;
        else if (key == "id") found.id = value;
        break;
      case 3:
        if (key == "cat") found.category = unquoted(value);
        else if (key == "dur") found.duration = value;
        else if (key == "pid") found.process = value;
        else if (key == "tid") found.thread = value;
        break;
      case 4:
        if (key == "name") found.name = unquoted(value);
        break;
      case 8:
        if (key == "finished") found.unfinished = value == "false";
        break;
      default:
        break;
    }
    return status;
  });
}

Status Scanner::arguments(Cursor& cursor, Event& found) {
  return object(cursor, [&](Text key) {
    Text value;
    const Status status = cursor.value(value);
    if (status != Status::kOk) return status;
    switch (key.size()) {
      case 4:
        if (key == "name") found.label = value;
        break;
      case 5:
        if (key == "Bytes") found.bytes = value;
        else if (key == "bytes") found.copied = value;
        else if (key == "Stack") found.stack = value;
        break;
      case 6:
        if (key == "device") found.device = value;
        else if (key == "stream") found.stream = value;
        else if (key == "labels") found.label = value;
        break;
      case 8:
        if (key == "finished") found.unfinished = value == "false";
        break;
      case 9:
        if (key == "Device Id") found.device_id = value;
        break;
      case 10:
        if (key == "Input Dims" || key == "Input dims") found.dims = value;
        else if (key == "Call stack") found.stack = value;
        break;
      case 11:
        if (key == "External id" || key == "external id") found.external = value;
        else if (key == "correlation") found.correlation = value;
        else if (key == "Device Type") found.device_type = value;
        break;
      case 13:
        if (key == "Fwd thread id") found.forward_thread = value;
        break;
      case 15:
        if (key == "Sequence number") found.sequence = value;
        else if (key == "Total Allocated") found.total = value;
        break;
      default:
        break;
    }
    return status;
  });
}

void Scanner::keep(const Event& found) {
  ++phases[found.phase > ' ' && found.phase < '\x7f' ? found.phase : '?'];
  switch (found.phase) {
    case 'X':
      return keep_span(found);
    case 'B':
    case 'E':
      return keep_mark(found);
    case 'i':
    case 'I':
      if (found.name == "[memory]") keep_memory(found);
      return;
    case 's':
    case 'f':
      if (found.category == "fwdbwd") keep_flow(found);
      return;
    case 'M':
      if (found.name == "process_name" || found.name == "thread_name" || found.name == "process_labels")
        labels[{std::string(found.name), std::string(found.process), std::string(found.thread)}] = found.label;
      return;
    case 0:
      skip("without a phase");
      return;
    default:
      if (kPhases.find(found.phase) == Text::npos) skip("with an unknown phase");
      return;
  }
}

int32_t Scanner::track_of(const Event& found) {
  track_key_.assign(found.process).push_back(kSeparator);
  track_key_.append(found.thread);
  if (track_key_ != last_pair_ || last_track_ < 0) {
    last_pair_ = track_key_;
    last_track_ = tracks.id(track_key_);
  }
  return last_track_;
}

int32_t Scanner::name_of(const Event& found) {
  name_key_.assign(found.category).push_back(kSeparator);
  name_key_.append(found.name);
  return names.id(name_key_);
}

bool Scanner::time_of(const Event& found, int64_t& ns) {
  if (!found.time.empty() && parse_ns(found.time, ns)) return true;
  skip(found.time.empty() ? "without a timestamp" : "with an unreadable timestamp");
  return false;
}

void Scanner::keep_span(const Event& found) {
  int64_t duration = -1, start = 0;
  const bool timed = !found.duration.empty() && parse_ns(found.duration, duration);
  Event placed = found;
  if (found.time.empty() && timed && duration >= 0) {
    // Spans without a timestamp are placed one after another on a separate track.
    ++skipped["without a timestamp, kept one after another"];
    placed.process = placed.thread = Text();
    start = untimed_ns_;
    untimed_ns_ += duration;
  } else if (!time_of(found, start)) {
    return;
  }
  if (duration < 0) {
    skip(timed ? "with a negative duration, taken as 0" : "without a duration, taken as 0");
    duration = 0;
  }
  unfinished += found.unfinished;
  Columns& c = columns;
  const int64_t row = taken_rows_ + int64_t(c.start.size());
  c.start.push_back(start);
  c.duration.push_back(duration);
  c.name.push_back(name_of(placed));
  c.track.push_back(track_of(placed));
  c.shape.push_back(found.dims.empty() ? -1 : shapes.id(found.dims));
  c.external.push_back(narrow(int_or(found.external, 0)));
  keep_rest_of_span(found, row);
}

void Scanner::keep_rest_of_span(const Event& found, int64_t row) {
  Columns& c = columns;
  int64_t number = 0;
  if (!found.correlation.empty() && parse_int(found.correlation, number)) {
    c.link_row.push_back(row);
    c.link_correlation.push_back(number);
    c.link_bytes.push_back(int_or(found.copied, -1));
    c.link_device.push_back(narrow(int_or(found.device, -1)));
    c.link_stream.push_back(narrow(int_or(found.stream, -1)));
  }
  if (!found.sequence.empty() && parse_int(found.sequence, number) && number >= 0) {
    c.sequence_row.push_back(row);
    c.sequence_number.push_back(number);
    c.sequence_backward.push_back(int_or(found.forward_thread, 0) != 0);
  }
  if (!found.stack.empty()) {
    c.stack_row.push_back(row);
    c.stack_text.push_back(stacks.id(found.stack));
  }
}

void Scanner::keep_memory(const Event& found) {
  int64_t time = 0, bytes = 0;
  if (!time_of(found, time)) return;
  if (found.bytes.empty() || !parse_int(found.bytes, bytes)) return skip("an allocation without its size");
  Columns& c = columns;
  c.memory_time.push_back(time);
  c.memory_bytes.push_back(bytes);
  c.memory_total.push_back(int_or(found.total, -1));
  c.memory_track.push_back(track_of(found));
  c.memory_device_type.push_back(narrow(int_or(found.device_type, -1)));
  c.memory_device.push_back(narrow(int_or(found.device_id, -1)));
}

void Scanner::keep_flow(const Event& found) {
  int64_t time = 0, id = 0;
  if (found.id.empty() || !parse_int(found.id, id) || !time_of(found, time)) return;
  columns.flow_id.push_back(id);
  columns.flow_time.push_back(time);
  columns.flow_track.push_back(track_of(found));
  columns.flow_end.push_back(found.phase == 'f');
}

void Scanner::keep_mark(const Event& found) {
  int64_t time = 0;
  if (!time_of(found, time)) return;
  columns.mark_time.push_back(time);
  columns.mark_name.push_back(name_of(found));
  columns.mark_track.push_back(track_of(found));
  columns.mark_end.push_back(found.phase == 'E');
}

}  // namespace assay::traces
