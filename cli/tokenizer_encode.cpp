// plumb tokenizer encode: texts to ids.
#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "plumb/error.h"
#include "plumb/tokenizer.h"
#include "recipe.h"
#include "text_file.h"
#include "tokenizer.h"

namespace plumb::cli {
namespace {

using Json = nlohmann::ordered_json;

struct EncodeFlags {
  std::string tokenizer, pair, offsets = "bytes", cut = "end";
  std::vector<std::string> texts, files;
  bool json = false, from_json = false, bare = false, parse_special = false;
  bool no_truncation = false, no_padding = false, pad_left = false;
  int64_t max_length = 0, stride = 0, pad_to = 0;
};

constexpr const char* kUnits[] = {"none", "bytes", "code-points"};
constexpr OffsetUnit kOffsetUnits[] = {OffsetUnit::none, OffsetUnit::bytes, OffsetUnit::code_points};
constexpr const char* kEnds[] = {"end", "start"};

void refuse_contradictions(const EncodeFlags& f) {
  const auto both = [](bool one, bool other, const char* what) {
    if (one && other) throw Error(ErrorKind::usage, std::string(what) + ": choose one");
  };
  both(!f.texts.empty(), !f.files.empty(), "texts of the command line and --file");
  both(f.no_truncation, f.max_length > 0, "--max-length and --no-truncation");
  both(f.no_padding, f.pad_to > 0, "--pad-to and --no-padding");
  if (f.stride > 0 && f.max_length == 0) throw Error(ErrorKind::usage, "--stride needs --max-length");
  if (f.pad_left && f.pad_to == 0) throw Error(ErrorKind::usage, "--pad-left needs --pad-to");
  if (!f.pair.empty() && f.texts.size() + f.files.size() != 1)
    throw Error(ErrorKind::usage, "--pair is the second text of one: give one text or one --file");
  if (f.from_json && f.texts.size() + f.files.size() > 0)
    throw Error(ErrorKind::usage, "--from-json reads the standard input, and texts were given");
}

EncodeOptions encode_options(const EncodeFlags& f, const Tokenizer& t) {
  EncodeOptions o{.add_special = !f.bare, .parse_special = f.parse_special, .tokens = f.json};
  const size_t unit = parse_choice(f.offsets, kUnits, "--offsets");
  if (f.json) o.offsets = kOffsetUnits[unit];
  const bool left = parse_choice(f.cut, kEnds, "--cut") == 1;
  if (f.max_length > 0) {
    o.truncation = Truncation{.max_length = static_cast<size_t>(f.max_length),
                              .stride = static_cast<size_t>(f.stride),
                              .left = left};
  }
  if (f.no_truncation) o.truncation = Truncation{.max_length = ~size_t{0} >> 1};
  if (f.no_padding) o.padding = Padding{.length = 0, .token = ""};
  if (f.pad_to > 0) {
    const auto id = t.special(TokenRole::pad);
    if (!id) throw Error(ErrorKind::input, "--pad-to: this tokenizer has no padding token");
    o.padding = Padding{
        .length = static_cast<size_t>(f.pad_to), .id = *id, .token = t.token(*id), .left = f.pad_left};
  }
  return o;
}

Json json_of(const Encoding& e, const EncodeOptions& o) {
  Json line{{"ids", e.ids},
            {"tokens", e.tokens},
            {"type_ids", e.type_ids},
            {"special_tokens_mask", e.special_mask},
            {"attention_mask", e.attention_mask},
            {"sequence", e.sequence}};
  if (o.offsets != OffsetUnit::none) {
    Json& list = line["offsets"] = Json::array();
    for (const TextSpan& span : e.offsets) list.push_back({span.begin, span.end});
  }
  if (!e.overflow.empty()) {
    Json& list = line["overflow"] = Json::array();
    for (const Encoding& window : e.overflow) list.push_back(json_of(window, o));
  }
  return line;
}

// A line of --from-json: "text", ["text", "pair"] or {"text": ..., "pair": ...}.
std::pair<std::string, std::optional<std::string>> parse_input(const std::string& line) {
  const auto value = nlohmann::json::parse(line, nullptr, false);
  const auto pick = [](const nlohmann::json& from, auto key, bool there) {
    return there && from.at(key).is_string() ? std::optional(from.at(key).template get<std::string>())
                                             : std::nullopt;
  };
  std::optional<std::string> text, pair;
  bool well = value.is_string();
  if (value.is_string()) text = value.get<std::string>();
  if (value.is_object()) {
    text = pick(value, "text", value.contains("text"));
    pair = pick(value, "pair", value.contains("pair"));
    well = text && pair.has_value() == value.contains("pair");
  }
  if (value.is_array()) {
    text = pick(value, size_t{0}, !value.empty());
    pair = pick(value, size_t{1}, value.size() > 1);
    well = text && value.size() <= 2 && pair.has_value() == (value.size() == 2);
  }
  if (!well) {
    throw Error(ErrorKind::input,
                R"(expected JSON: "text", ["text", "pair"] or {"text": "...", "pair": "..."})");
  }
  return {*text, pair};
}

void encode(const EncodeFlags& f) {
  refuse_contradictions(f);
  const Tokenizer t = Tokenizer::load(f.tokenizer);
  const EncodeOptions options = encode_options(f, t);
  const auto one = [&](const std::string& text, const std::optional<std::string>& pair) {
    const Encoding e = t.encode_input({text, pair}, options);
    if (f.json) {
      fmt::print("{}\n", json_of(e, options).dump(-1, ' ', false, Json::error_handler_t::replace));
      return;
    }
    fmt::print("{}\n", fmt::join(e.ids, " "));
    for (const Encoding& window : e.overflow) fmt::print("{}\n", fmt::join(window.ids, " "));
  };
  const std::optional<std::string> pair = f.pair.empty() ? std::nullopt : std::optional(f.pair);
  for (const std::string& text : f.texts) one(text, pair);
  for (const std::string& path : f.files) one(read_whole_file(path), pair);
  if (!f.texts.empty() || !f.files.empty()) return;
  each_line_of_input([&](const std::string& line) {
    if (!f.from_json) return one(line, std::nullopt);
    const auto [text, second] = parse_input(line);
    one(text, second);
  });
}

void add_limits(CLI::App& command, EncodeFlags& f) {
  constexpr int64_t kMost = 1 << 24;
  command.add_option("--max-length", f.max_length, "Cut to this many tokens, in place of what the file says")
      ->check(CLI::Range(int64_t{1}, kMost));
  command.add_option("--stride", f.stride, "Tokens that a window shares with the one before")
      ->check(CLI::Range(int64_t{0}, kMost));
  command.add_option("--cut", f.cut, "What --max-length cuts off: end or start")->capture_default_str();
  command.add_flag("--no-truncation", f.no_truncation, "Cut nothing, whatever the file says");
  command.add_option("--pad-to", f.pad_to, "Pad to this many tokens, in place of what the file says")
      ->check(CLI::Range(int64_t{1}, kMost));
  command.add_flag("--pad-left", f.pad_left, "The padding goes before the text");
  command.add_flag("--no-padding", f.no_padding, "Pad nothing, whatever the file says");
}

}  // namespace

void add_tokenizer_encode(CLI::App& parent) {
  auto f = std::make_shared<EncodeFlags>();
  CLI::App* command = parent.add_subcommand("encode", "Texts to ids, one line each");
  command->footer(
      "  plumb tokenizer encode MODEL \"some text\" --json\n"
      "  plumb tokenizer encode MODEL --pair \"an answer\" \"a question\"\n"
      "  plumb tokenizer encode MODEL < lines.txt > ids.txt\n"
      "Where --max-length cuts a text, each window is a line; with --json they are under \"overflow\".");
  add_tokenizer_path(*command, f->tokenizer);
  command->add_option("text", f->texts, "Texts (default: each line of the standard input is one)");
  command->add_option("--file", f->files, "A file that is one text; may be given several times")
      ->allow_extra_args(false);
  command->add_option("--pair", f->pair, "The second text of a pair");
  command->add_flag("--from-json", f->from_json,
                    R"(Input lines are JSON: "text", ["text", "pair"] or {"text": ..., "pair": ...})");
  command->add_flag("--json", f->json,
                    "One JSON object a line: ids, tokens, type_ids, special_tokens_mask, attention_mask, "
                    "sequence, offsets, overflow");
  command->add_option("--offsets", f->offsets, "With --json: bytes, code-points or none")
      ->capture_default_str();
  command->add_flag("--bare", f->bare, "Add no special tokens around the text");
  command->add_flag("--parse-special", f->parse_special,
                    "Special tokens written in the text count as such (default: they are text)");
  add_limits(*command, *f);
  command->callback([f] { encode(*f); });
}

}  // namespace plumb::cli
