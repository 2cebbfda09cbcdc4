// Turns the events of a Chrome trace, which arrives in pieces, into columns.
#pragma once

#include <array>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "traces_json.h"

namespace assay::traces {

// Assigns texts consecutive numbers in order of first appearance.
class Interner {
 public:
  int32_t id(Text text) {
    if (4 * (texts_.size() + 1) > 3 * slots_.size()) grow();
    const uint64_t hash = hashed(text);
    for (size_t at = hash & (slots_.size() - 1);; at = (at + 1) & (slots_.size() - 1)) {
      Slot& slot = slots_[at];
      if (slot.id < 0) {
        slot = {hash, int32_t(texts_.size())};
        texts_.emplace_back(text);
        return slot.id;
      }
      if (slot.hash == hash && texts_[size_t(slot.id)] == text) return slot.id;
    }
  }
  const std::deque<std::string>& texts() const { return texts_; }

 private:
  struct Slot {
    uint64_t hash = 0;
    int32_t id = -1;
  };
  std::vector<Slot> slots_ = std::vector<Slot>(256);
  std::deque<std::string> texts_;

  static uint64_t hashed(Text text) {
    uint64_t hash = 0x9E3779B97F4A7C15ull ^ text.size();
    size_t i = 0;
    for (; i + 8 <= text.size(); i += 8) hash = mixed(hash, text.data() + i, 8);
    if (i < text.size()) hash = mixed(hash, text.data() + i, text.size() - i);
    return hash ^ (hash >> 29);
  }
  static uint64_t mixed(uint64_t hash, const char* data, size_t size) {
    uint64_t word = 0;
    std::memcpy(&word, data, size);
    hash = (hash ^ word) * 0xFF51AFD7ED558CCDull;
    return hash ^ (hash >> 32);
  }
  void grow() {
    std::vector<Slot> old(2 * slots_.size());
    old.swap(slots_);
    for (const Slot& slot : old) {
      if (slot.id < 0) continue;
      size_t at = slot.hash & (slots_.size() - 1);
      while (slots_[at].id >= 0) at = (at + 1) & (slots_.size() - 1);
      slots_[at] = slot;
    }
  }
};

// The columns of everything scanned since the last `take`.
struct Columns {
  // Spans: one row per complete event. A name is preceded by its category and a unit separator.
  std::vector<int64_t> start, duration;
  std::vector<int32_t> name, track, shape, external;
  // Links: rows of spans with a correlation id.
  std::vector<int64_t> link_row, link_correlation, link_bytes;
  std::vector<int32_t> link_device, link_stream;
  // Sequence numbers of ops; `sequence_backward` is 1 if the event names a forward thread.
  std::vector<int64_t> sequence_row, sequence_number;
  std::vector<int8_t> sequence_backward;
  // Allocations.
  std::vector<int64_t> memory_time, memory_bytes, memory_total;
  std::vector<int32_t> memory_track, memory_device_type, memory_device;
  // Flow arrows from forward to backward ops.
  std::vector<int64_t> flow_id, flow_time;
  std::vector<int32_t> flow_track;
  std::vector<int8_t> flow_end;
  // Begin and end events, which are joined into spans later.
  std::vector<int64_t> mark_time;
  std::vector<int32_t> mark_name, mark_track;
  std::vector<int8_t> mark_end;
  // Call stacks recorded with ops.
  std::vector<int64_t> stack_row;
  std::vector<int32_t> stack_text;
};

class Scanner {
 public:
  // Scans the next piece of the file; `last` means that no other piece follows.
  void feed(const char* data, size_t size, bool last);

  Columns columns;
  Interner names, tracks, shapes, stacks;
  std::map<std::array<std::string, 3>, std::string> labels;  // names of processes and threads by kind, pid, tid
  std::vector<std::pair<std::string, std::string>> root;  // the file's other top-level keys with their raw values
  std::map<std::string, int64_t> skipped;               // number of skipped events by reason
  std::map<char, int64_t> phases;                       // number of events by phase
  int64_t unfinished = 0;
  bool complete = false;  // whether the JSON was complete at the end of the file

  size_t rows() const { return columns.start.size(); }
  void taken(size_t rows) {
    taken_rows_ += int64_t(rows);
    columns = {};
  }

 private:
  enum class Where { kBegin, kRoot, kEvents, kLost, kEnd };

  struct Event {
    char phase = 0;
    Text category, name, time, duration, process, thread, id;
    Text dims, external, correlation, sequence, forward_thread, stack, label;
    Text bytes, total, device_type, device_id, device, stream, copied;
    bool unfinished = false;
  };

  std::string buffer_;
  Where where_ = Where::kBegin;
  Where after_ = Where::kEnd;
  int64_t taken_rows_ = 0, untimed_ns_ = 0;
  std::string track_key_, name_key_, last_pair_;
  int32_t last_track_ = -1;

  Status step(Cursor& cursor);
  Status begin(Cursor& cursor);
  Status root_key(Cursor& cursor);
  Status events(Cursor& cursor);
  Status lost(Cursor& cursor);
  Status event(Cursor& cursor, Event& found);
  Status arguments(Cursor& cursor, Event& found);
  void keep(const Event& found);
  void keep_span(const Event& found);
  void keep_rest_of_span(const Event& found, int64_t row);
  void keep_memory(const Event& found);
  void keep_flow(const Event& found);
  void keep_mark(const Event& found);
  int32_t track_of(const Event& found);
  int32_t name_of(const Event& found);
  bool time_of(const Event& found, int64_t& ns);
  void skip(const char* reason) { ++skipped[reason]; }
};

}  // namespace assay::traces
