// plumb convert: a model's folder as another one: stored in another dtype, in shards, under another family's
// names.
#include <fmt/format.h>

#include <memory>

#include "commands.h"
#include "model_folder.h"
#include "plumb/convert.h"
#include "plumb/error.h"
#include "recipe.h"

namespace plumb::cli {
namespace {

struct ConvertSettings {
  std::string from, to, shard_size = "5GB";
  ConvertOptions options;
};

// "500MB", "5GB" (powers of 1000), or bytes.
uint64_t bytes_of(const std::string& text) {
  constexpr std::pair<std::string_view, uint64_t> units[] = {
      {"GB", 1'000'000'000}, {"MB", 1'000'000}, {"KB", 1000}, {"", 1}};
  for (const auto& [unit, factor] : units) {
    const std::string digits = text.substr(0, text.size() - std::min(unit.size(), text.size()));
    const bool number =
        !digits.empty() && digits.size() < 10 && digits.find_first_not_of("0123456789") == digits.npos;
    if (text.ends_with(unit) && number && std::stoull(digits) > 0) return std::stoull(digits) * factor;
  }
  throw Error(ErrorKind::usage,
              fmt::format("--shard-size is \"{}\", expected a size such as 500MB or 5GB", text));
}

}  // namespace
}  // namespace plumb::cli

void add_convert(CLI::App& app) {
  auto s = std::make_shared<plumb::cli::ConvertSettings>();
  CLI::App* sub = app.add_subcommand(
      "convert", "Writes a model's folder as another one: dtype, shards, names; its tokenizer goes with it");
  sub->add_option("from", s->from, "folder of a model or of a run; safetensors or pytorch_model.bin")
      ->required();
  sub->add_option("to", s->to, "folder to write")->required();
  sub->add_option_function<std::string>(
      "--dtype",
      [s](const std::string& text) {
        s->options.type = plumb::cli::parse_value<plumb::StoredType>(text, "--dtype");
      },
      "what weights are stored in: f32, bf16 or f16 (default: as they are)");
  sub->add_option("--shard-size", s->shard_size, "most of one file of weights, such as 500MB (default: 5GB)");
  sub->add_option(
      "--model-type", s->options.model_type,
      "family whose names and config.json to write, where it can hold the model (default: its own)");
  sub->callback([s] {
    s->options.base = plumb::cli::base_folder;
    s->options.shard_bytes = plumb::cli::bytes_of(s->shard_size);
    plumb::convert_model(plumb::cli::model_folder(s->from), s->to, s->options);
  });
}
