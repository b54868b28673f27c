// The first two parts of a trace: the shape of each step, and the order of what is normed and added.
#include <fmt/format.h>

#include "lab/model_words.h"
#include "lab/sublayers.h"
#include "lab/trace_data.h"
#include "nn/depth.h"
#include "plumb/config_fields.h"

namespace plumb {
namespace {

class Steps {
 public:
  explicit Steps(const Observed& seen) : observed(seen) {}

  const Observed& observed;

  void place(const std::string& words) { place_ = words; }
  void add(const std::string& step, const std::string& shape, const std::string& words) {
    steps_.push_back({place_, step, shape, words});
  }
  // The shape that was observed; nothing where it was not.
  void seen(const std::string& step, const std::string& module, const std::string& quantity,
            const std::string& words) {
    if (const Tensor t = observed.value(module, quantity); t.defined()) add(step, t.shape().str(), words);
  }
  std::vector<ShapeStep> take() { return std::move(steps_); }

 private:
  std::string place_;
  std::vector<ShapeStep> steps_;
};

std::string embedding_words(const ModelConfig& c, Side side) {
  std::string words = fmt::format("rows of a table ({}, {})", c.vocab_size, c.width);
  if (c.embedding_scale != 1) words += fmt::format(" times {:.4g}", c.embedding_scale);
  if (c.positions == Positions::learned)
    words += fmt::format(" + rows of ({}, {}) by position", c.max_length, c.width);
  if (c.positions == Positions::sinusoidal) words += " + sines and cosines of the position";
  if (c.token_types > 0 && side == Side::encoder) words += " + the row of the token's type";
  return words;
}

std::string heads_words(int64_t heads, int64_t dim) {
  return fmt::format("{} {} of {}", heads, heads == 1 ? "head" : "heads", dim);
}

std::string logits_words(const ModelConfig& config, const LayerConfig& c, bool cross) {
  std::string words = "a weight for each query and key, by head; made in tiles and never stored";
  if (cross) return words + "; every key of the encoder is seen";
  if (config.positions == Positions::rope && c.rotary)
    words += "; q and k are turned by their positions first";
  if (config.positions == Positions::alibi) words += "; minus slope * distance";
  if (c.window > 0) words += fmt::format("; a query sees the newest {} keys", c.window);
  return words;
}

void attention_steps(Steps& steps, const ModelConfig& config, const SublayerName& s) {
  const LayerConfig c = resolved_layer(config, s.side, s.layer);
  const bool cross = s.part == "cross_attention";
  steps.seen("queries", s.module, "query", heads_words(c.heads, c.head_dim));
  const std::string of = cross ? ", of the encoder's output" : "";
  steps.seen("keys", s.module, "key", heads_words(c.kv_heads, c.head_dim) + of);
  steps.seen("values", s.module, "value", heads_words(c.kv_heads, c.value_dim) + of);
  const Tensor q = steps.observed.value(s.module, "q"), k = steps.observed.value(s.module, "k");
  steps.add("softmax(q k^T)", Shape({1, c.heads, q.size(1), k.size(1)}).str(),
            logits_words(config, c, cross));
  steps.seen("heads", s.module, "heads", "the weighted values, heads side by side");
}

void feed_forward_steps(Steps& steps, const ModelConfig& config, Side side, int64_t layer,
                        const std::string& module) {
  const LayerConfig c = resolved_layer(config, side, layer);
  if (c.experts > 0) {
    steps.add("experts", fmt::format("{} of {} a token", c.experts_per_token, c.experts),
              fmt::format("each a feed-forward of {}", c.ffn_width));
    return;
  }
  steps.seen("gate", module, "gate", "");
  steps.seen("up", module, "up", "");
  steps.add("hidden", steps.observed.value(module, "up").shape().str(),
            enum_name(c.activation) + (c.gated ? "(gate) * up" : "(up)"));
}

void sublayer_steps(Steps& steps, const ModelConfig& config, const SublayerName& s, bool both) {
  const SublayerFormula f = sublayer_formula(config, s.side, s.layer, part_named(s.part));
  const bool parallel = layer_config(config, s.side, s.layer).parallel != Parallel::no;
  steps.place(in_words({s.side, s.layer, s.part}, both) + (parallel ? " and feed-forward" : ""));
  steps.seen(
      "x", s.module, "stream",
      f.streams == 1 ? "the residual stream" : fmt::format("{} residual streams side by side", f.streams));
  steps.seen("H_pre x", s.module, "read", "the sum of the streams that the branch reads, weighted by token");
  if (f.norm_in || f.s != 1)
    steps.seen(f.norm_in ? "N(x)" : "s x", s.module, "input", "what the branch reads");
  if (s.part == "feed_forward") {
    feed_forward_steps(steps, config, s.side, s.layer, s.module);
  } else {
    attention_steps(steps, config, s);
    if (parallel) {
      const std::string beside = fmt::format("{}.{}.feed_forward", stack_name(s.side), s.layer);
      feed_forward_steps(steps, config, s.side, s.layer, beside);
    }
  }
  steps.seen("F", s.module, "raw", "projected back to the width of the stream");
  steps.seen("y", s.module, "output", f.str());
}

// Layers alike to the one before are named, not shown again.
int64_t alike_after(const ModelConfig& c, Side side, int64_t layer) {
  int64_t end = layer + 1;
  const auto same = [&](int64_t i) {
    LayerConfig a = resolved_layer(c, side, layer), b = resolved_layer(c, side, i);
    a.attention_scale = b.attention_scale = 0;
    return a == b;
  };
  while (end < layers_of(c, side) && same(end)) ++end;
  return end;
}

void stack_steps(Steps& steps, const ModelConfig& config, Side side) {
  const std::string stack = stack_name(side);
  const bool both = config.has_encoder() && config.has_decoder();
  steps.seen("embedding", stack, "embedding", embedding_words(config, side));
  for (int64_t layer = 0; layer < layers_of(config, side);) {
    for (const SublayerName& s : sublayers_of(config)) {
      if (s.side == side && s.layer == layer) sublayer_steps(steps, config, s, both);
    }
    const int64_t end = alike_after(config, side, layer);
    if (end > layer + 1) {
      steps.place(fmt::format(
          "{}{} {}", both ? stack + " " : "", end == layer + 2 ? "layer" : "layers",
          end == layer + 2 ? fmt::format("{}", layer + 1) : fmt::format("{} to {}", layer + 1, end - 1)));
      steps.add("...", "", fmt::format("the same as layer {}", layer));
    }
    layer = end;
  }
  steps.place("the end of the " + stack);
  steps.seen(has_final_norm(config, side) ? "N(x)" : "x", stack, "final",
             has_final_norm(config, side) ? "the final norm" : "no final norm: as the last layer left it");
}

std::string norm_sentence(const LayerConfig& c) {
  if (c.norm == NormKind::none) return "There is no norm.";
  return fmt::format("N is {}, eps {:g}{}{}{}.", norm_words(c.norm), c.norm_eps,
                     c.norm_affine ? ", with a gain" : ", without a gain",
                     c.norm_unit_offset ? " stored as w where 1 + w is meant" : "",
                     c.norm_bias ? " and a bias" : "");
}

const char* order_of_layer(const ModelConfig& config, Side side) {
  const LayerConfig& c = layer_config(config, side, 0);
  if (c.parallel == Parallel::one_norm)
    return "attention and feed-forward side by side: both read one norm, and one add takes both";
  if (c.parallel == Parallel::two_norms)
    return "attention and feed-forward side by side: each reads a norm of its own, and one add takes both";
  return side == Side::decoder && config.has_encoder()
             ? "attention, then cross-attention to the encoder's output, then the feed-forward"
             : "attention, then the feed-forward";
}

}  // namespace

std::vector<ShapeStep> shape_steps(const ModelConfig& config, const PassInput& input,
                                   const Observed& observed) {
  Steps steps(observed);
  const auto length = [](const std::vector<int32_t>& ids) { return static_cast<int64_t>(ids.size()); };
  if (config.has_encoder()) {
    steps.place("the encoder's input");
    steps.add("token ids", Shape({1, length(input.ids)}).str(), "one sequence of T tokens");
    stack_steps(steps, config, Side::encoder);
  }
  if (config.has_decoder()) {
    steps.place("the decoder's input");
    const int64_t tokens = length(config.has_encoder() ? input.decoder_ids : input.ids);
    steps.add("token ids", Shape({1, tokens}).str(), "one sequence of T tokens");
    stack_steps(steps, config, Side::decoder);
  }
  steps.place("the head");
  steps.seen("hidden", "head", "inner", "dense, activation, norm");
  steps.seen("logits", "head", "logits", config.tied_embeddings ? "against the rows of the token table" : "");
  return steps.take();
}

std::vector<std::string> order_in_words(const ModelConfig& config) {
  std::vector<std::string> lines;
  for (const FormulaOfLayers& f : formulas_by_layer(config))
    lines.push_back(f.formula + "   (" + f.layers + ")");
  const bool both = config.has_encoder() && config.has_decoder();
  for (const Side side : {Side::encoder, Side::decoder}) {
    if (layers_of(config, side) == 0) continue;
    const std::string whose = both ? fmt::format("the {}", stack_name(side)) : "the stack";
    lines.push_back(fmt::format("A layer of {} is {}.", whose, order_of_layer(config, side)));
    lines.push_back(fmt::format("Behind the last layer of {} stands {}.", whose,
                                has_final_norm(config, side) ? "one more norm" : "no further norm"));
  }
  const Side side = config.has_decoder() ? Side::decoder : Side::encoder;
  if (config.embedding_norm || sublayer_formula(config, side, 0).unit)
    lines.push_back("The embeddings are normed before the first layer.");
  lines.push_back(norm_sentence(resolved_layer(config, side, 0)));
  return lines;
}

}  // namespace plumb
