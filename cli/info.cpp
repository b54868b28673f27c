// plumb info: what a model is, without running it. Its placement by layer in words and as the formula, its
// parameters, and what it takes.
#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <set>

#include "commands.h"
#include "layer_words.h"
#include "model_folder.h"
#include "plumb/config_fields.h"
#include "plumb/error.h"
#include "plumb/model.h"
#include "run_settings.h"

namespace plumb::cli {
namespace {

struct InfoSettings {
  std::string model;
  int64_t length = 0;
  bool parameters = false, json = false;
};

struct Subject {
  ModelConfig config;
  std::vector<ParameterInfo> parameters;
};

std::string kind_name(const ModelConfig& c) {
  if (c.has_encoder() && c.has_decoder()) return "encoder-decoder";
  return c.has_encoder() ? "encoder" : "decoder";
}

// 498 M for 4.98e8.
std::string with_prefix(double value) {
  constexpr const char* prefixes[] = {"", "k", "M", "G", "T", "P", "E"};
  size_t i = 0;
  for (; value >= 1000 && i + 1 < std::size(prefixes); ++i) value /= 1000;
  return fmt::format("{:.4g} {}", value, prefixes[i]);
}

std::string bytes_words(double bytes) {
  return with_prefix(bytes) + "B";
}

std::string shape_words(const std::vector<int64_t>& shape) {
  return fmt::format("{}", fmt::join(shape, " x "));
}

void print_parameters(const std::vector<ParameterInfo>& parameters) {
  size_t name = 4, shape = 5;
  for (const ParameterInfo& p : parameters) {
    name = std::max(name, p.name.size());
    shape = std::max(shape, shape_words(p.shape).size());
  }
  fmt::print("\n{:{}}  {:{}}  {:9}  {:6}  {:5}  {:24}  {}\n", "name", name, "shape", shape, "role", "stored",
             "decay", "init", "in the file");
  for (const ParameterInfo& p : parameters) {
    fmt::print("{:{}}  {:{}}  {:9}  {:6}  {:5}  {:24}  {}\n", p.name, name, shape_words(p.shape), shape,
               p.role, p.stored, p.decays ? "yes" : "no", p.init, p.file_name);
  }
}

// What the files hold; of a recipe, f32.
int64_t weight_bytes(const std::vector<ParameterInfo>& parameters) {
  int64_t bytes = 0;
  for (const ParameterInfo& p : parameters) {
    int64_t numbers = p.stored == "bf16" || p.stored == "f16" ? 2 : 4;
    for (const int64_t dim : p.shape) numbers *= dim;
    bytes += numbers;
  }
  return bytes;
}

std::string stored_words(const std::vector<ParameterInfo>& parameters) {
  std::set<std::string> types;
  for (const ParameterInfo& p : parameters) types.insert(p.stored.empty() ? "f32" : p.stored);
  return fmt::format("{}", fmt::join(types, " and "));
}

// A line for the length and for shorter ones, of what grows with it.
void print_lengths(const ModelConfig& c, int64_t longest) {
  fmt::print("\n{:>9}  {:>17}  {:>17}  {:>16}  {:>16}\n", "tokens", c.has_decoder() ? "memory to write" : "",
             "to train", "FLOPs to run", "FLOPs to train");
  std::set<int64_t> lengths;
  for (const int64_t part : {64, 16, 4, 1}) lengths.insert(std::max<int64_t>(1, longest / part));
  for (const int64_t length : lengths) {
    const ModelCost cost = model_cost(c, length);
    const auto tokens = static_cast<double>(length);
    const double cache = static_cast<double>(cost.cache_bytes_per_token) * tokens,
                 kept = static_cast<double>(cost.activation_bytes_per_token) * tokens;
    fmt::print("{:9}  {:>17}  {:>17}  {:>16}  {:>16}\n", length, c.has_decoder() ? bytes_words(cache) : "",
               bytes_words(kept), with_prefix(cost.flops_per_token * tokens),
               with_prefix(cost.training_flops_per_token * tokens));
  }
}

void print_costs(const Subject& s, int64_t length) {
  const ModelCost cost = model_cost(s.config, length);
  fmt::print("\nparameters    {}; a token is multiplied with {} of them\n", cost.parameters, cost.multiplied);
  fmt::print("weights       {} in {}\n", bytes_words(static_cast<double>(weight_bytes(s.parameters))),
             stored_words(s.parameters));
  if (cost.cache_bytes_per_token > 0) {
    fmt::print("to write      {} of keys and values per token\n",
               bytes_words(static_cast<double>(cost.cache_bytes_per_token)));
  }
  fmt::print("to train      {} more for gradients and AdamW, {} per token of a batch\n",
             bytes_words(static_cast<double>(cost.optimizer_bytes)),
             bytes_words(static_cast<double>(cost.activation_bytes_per_token)));
  fmt::print("FLOPs         {} per token to run, {} to train, at {} tokens\n",
             with_prefix(cost.flops_per_token), with_prefix(cost.training_flops_per_token), length);
  print_lengths(s.config, length);
}

void print_text(const Subject& s, const InfoSettings& settings) {
  const ModelConfig& c = s.config;
  fmt::print("{} of model_type {}: width {}, vocabulary {}, up to {} tokens, {} positions\n", kind_name(c),
             c.model_type, c.width, c.vocab_size, c.max_length, enum_name(c.positions));
  fmt::print("{} embeddings; ", c.tied_embeddings ? "tied" : "untied");
  const Side last = c.has_decoder() ? Side::decoder : Side::encoder;
  fmt::print("{} norm after the last layer\n", has_final_norm(c, last) ? "one" : "no");
  const std::string further = model_words(c);
  fmt::print("{}{}\n", further, further.empty() ? "" : "\n");
  constexpr size_t kMostKinds = 12;
  const std::vector<AlikeLayers> kinds = alike_layers(c);
  for (size_t i = 0; i < kinds.size(); ++i) {
    if (kinds.size() > kMostKinds && i == kMostKinds / 2) {
      fmt::print("  ... {} kinds of layers in between (--json lists them) ...\n", kinds.size() - kMostKinds);
      i = kinds.size() - kMostKinds / 2;
    }
    fmt::print("{}", layer_words(c, kinds[i]));
  }
  print_costs(s, settings.length);
  if (settings.parameters) print_parameters(s.parameters);
}

std::string boolean(bool value) {
  return value ? "true" : "false";
}

// Every text here is one of plumb's own names, which need no escapes.
void print_json(const Subject& s, const InfoSettings& settings) {
  const ModelCost cost = model_cost(s.config, settings.length);
  fmt::print("{{\"kind\": \"{}\", \"layers\": [", kind_name(s.config));
  const char* between = "";
  for (const AlikeLayers& a : alike_layers(s.config)) {
    fmt::print(
        "{}{{\"side\": \"{}\", \"indices\": [{}], \"placement\": \"{}\", \"formula\": \"{}\", "
        "\"feed_forward_formula\": \"{}\"}}",
        between, side_name(a.side), fmt::join(a.indices, ", "), enum_name(a.layer.placement), a.formula.str(),
        a.transform.str());
    between = ", ";
  }
  fmt::print("], \"length\": {}, \"parameters\": {}, \"multiplied\": {}, \"flops_per_token\": {}, ",
             settings.length, cost.parameters, cost.multiplied, cost.flops_per_token);
  fmt::print("\"training_flops_per_token\": {}, \"weight_bytes\": {}, \"optimizer_bytes\": {}, ",
             cost.training_flops_per_token, weight_bytes(s.parameters), cost.optimizer_bytes);
  fmt::print("\"activation_bytes_per_token\": {}, \"cache_bytes_per_token\": {}, ",
             cost.activation_bytes_per_token, cost.cache_bytes_per_token);
  if (settings.parameters) {
    fmt::print("\"parameter_table\": [");
    between = "";
    for (const ParameterInfo& p : s.parameters) {
      fmt::print(
          "{}{{\"name\": \"{}\", \"file_name\": \"{}\", \"shape\": [{}], \"role\": \"{}\", \"stored\": "
          "\"{}\", "
          "\"init\": \"{}\", \"decays\": {}, \"trainable\": {}}}",
          between, p.name, p.file_name, fmt::join(p.shape, ", "), p.role, p.stored, p.init, boolean(p.decays),
          boolean(p.trainable));
      between = ", ";
    }
    fmt::print("], ");
  }
  fmt::print("\"config\": {}}}\n", to_json(s.config));
}

Subject subject_of_recipe(const std::string& recipe) {
  TrainCommand command{.recipe = recipe};
  add_settings(command);
  const ModelConfig config = recipe_config(command);
  validate(config);
  return {config, model_parameters(config)};
}

Subject subject(const std::string& given) {
  const std::string folder = model_folder(given);
  if (!std::filesystem::is_directory(folder)) return subject_of_recipe(given);
  const Model model = load_model(given);
  return {model.config(), model.parameters()};
}

void info(InfoSettings settings) {
  const Subject s = subject(settings.model);
  if (settings.length == 0) settings.length = s.config.max_length;
  if (settings.length < 1 || settings.length > s.config.max_length) {
    throw Error(ErrorKind::usage, fmt::format("--length is {}, expected 1 to the model's {}", settings.length,
                                              s.config.max_length));
  }
  settings.json ? print_json(s, settings) : print_text(s, settings);
}

}  // namespace
}  // namespace plumb::cli

void add_info(CLI::App& app) {
  auto s = std::make_shared<plumb::cli::InfoSettings>();
  CLI::App* sub =
      app.add_subcommand("info", "What a model is: its layers as the formula, its parameters, what it takes");
  sub->add_option("model", s->model,
                  "folder of a model or of a run, a recipe file, or the name of a built-in one")
      ->required();
  sub->add_option("--length", s->length,
                  "tokens of a sequence, for memory and FLOPs (default: the model's longest)");
  sub->add_flag("--parameters", s->parameters,
                "list every parameter: shape, role, init, decay, name in the file");
  sub->add_flag("--json", s->json, "as JSON");
  sub->callback([s] { plumb::cli::info(*s); });
}
