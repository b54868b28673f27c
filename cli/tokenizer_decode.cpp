// plumb tokenizer decode: ids to texts.
#include <fmt/format.h>

#include <cstdio>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "plumb/error.h"
#include "plumb/tokenizer.h"
#include "tokenizer.h"

namespace plumb::cli {
namespace {

struct DecodeFlags {
  std::string tokenizer;
  std::vector<std::string> ids;
  bool json = false, keep_special = false, stream = false;
};

using Ids = std::vector<int32_t>;

[[noreturn]] void refuse(const std::string& text) {
  throw Error(ErrorKind::input, fmt::format("\"{}\" is not a list of token ids (whole numbers)",
                                            text.size() > 60 ? text.substr(0, 60) + "..." : text));
}

// Whole numbers between blanks and commas.
Ids plain_ids(const std::string& text) {
  Ids ids;
  for (size_t at = 0; at < text.size();) {
    if (std::string_view(" ,\t\r\n").find(text[at]) != std::string_view::npos) {
      ++at;
      continue;
    }
    size_t end = at;
    while (end < text.size() && text[end] >= '0' && text[end] <= '9') ++end;
    if (end == at || end - at > 9) refuse(text);
    ids.push_back(std::stoi(text.substr(at, end - at)));
    at = end;
  }
  return ids;
}

// A line: "5 17 3", "5,17,3", [5, 17, 3], or an object with such a list as "ids".
Ids parse_ids(const std::string& text) {
  const size_t start = text.find_first_not_of(" \t\r");
  if (start == std::string::npos || (text[start] != '[' && text[start] != '{')) return plain_ids(text);
  const auto value = nlohmann::json::parse(text, nullptr, false);
  const bool object = value.is_object() && value.contains("ids");
  const nlohmann::json& list = object ? value["ids"] : value;
  if (!list.is_array()) refuse(text);
  Ids ids;
  ids.reserve(list.size());
  for (const auto& id : list) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() > 999'999'999) refuse(text);
    ids.push_back(id.get<int32_t>());
  }
  return ids;
}

std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump();
}

// Prints what each id makes certain, as soon as it does.
class Stream {
 public:
  Stream(const Tokenizer& t, const DecodeFlags& f)
      : stream_(t.stream_decoder(f.keep_special)), json_(f.json) {}
  void add(int32_t id) { show(stream_.add(id)); }
  void finish() {
    show(stream_.finish());
    if (!json_) fmt::print("\n");
  }

 private:
  void show(const std::string& text) const {
    if (text.empty()) return;
    fmt::print("{}{}", json_ ? quoted(text) : text, json_ ? "\n" : "");
    std::fflush(stdout);
  }
  StreamDecoder stream_;
  bool json_;
};

void decode(const DecodeFlags& f) {
  const Tokenizer t = Tokenizer::load(f.tokenizer);
  const auto whole = [&](const std::string& line) {
    const std::string text = t.decode(parse_ids(line), f.keep_special);
    fmt::print("{}\n", f.json ? quoted(text) : text);
  };
  const std::string given = fmt::format("{}", fmt::join(f.ids, " "));
  if (f.stream) {
    Stream stream(t, f);
    if (f.ids.empty()) {
      for (std::string word; std::cin >> word;)
        for (const int32_t id : plain_ids(word)) stream.add(id);
    } else {
      for (const int32_t id : parse_ids(given)) stream.add(id);
    }
    return stream.finish();
  }
  if (!f.ids.empty()) return whole(given);
  each_line_of_input(whole);
}

}  // namespace

void add_tokenizer_decode(CLI::App& parent) {
  auto f = std::make_shared<DecodeFlags>();
  CLI::App* command = parent.add_subcommand("decode", "Ids to text");
  command->footer(
      "  plumb tokenizer decode MODEL 15496 995\n"
      "  plumb tokenizer encode MODEL --json < lines.txt | plumb tokenizer decode MODEL\n"
      "A line is \"5 17 3\", \"5,17,3\", [5, 17, 3] or an object with such a list as \"ids\".");
  add_tokenizer_path(*command, f->tokenizer);
  command->add_option("ids", f->ids, "The ids of one text (default: each line of the standard input is one)");
  command->add_flag("--json", f->json, "Each text as a JSON string");
  command->add_flag("--keep-special", f->keep_special, "Special tokens too");
  command->add_flag("--stream", f->stream,
                    "One text whose ids come one by one: prints what is certain after each, never half a "
                    "character; with --json each part is a line");
  command->callback([f] { decode(*f); });
}

}  // namespace plumb::cli
