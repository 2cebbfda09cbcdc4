// Events of a Chrome trace as columns, from a file that comes in pieces.
#pragma once

#include <array>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "traces_json.h"

namespace assay::traces {

// Texts as small numbers, in the order of their first appearance.
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

// The columns of everything scanned since they were last taken.
struct Columns {
  // Spans: one row a complete event. Names hold the category too, before a unit separator.
  std::vector<int64_t> start, duration;
  std::vector<int32_t> name, track, shape, external;
  // Links: rows of spans that carry a correlation id.
  std::vector<int64_t> link_row, link_correlation, link_bytes;
  std::vector<int32_t> link_device, link_stream;
  // Sequence numbers of operations; `sequence_backward` is 1 where a forward thread is named.
  std::vector<int64_t> sequence_row, sequence_number;
  std::vector<int8_t> sequence_backward;
  // Allocations.
  std::vector<int64_t> memory_time, memory_bytes, memory_total;
  std::vector<int32_t> memory_track, memory_device_type, memory_device;
  // Arrows from forward to backward.
  std::vector<int64_t> flow_id, flow_time;
  std::vector<int32_t> flow_track;
  std::vector<int8_t> flow_end;
  // Begin and end events that are not yet spans.
  std::vector<int64_t> mark_time;
  std::vector<int32_t> mark_name, mark_track;
  std::vector<int8_t> mark_end;
  // Call stacks that operations carry themselves.
  std::vector<int64_t> stack_row;
  std::vector<int32_t> stack_text;
};

class Scanner {
 public:
  // Takes the next piece of the file; `last` says that nothing follows.
  void feed(const char* data, size_t size, bool last);

  Columns columns;
  Interner names, tracks, shapes, stacks;
  std::map<std::array<std::string, 3>, std::string> labels;  // what a process or thread is called, by kind, pid, tid
  std::vector<std::pair<std::string, std::string>> root;  // the file's other keys with their values as they stand
  std::map<std::string, int64_t> skipped;               // reasons, and how many events each cost
  std::map<char, int64_t> phases;                       // all events by phase
  int64_t unfinished = 0;
  bool complete = false;  // whether the file's end was the end of its JSON

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

  std::string held_;
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
