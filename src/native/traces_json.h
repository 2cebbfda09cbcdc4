// Reads JSON that is almost valid: Kineto writes unescaped quotes and bare nan, and files may be truncated.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace assay::traces {

enum class Status { kOk, kMore, kBad };

using Text = std::string_view;

inline bool is_space(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

// A position in a buffer that may end before the file does; `last` means that no more data follows.
struct Cursor {
  const char* at;
  const char* end;
  bool last;

  bool done() const { return at >= end; }
  void skip_space() {
    while (at < end && is_space(*at)) ++at;
  }

  // Whether the quote before `next` ends its string: in JSON only these characters may follow a string, so a quote
  // before anything else is part of the string.
  Status closes(const char* next) const {
    while (next < end && is_space(*next)) ++next;
    if (next >= end) return last ? Status::kOk : Status::kMore;
    if (*next == ':' || *next == '}' || *next == ']') return Status::kOk;
    if (*next != ',') return Status::kBad;
    do ++next;
    while (next < end && is_space(*next));
    if (next >= end) return last ? Status::kOk : Status::kMore;
    return std::strchr("\"{[]}-0123456789tfnNiI", *next) ? Status::kOk : Status::kBad;
  }

  // Reads the text between quotes without resolving escapes; moves the cursor from the opening quote past the last.
  Status string(Text& text) {
    const char* start = ++at;
    for (;;) {
      while (at < end && *at != '"' && *at != '\\') ++at;
      if (at >= end) return Status::kMore;
      if (*at == '\\') {
        at += 2;
        continue;
      }
      const Status closing = closes(at + 1);
      if (closing == Status::kMore) return closing;
      ++at;
      if (closing == Status::kOk) {
        text = Text(start, size_t(at - 1 - start));
        return closing;
      }
    }
  }

  // Reads any value as raw text, including quotes.
  Status value(Text& text) {
    const char* start = at;
    if (*at == '"') {
      const Status status = string(text);
      if (status == Status::kOk) text = Text(start, size_t(at - start));
      return status;
    }
    if (*at == '{' || *at == '[') {
      const Status status = nested();
      text = Text(start, size_t(at - start));
      return status;
    }
    while (at < end && *at != ',' && *at != '}' && *at != ']' && !is_space(*at)) ++at;
    if (at >= end && !last) return Status::kMore;
    text = Text(start, size_t(at - start));
    return text.empty() ? Status::kBad : Status::kOk;
  }

 private:
  // Moves past an object or array of any depth.
  Status nested() {
    int depth = 0;
    Text ignored;
    while (at < end) {
      switch (*at) {
        case '"': {
          const Status status = string(ignored);
          if (status != Status::kOk) return status;
          continue;
        }
        case '{':
        case '[':
          ++depth;
          break;
        case '}':
        case ']':
          if (--depth == 0) {
            ++at;
            return Status::kOk;
          }
          break;
        default:
          break;
      }
      ++at;
    }
    return Status::kMore;
  }
};

inline Text unquoted(Text text) {
  return text.size() >= 2 && text.front() == '"' ? text.substr(1, text.size() - 2) : text;
}

// Parses a number truncated to an integer. Returns false if it is not a number or does not fit 64 bits.
inline bool parse_int(Text text, int64_t& value) {
  text = unquoted(text);
  size_t i = 0;
  const bool negative = !text.empty() && text[0] == '-';
  if (negative || (!text.empty() && text[0] == '+')) ++i;
  uint64_t total = 0;
  size_t digits = 0;
  for (; i < text.size() && text[i] >= '0' && text[i] <= '9'; ++i, ++digits) {
    const uint64_t digit = uint64_t(text[i] - '0');
    if (total > (uint64_t(INT64_MAX) - digit) / 10) return false;
    total = total * 10 + digit;
  }
  if (!digits || (i < text.size() && text[i] != '.')) return false;
  value = negative ? -int64_t(total) : int64_t(total);
  return true;
}

// Parses decimal microseconds as whole nanoseconds, exactly; half a nanosecond rounds away from zero.
inline bool parse_ns(Text text, int64_t& value) {
  text = unquoted(text);
  const bool negative = !text.empty() && text[0] == '-';
  if (negative || (!text.empty() && text[0] == '+')) text.remove_prefix(1);
  int64_t power = 0;
  if (const size_t mark = text.find_first_of("eE"); mark != Text::npos) {
    if (!parse_int(text.substr(mark + 1), power) || power > 30 || power < -30) return false;
    text = text.substr(0, mark);
  }
  const size_t point = text.find('.');
  const size_t digits = text.size() - (point != Text::npos);
  // The number of digits before the decimal point after moving it by three places and the exponent.
  const int64_t whole = int64_t(point == Text::npos ? text.size() : point) + 3 + power;
  if (digits == 0 || whole < 0) {
    value = 0;
    return digits > 0;
  }
  int64_t total = 0, place = 0;
  bool up = false;
  for (char c : text) {
    if (c == '.') continue;
    if (c < '0' || c > '9') return false;
    if (place < whole) {
      if (total > (INT64_MAX - 10) / 10) return false;
      total = total * 10 + (c - '0');
    } else if (place == whole) {
      up = c >= '5';
    }
    ++place;
  }
  for (; place < whole; ++place) {
    if (total > (INT64_MAX - 10) / 10) return false;
    total *= 10;
  }
  value = negative ? -(total + up) : total + up;
  return true;
}

}  // namespace assay::traces
