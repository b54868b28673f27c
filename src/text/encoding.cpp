#include "text/encoding.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "plumb/error.h"

namespace plumb {
namespace {

constexpr size_t kMostWindows = 1 << 20;
constexpr size_t kMostPadding = size_t{1} << 30;  // bytes for one text

// Calls f with each of the lists that have a value for a token.
template <typename F, typename... Encodings>
void each_list(const F& f, Encodings&... encodings) {
  f(encodings.ids...);
  f(encodings.type_ids...);
  f(encodings.special_mask...);
  f(encodings.attention_mask...);
  f(encodings.sequence...);
  f(encodings.offsets...);
  f(encodings.tokens...);
}

Encoding window(const Encoding& whole, size_t begin, size_t end) {
  Encoding part;
  each_list(
      [&](auto& to, const auto& from) {
        if (from.empty()) return;
        to.assign(from.begin() + static_cast<ptrdiff_t>(begin), from.begin() + static_cast<ptrdiff_t>(end));
      },
      part, whole);
  return part;
}

void append_tokens(Encoding& to, const Encoding& more) {
  each_list([](auto& a, const auto& b) { a.insert(a.end(), b.begin(), b.end()); }, to, more);
}

// Windows that overlap, or of two texts with one another, may be many more than the tokens.
void check_windows(size_t count) {
  if (count <= kMostWindows) return;
  throw Error(ErrorKind::input, fmt::format("truncation makes {} windows of a text, at most {} are possible",
                                            count, kMostWindows));
}

void cut(Encoding& encoding, size_t length, const Truncation& truncation) {
  const size_t size = encoding.size();
  if (length >= size) return;
  if (length == 0) {
    Encoding none;
    none.overflow.push_back(std::move(encoding));
    encoding = std::move(none);
    return;
  }
  if (truncation.stride >= length) {
    throw Error(ErrorKind::input, fmt::format("truncation leaves {} tokens of a text, and its stride is {}",
                                              length, truncation.stride));
  }
  const size_t step = length - truncation.stride;
  check_windows(size / step + 1);
  std::vector<Encoding> windows;
  windows.reserve(size / step + 1);
  if (truncation.left) {
    for (size_t end = size;; end -= step) {
      const size_t begin = end > length ? end - length : 0;
      windows.push_back(window(encoding, begin, end));
      if (begin == 0) break;
    }
  } else {
    for (size_t begin = 0;; begin += step) {
      const size_t end = std::min(begin + length, size);
      windows.push_back(window(encoding, begin, end));
      if (end == size) break;
    }
  }
  encoding = std::move(windows.front());
  encoding.overflow.assign(std::make_move_iterator(windows.begin() + 1),
                           std::make_move_iterator(windows.end()));
}

// The lengths of two texts of which the longer gives up tokens first.
std::pair<size_t, size_t> shorten_longest(size_t first, size_t second, size_t length) {
  size_t shorter = std::min(first, second);
  size_t longer = shorter > length ? shorter : std::max(shorter, length - shorter);
  if (shorter + longer > length) {
    shorter = length / 2;
    longer = shorter + length % 2;
  }
  return first > second ? std::pair(longer, shorter) : std::pair(shorter, longer);
}

// A small file may ask for a long padding, and truncation make many windows that each get it.
void check_padding(const Encoding& encoding, size_t length, const Padding& padding, Wanted wanted) {
  const auto lacks = [&](const Encoding& part) { return length - std::min(length, part.size()); };
  size_t count = lacks(encoding);
  for (const Encoding& part : encoding.overflow) count += lacks(part);
  const size_t each = 2 * sizeof(int32_t) + 3 + (wanted.offsets ? sizeof(TextSpan) : 0) +
                      (wanted.tokens ? sizeof(std::string) + padding.token.size() : 0);
  if (count <= kMostPadding / each) return;
  throw Error(ErrorKind::input,
              fmt::format("padding to {} tokens adds {} of them to the {} windows of a text, at most {} fit",
                          length, count, encoding.overflow.size() + 1, kMostPadding / each));
}

void pad_one(Encoding& encoding, size_t length, const Padding& padding, Wanted wanted) {
  for (Encoding& part : encoding.overflow) pad_one(part, length, padding, wanted);
  if (encoding.size() >= length) return;
  const size_t count = length - encoding.size();
  const auto add = [&](auto& list, const auto& value) {
    list.insert(padding.left ? list.begin() : list.end(), count, value);
  };
  add(encoding.ids, padding.id);
  add(encoding.type_ids, padding.type_id);
  add(encoding.special_mask, uint8_t{1});
  add(encoding.attention_mask, uint8_t{0});
  add(encoding.sequence, int8_t{-1});
  if (wanted.offsets) add(encoding.offsets, TextSpan{});
  if (wanted.tokens) add(encoding.tokens, padding.token);
}

}  // namespace

Truncation read_truncation(const JsonAt& json) {
  constexpr uint64_t kMost = std::numeric_limits<int64_t>::max();
  Truncation result;
  result.max_length = json.whole("max_length", kMost);
  result.stride = json.whole("stride", kMost);
  const std::string strategy = json.text("strategy"), direction = json.text("direction", "Right");
  if (strategy == "OnlyFirst") {
    result.strategy = Truncation::Strategy::only_first;
  } else if (strategy == "OnlySecond") {
    result.strategy = Truncation::Strategy::only_second;
  } else if (strategy != "LongestFirst") {
    json.wrong("strategy", "LongestFirst, OnlyFirst or OnlySecond");
  }
  if (direction != "Left" && direction != "Right") json.wrong("direction", "Left or Right");
  result.left = direction == "Left";
  return result;
}

Padding read_padding(const JsonAt& json) {
  constexpr uint64_t kMost = 1u << 24;  // tokens: no model reads more, and a file cannot ask for all memory
  Padding result;
  const JsonAt strategy = json.at("strategy");
  if (strategy.value().is_object()) {
    result.length = strategy.whole("Fixed", kMost);
  } else if (strategy.value() != "BatchLongest") {
    json.wrong("strategy", "BatchLongest or {\"Fixed\": length}");
  }
  const std::string direction = json.text("direction");
  if (direction != "Left" && direction != "Right") json.wrong("direction", "Left or Right");
  result.left = direction == "Left";
  if (json.has("pad_to_multiple_of")) result.multiple = json.whole("pad_to_multiple_of", kMost);
  result.id = json.id("pad_id");
  result.type_id = json.id("pad_type_id");
  result.token = json.text("pad_token");
  return result;
}

void truncate(Encoding& first, Encoding* second, const Truncation& truncation) {
  const size_t length = truncation.max_length, total = first.size() + (second ? second->size() : 0);
  if (length == 0) {
    cut(first, 0, truncation);
    if (second) cut(*second, 0, truncation);
    return;
  }
  if (total <= length) return;
  if (truncation.strategy == Truncation::Strategy::longest_first) {
    if (!second) return cut(first, length, truncation);
    const auto [one, other] = shorten_longest(first.size(), second->size(), length);
    cut(first, one, truncation);
    cut(*second, other, truncation);
    return;
  }
  const bool is_first = truncation.strategy == Truncation::Strategy::only_first;
  Encoding* target = is_first ? &first : second;
  if (!target)
    throw Error(ErrorKind::input, "truncation of the second text of a pair, and there is one text");
  const size_t surplus = total - length;
  if (target->size() <= surplus) {
    throw Error(ErrorKind::input,
                fmt::format("truncation to {} tokens has to take {} from the {} text, which has {}", length,
                            surplus, is_first ? "first" : "second", target->size()));
  }
  cut(*target, target->size() - surplus, truncation);
}

void pad(std::vector<Encoding>& batch, const Padding& padding, Wanted wanted) {
  size_t length = padding.length.value_or(0);
  for (const Encoding& encoding : batch) {
    if (!padding.length) length = std::max(length, encoding.size());
  }
  if (padding.multiple > 0 && length % padding.multiple > 0)
    length += padding.multiple - length % padding.multiple;
  for (Encoding& encoding : batch) {
    check_padding(encoding, length, padding, wanted);
    pad_one(encoding, length, padding, wanted);
  }
}

void append(Encoding& to, const Encoding& more) {
  std::vector<Encoding> windows;
  const size_t count = (to.overflow.size() + 1) * (more.overflow.size() + 1) - 1;
  check_windows(count);
  windows.reserve(count);
  for (const Encoding& window_of_first : to.overflow) {
    windows.push_back(window_of_first);
    append_tokens(windows.back(), more);
    for (const Encoding& other : more.overflow) {
      windows.push_back(window_of_first);
      append_tokens(windows.back(), other);
    }
  }
  for (const Encoding& other : more.overflow) {
    windows.push_back(window(to, 0, to.size()));
    append_tokens(windows.back(), other);
  }
  append_tokens(to, more);
  to.overflow = std::move(windows);
}

}  // namespace plumb
