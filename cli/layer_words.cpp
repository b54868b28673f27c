#include "layer_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <set>
#include <sstream>

#include "plumb/config_fields.h"
#include "recipe.h"

namespace plumb::cli {
namespace {

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

// "name = value" of what is in `given` and not in `plain`, both as a recipe writes them, joined by commas;
// names for which `wanted` does not hold are left out.
std::string differences(Settings& given, Settings& plain,
                        const std::function<bool(std::string_view name)>& wanted) {
  std::istringstream mine(given.toml()), defaults(plain.toml());
  std::set<std::string> usual;
  std::string line, words;
  while (std::getline(defaults, line)) usual.insert(line);
  while (std::getline(mine, line)) {
    if (line.empty() || usual.contains(line) || !wanted(std::string_view(line).substr(0, line.find(' '))))
      continue;
    words += (words.empty() ? "" : ", ") + line;
  }
  return words;
}

std::string differences_of_layer(LayerConfig given,
                                 const std::function<bool(std::string_view name)>& wanted) {
  LayerConfig plain;
  Settings mine, defaults;
  const auto add_to = [](Settings& s) {
    return [&s](const char* name, auto& field, const char* help) { s.add("", name, field, help); };
  };
  visit_layer(given, add_to(mine));
  visit_layer(plain, add_to(defaults));
  return differences(mine, defaults, wanted);
}

template <size_t N>
bool is_one_of(const std::string_view (&names)[N], std::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

// Fields of the formula, which a placement sets and a config may set otherwise: not all of them show in it.
constexpr std::string_view kFormula[] = {"norm-in", "norm-inner", "norm-branch", "norm-out", "alpha",
                                         "s",       "gate-value", "gate",        "shortcut", "head-scale",
                                         "dual",    "mixing",     "streams"};

// What the words about attention, feed-forward and norm tell.
constexpr std::string_view kTold[] = {
    "placement",  "parallel",          "norm",     "norm-eps",         "norm-affine", "norm-bias",
    "heads",      "kv-heads",          "head-dim", "norm-unit-offset", "window",      "rotary",
    "qk-norm",    "kv-rank",           "q-rank",   "ffn-width",        "gated",       "experts",
    "activation", "experts-per-token", "router",   "shared-experts"};

std::string attention_words(const ModelConfig& config, const LayerConfig& l) {
  std::string words = fmt::format("{} heads of {}", l.heads, l.head_dim);
  if (l.kv_heads != l.heads) words += fmt::format(" on {} of keys and values", l.kv_heads);
  if (l.kv_rank > 0) {
    words += fmt::format(", keys and values from a latent of {}", l.kv_rank);
    if (l.q_rank > 0) words += fmt::format(", queries from one of {}", l.q_rank);
  }
  if (l.window > 0) words += fmt::format(", the newest {} keys", l.window);
  if (config.positions == Positions::rope && !l.rotary) words += ", no positions";
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

}  // namespace

std::string side_name(Side side) {
  return side == Side::encoder ? "encoder" : "decoder";
}

std::vector<AlikeLayers> alike_layers(const ModelConfig& c) {
  std::vector<AlikeLayers> all;
  for (const Side side : {Side::encoder, Side::decoder}) {
    const int64_t layers = side == Side::encoder ? c.encoder_layers : c.decoder_layers;
    for (int64_t i = 0; i < layers; ++i) {
      const AlikeLayers next{side,
                             {i},
                             resolved_layer(c, side, i),
                             sublayer_formula(c, side, i),
                             sublayer_formula(c, side, i, SublayerPart::feed_forward)};
      // Where each layer has a formula of its own, there may be very many kinds: these are compared.
      constexpr size_t kCompared = 64;
      const auto kin = std::find_if(all.size() > kCompared ? std::prev(all.end()) : all.begin(), all.end(),
                                    [&](const AlikeLayers& a) {
                                      return a.side == side && a.layer == next.layer &&
                                             a.formula == next.formula && a.transform == next.transform;
                                    });
      if (kin != all.end()) {
        kin->indices.push_back(i);
      } else {
        all.push_back(next);
      }
    }
  }
  return all;
}

std::string index_words(const std::vector<int64_t>& indices) {
  std::string words;
  for (size_t i = 0; i < indices.size();) {
    size_t end = i + 1;
    while (end < indices.size() && indices[end] == indices[end - 1] + 1) ++end;
    words += fmt::format("{}{}", i == 0 ? "" : ", ", indices[i]);
    if (end - i > 1) words += fmt::format(" to {}", indices[end - 1]);
    i = end;
  }
  return words;
}

std::string layer_words(const ModelConfig& config, const AlikeLayers& a) {
  const std::string attends = a.formula.str(), transforms = a.transform.str();
  const LayerConfig& given = layer_config(config, a.side, a.indices[0]);
  const auto in_formula = [](std::string_view name) { return is_one_of(kFormula, name); };
  const auto untold = [&](std::string_view name) { return !in_formula(name) && !is_one_of(kTold, name); };
  const std::string opened = differences_of_layer(given, in_formula),
                    further = differences_of_layer(given, untold);
  std::string words = fmt::format(
      "  {} layer{} {}: {}{}\n", side_name(a.side), a.indices.size() == 1 ? "" : "s", index_words(a.indices),
      attends, attends == transforms ? "" : fmt::format(" (attention), {} (feed-forward)", transforms));
  words += fmt::format("    {}: {}{}{}\n", enum_name(a.layer.placement), placement_words(a.layer.placement),
                       a.layer.parallel == Parallel::no ? "" : "; attention and feed-forward side by side",
                       opened.empty() ? "" : "; set: " + opened);
  words += fmt::format("    {}; {}; {}\n", norm_words(a.layer), attention_words(config, a.layer),
                       feed_forward_words(a.layer));
  if (!further.empty()) words += fmt::format("    {}\n", further);
  return words;
}

std::string model_words(const ModelConfig& config) {
  constexpr std::string_view kComputes[] = {"alibi-max",        "alibi-scaled",    "position-offset",
                                            "sinusoidal-split", "token-types",     "embedding-width",
                                            "embedding-scale",  "embedding-norm",  "head",
                                            "labels",           "problem",         "logits-scale",
                                            "logits-softcap",   "head-bias",       "head-transform",
                                            "logits-bias",      "unit-embeddings", "router-aux"};
  ModelConfig given = config, plain;
  Settings mine, defaults;
  visit(given, [&](const char* name, auto& field, const char* help) { mine.add("", name, field, help); });
  visit(plain, [&](const char* name, auto& field, const char* help) { defaults.add("", name, field, help); });
  return differences(mine, defaults, [&](std::string_view name) { return is_one_of(kComputes, name); });
}

}  // namespace plumb::cli
