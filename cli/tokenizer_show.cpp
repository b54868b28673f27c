// plumb tokenizer show: what a tokenizer is, and how it cuts a text.
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "plumb/error.h"
#include "plumb/tokenizer.h"
#include "tokenizer.h"

namespace plumb::cli {
namespace {

using Json = nlohmann::json;  // an ordered object of a large vocabulary takes quadratic time

struct ShowFlags {
  std::string tokenizer;
  std::vector<std::string> texts;
  bool json = false, parse_special = false;
  int first = 10;
};

// The next character of valid UTF-8.
char32_t take_character(std::string_view& text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  const size_t length = lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  char32_t c = length == 1 ? lead : lead & (0x7Fu >> length);
  for (size_t i = 1; i < std::min(length, text.size()); ++i)
    c = c << 6 | (static_cast<unsigned char>(text[i]) & 0x3F);
  text.remove_prefix(std::min(length, text.size()));
  return c;
}

// Columns of a terminal: 0 for marks that go over the character before, 2 for the wide scripts and pictures.
int columns(char32_t c) {
  const auto in = [c](char32_t first, char32_t last) { return c >= first && c <= last; };
  if (in(0x300, 0x36F) || in(0x200B, 0x200F) || in(0xFE00, 0xFE0F) || in(0x20D0, 0x20FF)) return 0;
  const bool wide = in(0x1100, 0x115F) || in(0x2E80, 0xA4CF) || in(0xAC00, 0xD7A3) || in(0xF900, 0xFAFF) ||
                    in(0xFE30, 0xFE6F) || in(0xFF00, 0xFF60) || in(0xFFE0, 0xFFE6) || in(0x1F300, 0x1FAFF) ||
                    in(0x20000, 0x3FFFD);
  return wide ? 2 : 1;
}

size_t width(std::string_view text) {
  size_t sum = 0;
  while (!text.empty()) sum += static_cast<size_t>(columns(take_character(text)));
  return sum;
}

// Control characters as the pictures that stand for them.
std::string visible(std::string_view text) {
  std::string shown;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte < 0x20 || byte == 0x7F) {
      const unsigned picture = byte == 0x7F ? 0x2421 : 0x2400 + byte;
      shown += {static_cast<char>(0xE2), static_cast<char>(0x80 | (picture >> 6 & 0x3F)),
                static_cast<char>(0x80 | (picture & 0x3F))};
    } else {
      shown += text[i];
    }
  }
  return shown;
}

size_t terminal_width() {
  winsize size{};
  if (isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 20)
    return size.ws_col;
  return 100;
}

struct Column {
  std::string text, token, id;
  size_t width() const { return std::max({cli::width(text), cli::width(token), id.size(), size_t{1}}); }
};

std::string padded(const std::string& text, size_t columns) {
  return text + std::string(columns - std::min(columns, width(text)), ' ');
}

void print_rows(std::span<const Column> columns) {
  std::string rows[3] = {"text  ", "token ", "id    "};
  for (const Column& c : columns) {
    const size_t w = c.width();
    rows[0] += "│" + padded(c.text, w);
    rows[1] += "│" + padded(c.token, w);
    rows[2] += "│" + padded(c.id, w);
  }
  for (const std::string& row : rows) fmt::print("{}│\n", row);
}

std::vector<Column> columns_of(const Encoding& e, std::string_view text) {
  std::vector<Column> all;
  all.reserve(e.size());
  TextSpan last{};
  for (size_t i = 0; i < e.size(); ++i) {
    const TextSpan span = e.offsets[i];
    const bool of_text = e.sequence[i] == 0 && span.begin < span.end;
    Column c{of_text ? visible(text.substr(span.begin, span.end - span.begin)) : "", visible(e.tokens[i]),
             std::to_string(e.ids[i])};
    if (of_text && i > 0 && span == last) c.text = "⋯";  // another token of the same characters
    last = span;
    all.push_back(std::move(c));
  }
  return all;
}

void show_cut(const Tokenizer& t, const std::string& text, bool parse_special) {
  const Encoding e = t.encode_input({text}, {.parse_special = parse_special,
                                             .offsets = OffsetUnit::bytes,
                                             .tokens = true,
                                             .truncation = Truncation{.max_length = ~size_t{0} >> 1},
                                             .padding = Padding{.length = 0, .token = ""}});
  const std::vector<Column> all = columns_of(e, text);
  const size_t room = terminal_width() - 8;
  for (size_t begin = 0; begin < all.size();) {
    size_t end = begin, used = 0;
    while (end < all.size() && (end == begin || used + all[end].width() + 1 <= room))
      used += all[end++].width() + 1;
    if (begin > 0) fmt::print("\n");
    print_rows(std::span(all).subspan(begin, end - begin));
    begin = end;
  }
  const auto characters = std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; });
  fmt::print("{} tokens, {} characters, {} bytes\n", e.size(), characters, text.size());
}

// A part as a line: "Sequence [NFD, Lowercase]", "ByteLevel (add_prefix_space false)".
std::string words_of(const Json& part);

std::string value_words(const Json& value) {
  if (value.is_object() && value.contains("type")) return words_of(value);
  const std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  return text.size() > 60 ? fmt::format("... {} bytes", text.size()) : text;
}

std::string words_of(const Json& part) {
  std::string name = part.value("type", ""), list, options;
  for (const auto& [key, value] : part.items()) {
    if (key == "type") continue;
    const bool parts =
        value.is_array() && !value.empty() && value[0].is_object() && value[0].contains("type");
    std::string& to = parts ? list : options;
    if (!parts) to += fmt::format("{}{} {}", to.empty() ? "" : ", ", key, value_words(value));
    for (size_t i = 0; parts && i < value.size(); ++i) to += (i > 0 ? ", " : "") + words_of(value[i]);
  }
  if (!list.empty()) name += " [" + list + "]";
  if (!options.empty()) name += (name.empty() ? "" : " (") + options + (name.empty() ? "" : ")");
  return name;
}

// "[CLS] A [SEP]"
std::string template_words(const Json& pieces) {
  std::string words;
  for (const Json& piece : pieces) {
    words += (words.empty() ? "" : " ") + piece.front().value("id", "");
  }
  return words;
}

std::string part_words(const Json& part) {
  if (part.is_null()) return "none";
  if (part.value("type", "") != "TemplateProcessing") return words_of(part);
  return fmt::format("TemplateProcessing: {}; of a pair {}", template_words(part["single"]),
                     template_words(part["pair"]));
}

std::string model_words(const Json& model) {
  Json options = Json::object();
  for (const auto& [key, value] : model.items()) {
    const bool says_something = !value.is_null() && value != false && key != "vocab" && key != "merges";
    if (says_something) options[key] = value;
  }
  std::string words = fmt::format("{}, {} tokens", words_of(options), model["vocab"].size());
  if (model.contains("merges")) words += fmt::format(", {} merges", model["merges"].size());
  return words;
}

void show_parts(const Json& j) {
  const auto line = [](const char* name, const std::string& words) {
    fmt::print("  {:<15} {}\n", name, words);
  };
  const Json& added = j["added_tokens"];
  const auto special =
      std::count_if(added.begin(), added.end(), [](const Json& a) { return a["special"] == true; });
  fmt::print("\nA text passes\n");
  line("added tokens", fmt::format("{}, of which {} special", added.size(), special));
  line("normalizer", part_words(j["normalizer"]));
  line("pre-tokenizer", part_words(j["pre_tokenizer"]));
  line("model", model_words(j["model"]));
  line("truncation", part_words(j["truncation"]));
  line("post-processor", part_words(j["post_processor"]));
  line("padding", part_words(j["padding"]));
  fmt::print("and ids\n");
  line("decoder", part_words(j["decoder"]));
}

void show_tokens(const Tokenizer& t, const Json& added, int first) {
  const std::pair<TokenRole, const char*> roles[] = {{TokenRole::bos, "begins a text"},
                                                     {TokenRole::eos, "ends a text"},
                                                     {TokenRole::pad, "padding"},
                                                     {TokenRole::unk, "unknown"},
                                                     {TokenRole::mask, "masked"}};
  constexpr size_t kMost = 20;
  if (!added.empty()) fmt::print("\nAdded tokens\n");
  for (size_t i = 0; i < std::min(kMost, added.size()); ++i) {
    const auto id = added[i]["id"].get<int32_t>();
    std::string notes = added[i]["special"] == true ? "" : "not special";
    for (const auto& [role, what] : roles) {
      if (t.special(role) == id) notes += (notes.empty() ? "" : ", ") + std::string(what);
    }
    fmt::print("{:>9}  {}{}\n", id, visible(t.token(id)), notes.empty() ? "" : "  (" + notes + ")");
  }
  if (added.size() > kMost) fmt::print("           and {} more\n", added.size() - kMost);
  if (first > 0) fmt::print("\nFirst tokens\n");
  for (int32_t id = 0; id < std::min(first, t.vocab_size()); ++id)
    fmt::print("{:>9}  {}\n", id, visible(t.token(id)));
}

void show(const ShowFlags& f) {
  const Tokenizer t = Tokenizer::load(f.tokenizer);
  if (f.json && !f.texts.empty())
    throw Error(ErrorKind::usage, "--json shows the tokenizer; of a text, encode --json has the same");
  for (size_t i = 0; i < f.texts.size(); ++i) {
    if (i > 0) fmt::print("\n");
    show_cut(t, f.texts[i], f.parse_special);
  }
  if (!f.texts.empty()) return;
  Json j = Json::parse(t.json());
  if (f.json) {
    j["model"].erase("vocab");
    j["model"].erase("merges");
    j["vocab_size"] = t.vocab_size();
    fmt::print("{}\n", j.dump());
    return;
  }
  fmt::print("{}\n", t.describe());
  show_parts(j);
  show_tokens(t, j["added_tokens"], f.first);
}

}  // namespace

void add_tokenizer_show(CLI::App& parent) {
  auto f = std::make_shared<ShowFlags>();
  CLI::App* command = parent.add_subcommand("show", "What a tokenizer is; with a text, how it is cut");
  command->footer(
      "  plumb tokenizer show MODEL\n"
      "  plumb tokenizer show MODEL \"How is this cut?\"");
  add_tokenizer_path(*command, f->tokenizer);
  command->add_option("text", f->texts, "Texts to show cut into tokens");
  command->add_option("--first", f->first, "How many of the first tokens to list")
      ->capture_default_str()
      ->check(CLI::Range(0, 1 << 24));
  command->add_flag("--json", f->json, "The file without vocabulary and merges, as one JSON object");
  command->add_flag("--parse-special", f->parse_special, "Special tokens written in a text count as such");
  command->callback([f] { show(*f); });
}

}  // namespace plumb::cli
