// What a trace found, as plain numbers; plumb/trace.h says what each is.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lab/trace_attention.h"
#include "lab/trace_gradient.h"
#include "plumb/trace.h"

namespace plumb {

struct Spread {
  double mean = 0, spread = 0, rms = 0;
};
Spread spread_of(const Tensor& x);

struct ShapeStep {
  std::string place;  // "layer 0's attention"
  std::string step, shape, words;
};

struct NormNumbers {
  std::string module, kind;  // "decoder.0.attention.norm_in", "LayerNorm"
  Spread before, after;
};

struct SublayerNumbers {
  std::string module;
  Spread stream, branch, output;
  std::optional<double> added;  // none without a shortcut
  double cosine = 0;
};

struct TraceData {
  ModelConfig config;
  std::vector<std::string> tokens,
      decoder_tokens;  // as the tokenizer spells them; the only stack's are `tokens`
  std::vector<ShapeStep> shapes;
  std::vector<std::string> order;  // sentences
  std::vector<NormNumbers> norms;
  std::vector<SublayerNumbers> sublayers;
  std::vector<AttentionNumbers> attention;
  std::optional<LossGradient> gradient;

  // The keys that an attention reads.
  const std::vector<std::string>& keys_of(const std::string& module) const {
    const bool own = module.starts_with("decoder.") && !module.ends_with(".cross_attention");
    return own && config.has_encoder() ? decoder_tokens : tokens;
  }
};

// The parts, each from one observed pass.
std::vector<ShapeStep> shape_steps(const ModelConfig& config, const PassInput& input,
                                   const Observed& observed);
std::vector<std::string> order_in_words(const ModelConfig& config);
std::vector<NormNumbers> norm_numbers(const ModelConfig& config, const Observed& observed);
std::vector<SublayerNumbers> sublayer_numbers(const Transformer& model, const Observed& observed);

std::string trace_text(const TraceData& data);
std::string trace_page(const TraceData& data, const std::string& name);

}  // namespace plumb
