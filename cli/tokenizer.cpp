// plumb tokenizer: makes tokenizers, uses them, looks at them.
#include "tokenizer.h"

#include <fmt/format.h>

#include <iostream>
#include <memory>

#include "commands.h"
#include "plumb/error.h"
#include "plumb/tokenizer.h"

namespace plumb::cli {
namespace {

struct Conversion {
  std::string from, out;
};

void convert(const Conversion& c) {
  const Tokenizer t = Tokenizer::load(c.from);
  t.save(c.out);
  fmt::print("{}: {}\n", c.out, t.describe());
}

void add_convert_tokenizer(CLI::App& parent) {
  auto c = std::make_shared<Conversion>();
  CLI::App* command =
      parent.add_subcommand("convert", "Save a tokenizer of any readable form as tokenizer.json");
  add_tokenizer_path(*command, c->from);
  command
      ->add_option("--out", c->out, "A .json file, or a folder for tokenizer.json and tokenizer_config.json")
      ->required();
  command->callback([c] { convert(*c); });
}

}  // namespace

void add_tokenizer_path(CLI::App& command, std::string& path) {
  command
      .add_option(
          "tokenizer", path,
          "tokenizer.json or another file of a tokenizer (docs/tokenizers.md), or a folder that holds one")
      ->required();
}

void each_line_of_input(const std::function<void(const std::string&)>& each) {
  int64_t number = 0;
  for (std::string line; std::getline(std::cin, line);) {
    ++number;
    try {
      each(line);
    } catch (const Error& error) {
      throw Error(error.kind(), fmt::format("line {} of the input: {}", number, error.what()));
    }
  }
}

}  // namespace plumb::cli

void add_tokenizer(CLI::App& app) {
  using namespace plumb::cli;
  CLI::App* tokenizer = app.add_subcommand(
      "tokenizer", "Trains a tokenizer, encodes and decodes with one, shows, converts and checks it");
  tokenizer->require_subcommand(1);
  add_tokenizer_train(*tokenizer);
  add_tokenizer_encode(*tokenizer);
  add_tokenizer_decode(*tokenizer);
  add_tokenizer_show(*tokenizer);
  add_convert_tokenizer(*tokenizer);
  add_tokenizer_check(*tokenizer);
}
