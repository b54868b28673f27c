// plumb tokenizer: trains one on text, and shows what one makes of a text.
#include <fmt/format.h>

#include <cstdio>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "plumb/error.h"
#include "plumb/tokenizer.h"
#include "recipe.h"

namespace plumb::cli {
namespace {

struct Flags {
  std::vector<std::string> texts;  // to train on
  std::string kind = "bpe";
  std::string out;
  TokenizerTraining training;
  std::string tokenizer;           // to use
  std::vector<std::string> input;  // texts or ids of the command line
  bool json = false;
  bool special = false;
};

// Runs `each` on the arguments, or on the lines of the standard input where there are none.
void each_line(const Flags& f, const std::function<void(const std::string&)>& each) {
  if (!f.input.empty()) {
    for (const std::string& text : f.input) each(text);
    return;
  }
  for (std::string line; std::getline(std::cin, line);) each(line);
}

constexpr const char* kKinds[] = {"bpe", "bytes"};

void train(const Flags& f) {
  if (kKinds[parse_choice(f.kind, kKinds, "--kind")] == kKinds[1]) {
    Tokenizer::bytes().save(f.out);
    fmt::print("{}: {}\n", f.out, Tokenizer::bytes().describe());
    return;
  }
  if (f.texts.empty()) throw Error(ErrorKind::usage, "plumb tokenizer train needs a file or folder of text");
  const Tokenizer t = Tokenizer::train_bpe(f.texts, f.training);
  t.save(f.out);
  fmt::print("{}: {}\n", f.out, t.describe());
}

void encode(const Flags& f) {
  const Tokenizer t = Tokenizer::load(f.tokenizer);
  each_line(f, [&](const std::string& text) {
    const std::vector<int32_t> ids = t.encode(text, f.special);
    if (!f.json) {
      fmt::print("{}\n", fmt::join(ids, " "));
      return;
    }
    nlohmann::ordered_json line;
    line["text"] = text;
    line["ids"] = ids;
    for (const int32_t id : ids) line["tokens"].push_back(t.token(id));
    fmt::print("{}\n", line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  });
}

std::vector<int32_t> parse_ids(const std::string& text) {
  std::vector<int32_t> ids;
  for (size_t at = 0; at < text.size();) {
    if (text[at] == ' ' || text[at] == ',' || text[at] == '[' || text[at] == ']') {
      ++at;
      continue;
    }
    size_t end = at;
    while (end < text.size() && text[end] >= '0' && text[end] <= '9') ++end;
    if (end == at || end - at > 9) {
      throw Error(ErrorKind::input, fmt::format("\"{}\" is not a list of token ids (whole numbers)", text));
    }
    ids.push_back(std::stoi(text.substr(at, end - at)));
    at = end;
  }
  return ids;
}

void decode(const Flags& f) {
  const Tokenizer t = Tokenizer::load(f.tokenizer);
  each_line(f, [&](const std::string& line) {
    const std::string text = t.decode(parse_ids(line), f.special);
    fmt::print("{}\n", f.json ? nlohmann::json(text).dump() : text);
  });
}

void show(const Flags& f) {
  const Tokenizer t = Tokenizer::load(f.tokenizer);
  fmt::print("{}\n", t.describe());
  const std::pair<TokenRole, const char*> roles[] = {{TokenRole::bos, "begins a text"},
                                                     {TokenRole::eos, "ends a text"},
                                                     {TokenRole::pad, "padding"},
                                                     {TokenRole::unk, "unknown"},
                                                     {TokenRole::mask, "masked"}};
  for (const auto& [role, what] : roles) {
    if (const auto id = t.special(role)) fmt::print("{:>8}  {}  ({})\n", *id, t.token(*id), what);
  }
}

// A subcommand that reads texts or ids with a tokenizer.
CLI::App* add_user(CLI::App& parent, const char* name, const char* what, const char* input,
                   const std::shared_ptr<Flags>& flags) {
  CLI::App* command = parent.add_subcommand(name, what);
  command->add_option("tokenizer", flags->tokenizer, "tokenizer.json, or a folder that holds one")
      ->required();
  if (input) {
    command->add_option("input", flags->input, input);
    command->add_flag("--json", flags->json, "One JSON value a line");
  }
  return command;
}

}  // namespace
}  // namespace plumb::cli

void add_tokenizer(CLI::App& app) {
  using namespace plumb::cli;
  auto flags = std::make_shared<Flags>();
  CLI::App* tokenizer = app.add_subcommand("tokenizer", "Train a tokenizer, and encode and decode with one");
  tokenizer->require_subcommand(1);

  CLI::App* command =
      tokenizer->add_subcommand("train", "Train byte-level BPE on text, and save tokenizer.json");
  command->add_option("text", flags->texts, "UTF-8 files, or folders of them");
  command->add_option("--out", flags->out, "A .json file, or a folder for tokenizer.json")->required();
  command->add_option("--kind", flags->kind, "bpe, or bytes (one token a byte; needs no text)");
  command->add_option("--vocab-size", flags->training.vocab_size, "Most tokens, the 256 bytes included")
      ->capture_default_str()
      ->check(CLI::Range(260, 1 << 24));
  command->add_option("--min-count", flags->training.min_count, "Pairs seen less often are not merged")
      ->capture_default_str()
      ->check(CLI::Range(1, 1 << 30));
  command->callback([flags] { train(*flags); });

  command = add_user(*tokenizer, "encode", "Texts to ids, one line each",
                     "Texts (default: lines of the standard input)", flags);
  command->add_flag("--special", flags->special, "Special tokens written in the text count as such");
  command->callback([flags] { encode(*flags); });

  command = add_user(*tokenizer, "decode", "Ids to text, one line each",
                     "Ids, as \"5 17 3\" (default: lines of the standard input)", flags);
  command->add_flag("--special", flags->special, "Show special tokens too");
  command->callback([flags] { decode(*flags); });

  add_user(*tokenizer, "show", "What a tokenizer is, and its special tokens", nullptr, flags)
      ->callback([flags] { show(*flags); });
}
