#include "data/documents.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/json.h"
#include "base/random.h"
#include "data/windows.h"
#include "plumb/error.h"
#include "text/prompt.h"

namespace plumb {
namespace {

constexpr uint64_t kOrderStream = 0x6f72646572, kRowStream = 0x646f63756d;  // who asks for random numbers

// A text of the line, which has to be there.
std::string text_of(const Json& j, const char* key, const std::string& where) {
  if (!j.at(key).is_string())
    throw Error(ErrorKind::input, fmt::format("{}: {} is {}, expected a text", where, key, j.at(key).dump()));
  return j.at(key).get<std::string>();
}

}  // namespace

Documents::Documents(const std::string& path, const Tokenizer& tokenizer, const TextOptions& options)
    : path_(path), seed_(options.seed) {
  const MappedFile file(path);
  const std::string_view text = file.bytes();
  for (size_t at = 0, number = 1; at < text.size(); ++number) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string line(text.substr(at, end - at));
    if (line.find_first_not_of(" \t\r") != line.npos)
      documents_.push_back(read(line, static_cast<int64_t>(number), tokenizer));
    at = end + 1;
  }
  if (documents_.empty()) throw Error(ErrorKind::input, path + " has no line that holds a document");
  const RandomKey key{seed_, random_stream(kOrderStream)};
  for (size_t i = documents_.size(); i > 1; --i)
    std::swap(documents_[i - 1], documents_[random_below(key, i, i)]);
  held_out_ = static_cast<size_t>(static_cast<double>(documents_.size()) * options.held_out);
  if (options.held_out > 0 && documents_.size() > 1) held_out_ = std::max<size_t>(held_out_, 1);
  const auto shorter = [](const Document& a, const Document& b) { return a.ids.size() < b.ids.size(); };
  longest_ = std::max_element(documents_.begin(), documents_.end(), shorter) - documents_.begin();
}

Documents::Document Documents::read(const std::string& line, int64_t number,
                                    const Tokenizer& tokenizer) const {
  const std::string where = fmt::format("{}, line {}", path_, number);
  const Json j = parse_json(line, where);
  const bool plain = j.is_object() && j.size() == 1 && j.contains("text");
  const bool pair = j.is_object() && j.size() == 2 && j.contains("prompt") && j.contains("completion");
  if (!plain && !pair) {
    throw Error(
        ErrorKind::input,
        where + ": expected {\"text\": ...} or {\"prompt\": ..., \"completion\": ...} and nothing else");
  }
  Document d{.line = number};
  const std::string prompt = pair ? text_of(j, "prompt", where) : "";
  const std::string rest = text_of(j, pair ? "completion" : "text", where);
  d.ids = prompt_ids(tokenizer, prompt + rest);
  d.bytes = static_cast<int64_t>(rest.size());
  if (pair) {
    const std::vector<int32_t> begin = prompt_ids(tokenizer, prompt);
    const auto differs = std::mismatch(begin.begin(), begin.end(), d.ids.begin(), d.ids.end()).first;
    d.first = std::max<int64_t>(differs - begin.begin(), 1);
  }
  if (const auto eos = tokenizer.special(TokenRole::eos)) d.ids.push_back(*eos);
  if (static_cast<int64_t>(d.ids.size()) <= d.first)
    throw Error(ErrorKind::input,
                where + ": there is nothing to learn in it: less than two tokens, or no completion");
  return d;
}

Documents::Part Documents::part(Split split) const {
  if (split == Split::train) return {held_out_, documents_.size()};
  return {0, split == Split::validation ? held_out_ : 0};
}

void Documents::check_length(int64_t length) const {
  const Document& d = documents_[longest_];
  const auto inputs = static_cast<int64_t>(d.ids.size()) - 1;
  if (inputs <= length) return;
  throw Error(ErrorKind::input,
              fmt::format("{}, line {} takes a row of {} tokens, and rows have {} (--length)", path_, d.line,
                          inputs, length));
}

// Puts documents from `next` on into a row while they fit, and returns the first that did not.
size_t Documents::fill(Batch& batch, int64_t row, size_t next, size_t end) const {
  const int64_t begin = row * batch.length;
  int64_t at = 0;
  for (; next < end; ++next) {
    const Document& d = documents_[next];
    const auto inputs = static_cast<int64_t>(d.ids.size()) - 1;
    if (at + inputs > batch.length) break;
    std::copy_n(d.ids.begin(), inputs, batch.ids.begin() + begin + at);
    std::fill_n(batch.mask.begin() + begin + at, inputs, 1);
    std::fill_n(batch.starts.begin() + begin + at, inputs, static_cast<int32_t>(at));
    std::copy(d.ids.begin() + d.first, d.ids.end(), batch.targets.begin() + begin + at + d.first - 1);
    batch.target_count += inputs + 1 - d.first;
    at += inputs;
  }
  std::fill_n(batch.starts.begin() + begin + at, batch.length - at, static_cast<int32_t>(at));
  return next;
}

Batch Documents::batch(const Rows& what) const {
  check_length(what.length);
  const Part own = part(Split::train);
  if (own.begin == own.end) throw Error(ErrorKind::input, path_ + ": every document is held out");
  Batch b = empty_batch(what.rows, what.length, what.pad_id);
  b.starts.resize(b.ids.size());
  const RandomKey key{seed_, random_stream(kRowStream, static_cast<uint64_t>(what.step))};
  for (int64_t row = 0; row < what.rows; ++row) {
    const auto from = random_below(key, static_cast<uint64_t>(what.first_row + row), own.end - own.begin);
    fill(b, row, own.begin + from, own.end);
  }
  return b;
}

int64_t Documents::row_count(Split split, int64_t length) const {
  check_length(length);
  int64_t rows = 0, at = length;
  for (size_t i = part(split).begin; i < part(split).end; ++i) {
    const auto inputs = static_cast<int64_t>(documents_[i].ids.size()) - 1;
    rows += at + inputs > length;
    at = at + inputs > length ? inputs : at + inputs;
  }
  return rows;
}

Batch Documents::ordered(Split split, const Rows& what) const {
  check_length(what.length);
  const Part own = part(split);
  Batch skipped = empty_batch(1, what.length, what.pad_id),
        b = empty_batch(what.rows, what.length, what.pad_id);
  skipped.starts.resize(skipped.ids.size());
  b.starts.resize(b.ids.size());
  size_t next = own.begin;
  for (int64_t row = 0; row < what.first_row; ++row) next = fill(skipped, 0, next, own.end);
  for (int64_t row = 0; row < what.rows; ++row) next = fill(b, row, next, own.end);
  return b;
}

int64_t Documents::token_count(Split split) const {
  int64_t count = 0;
  for (size_t i = part(split).begin; i < part(split).end; ++i)
    count += static_cast<int64_t>(documents_[i].ids.size());
  return count;
}

int64_t Documents::byte_count(Split split) const {
  int64_t count = 0;
  for (size_t i = part(split).begin; i < part(split).end; ++i) count += documents_[i].bytes;
  return count;
}

}  // namespace plumb
