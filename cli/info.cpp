// plumb info: what a model is, without running it. Its placement by layer in words and as the formula, its
// parameters, and what it takes.
#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "commands.h"
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

// Layers first .. first + count - 1 of a side that are alike.
struct Run {
  Side side;
  int64_t first, count;
  LayerConfig layer;
  SublayerFormula formula, transform;  // of attention, and of the feed-forward
};

const char* side_name(Side side) {
  return side == Side::encoder ? "encoder" : "decoder";
}

std::string kind_name(const ModelConfig& c) {
  if (c.has_encoder() && c.has_decoder()) return "encoder-decoder";
  return c.has_encoder() ? "encoder" : "decoder";
}

std::vector<Run> runs_of(const ModelConfig& c) {
  std::vector<Run> runs;
  for (const Side side : {Side::encoder, Side::decoder}) {
    const int64_t layers = side == Side::encoder ? c.encoder_layers : c.decoder_layers;
    for (int64_t i = 0; i < layers; ++i) {
      const Run next{side,
                     i,
                     1,
                     resolved_layer(c, side, i),
                     sublayer_formula(c, side, i),
                     sublayer_formula(c, side, i, SublayerPart::feed_forward)};
      const bool alike = i > 0 && runs.back().layer == next.layer && runs.back().formula == next.formula &&
                         runs.back().transform == next.transform;
      if (alike) {
        ++runs.back().count;
      } else {
        runs.push_back(next);
      }
    }
  }
  return runs;
}

const char* placement_words(Placement placement) {
  switch (placement) {
    case Placement::post_norm:
      return "a norm after each add";
    case Placement::pre_norm:
      return "a norm before each branch";
    case Placement::deep_norm:
      return "a norm after each add, the stream weighted up by depth";
    case Placement::sandwich:
      return "a norm before and one behind each branch";
    case Placement::reordered:
      return "a norm behind each branch";
    case Placement::re_zero:
      return "no norm, each branch behind a learned factor that starts at 0";
    case Placement::layer_scale:
      return "a norm before each branch, a learned small factor for each column behind it";
    case Placement::layer_norm_scaling:
      return "a norm before each branch, scaled down by depth";
    case Placement::sub_ln:
      return "a norm before each branch and one before its output projection";
    case Placement::plain:
      return "a norm before each branch, and no residual stream";
    case Placement::mix_ln:
      return "post-norm in the first quarter of the layers, pre-norm above";
    case Placement::normformer:
      return "a norm before each branch; behind attention, whose heads have learned factors, and inside the "
             "feed-forward one more";
    case Placement::admin:
      return "a norm after each add, the stream weighted by learned factors that start as a profiling pass "
             "says";
    case Placement::fixup:
      return "learned shifts in place of norms, branches that start at 0 behind a learned factor";
    case Placement::t_fixup:
      return "no norm: matrices and embeddings start small by depth";
    case Placement::resi_dual:
      return "a norm after each add, and a second stream that sums the branches";
    case Placement::ngpt:
      return "a step from the stream towards each branch, by a learned factor for each column; the stream, "
             "branches, "
             "queries, keys and matrices are kept at length 1";
    case Placement::hyper_connections:
      return "a norm before each branch, which reads and writes several streams by learned maps";
    case Placement::mhc:
      return "a norm before each branch, which reads and writes several streams by learned maps; their own "
             "is "
             "doubly stochastic";
  }
  return "";
}

// Fields of the formula that are set besides the placement: not all of them show in it.
std::string opened_words(const LayerConfig& l) {
  std::string words;
  const auto list = [&](const char* name, const auto& value, const char*) {
    using Field = std::decay_t<decltype(value)>;
    if constexpr (std::is_same_v<Field, std::optional<typename Unwrapped<Field>::type>>) {
      if (value)
        words += fmt::format("{}{} = {}", words.empty() ? "; set: " : ", ", name, value_toml(*value));
    }
  };
  visit_layer(l, list);
  return words;
}

std::string attention_words(const LayerConfig& l) {
  std::string words = fmt::format("{} heads of {}", l.heads, l.head_dim);
  if (l.kv_heads != l.heads) words += fmt::format(" on {} of keys and values", l.kv_heads);
  if (l.window > 0) words += fmt::format(", the newest {} keys", l.window);
  if (l.qk_norm != QkNorm::none)
    words += fmt::format(", norm on queries and keys ({})", enum_name(l.qk_norm));
  return words;
}

std::string feed_forward_words(const LayerConfig& l) {
  std::string words = fmt::format("{}{} {}", enum_name(l.activation), l.gated ? ", gated," : "", l.ffn_width);
  if (l.experts == 0) return "feed-forward " + words;
  words = fmt::format("{} of {} experts ({} router) of {}", l.experts_per_token, l.experts,
                      enum_name(l.router), words);
  return l.shared_experts > 0 ? fmt::format("{} and {} shared", words, l.shared_experts) : words;
}

std::string norm_words(const LayerConfig& l) {
  if (l.norm == NormKind::none) return "no norm";
  return fmt::format("N: {}, eps {:g}{}{}{}", enum_name(l.norm), l.norm_eps, l.norm_affine ? "" : ", no gain",
                     l.norm_bias ? ", bias" : "", l.norm_unit_offset ? ", gain 1 + w" : "");
}

void print_run(const Run& r) {
  const std::string layers = r.count == 1 ? fmt::format("layer {}", r.first)
                                          : fmt::format("layers {} to {}", r.first, r.first + r.count - 1);
  const std::string attends = r.formula.str(), transforms = r.transform.str();
  fmt::print("  {} {}: {}{}\n", side_name(r.side), layers, attends,
             attends == transforms ? "" : fmt::format(" (attention), {} (feed-forward)", transforms));
  fmt::print("    {}: {}{}{}\n", enum_name(r.layer.placement), placement_words(r.layer.placement),
             r.layer.parallel == Parallel::no ? "" : "; attention and feed-forward side by side",
             opened_words(r.layer));
  fmt::print("    {}; {}; {}\n", norm_words(r.layer), attention_words(r.layer), feed_forward_words(r.layer));
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

void print_costs(const ModelCost& cost, int64_t length) {
  const double sequence = static_cast<double>(length);
  fmt::print("\nparameters    {}; a token is multiplied with {} of them\n", cost.parameters, cost.multiplied);
  fmt::print("weights       {} in f32\n", bytes_words(static_cast<double>(cost.weight_bytes)));
  fmt::print("to train      {} more for gradients and AdamW, {} per token of a batch ({} for {} tokens)\n",
             bytes_words(static_cast<double>(cost.optimizer_bytes)),
             bytes_words(static_cast<double>(cost.activation_bytes_per_token)),
             bytes_words(static_cast<double>(cost.activation_bytes_per_token) * sequence), length);
  if (cost.cache_bytes_per_token > 0) {
    fmt::print("to write      {} of keys and values per token ({} for {} tokens)\n",
               bytes_words(static_cast<double>(cost.cache_bytes_per_token)),
               bytes_words(static_cast<double>(cost.cache_bytes_per_token) * sequence), length);
  }
  fmt::print("FLOPs         {} per token to run, {} to train, at {} tokens\n",
             with_prefix(cost.flops_per_token), with_prefix(cost.training_flops_per_token), length);
}

void print_text(const Subject& s, const InfoSettings& settings) {
  const ModelConfig& c = s.config;
  fmt::print("{} of model_type {}: width {}, vocabulary {}, up to {} tokens, {} positions\n", kind_name(c),
             c.model_type, c.width, c.vocab_size, c.max_length, enum_name(c.positions));
  fmt::print("{} embeddings; ", c.tied_embeddings ? "tied" : "untied");
  const Side last = c.has_decoder() ? Side::decoder : Side::encoder;
  fmt::print("{} norm after the last layer\n\n", has_final_norm(c, last) ? "one" : "no");
  constexpr size_t kMostRuns = 12;
  const std::vector<Run> runs = runs_of(c);
  for (size_t i = 0; i < runs.size(); ++i) {
    if (runs.size() > kMostRuns && i == kMostRuns / 2) {
      fmt::print("  ... {} runs of layers in between (--json lists them) ...\n", runs.size() - kMostRuns);
      i = runs.size() - kMostRuns / 2;
    }
    print_run(runs[i]);
  }
  print_costs(model_cost(c, settings.length), settings.length);
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
  for (const Run& r : runs_of(s.config)) {
    fmt::print(
        "{}{{\"side\": \"{}\", \"first\": {}, \"count\": {}, \"placement\": \"{}\", \"formula\": \"{}\", "
        "\"feed_forward_formula\": \"{}\"}}",
        between, side_name(r.side), r.first, r.count, enum_name(r.layer.placement), r.formula.str(),
        r.transform.str());
    between = ", ";
  }
  fmt::print("], \"length\": {}, \"parameters\": {}, \"multiplied\": {}, \"flops_per_token\": {}, ",
             settings.length, cost.parameters, cost.multiplied, cost.flops_per_token);
  fmt::print("\"training_flops_per_token\": {}, \"weight_bytes\": {}, \"optimizer_bytes\": {}, ",
             cost.training_flops_per_token, cost.weight_bytes, cost.optimizer_bytes);
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
  const Model model = Model::load(folder);
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
