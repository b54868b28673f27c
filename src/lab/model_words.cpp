#include "lab/model_words.h"

#include <fmt/format.h>

#include "plumb/config_fields.h"

namespace plumb {
namespace {

std::string layers_in_words(int64_t count) {
  return fmt::format("{} {}", count, count == 1 ? "layer" : "layers");
}

std::string attention_words(const LayerConfig& c) {
  std::string words = fmt::format("attention of {} {}", c.heads, c.heads == 1 ? "head" : "heads");
  if (c.kv_heads != c.heads) words += fmt::format(" over {} of keys and values", c.kv_heads);
  if (c.window > 0) words += fmt::format(" in a window of {}", c.window);
  if (c.qk_norm != QkNorm::none) words += " with normed queries and keys";
  return words;
}

std::string feed_forward_words(const LayerConfig& c) {
  std::string one =
      fmt::format("{}feed-forward of {} ({})", c.gated ? "gated " : "", c.ffn_width, enum_name(c.activation));
  if (c.experts == 0) return one;
  return fmt::format("{} experts, {} a token, each a {}", c.experts, c.experts_per_token, one);
}

// Of a layer; of its sub-layers one by one where they differ.
std::string formula_words(const ModelConfig& config, Side side, int64_t layer) {
  const std::string attends = sublayer_formula(config, side, layer).str(),
                    transforms = sublayer_formula(config, side, layer, SublayerPart::feed_forward).str();
  return attends == transforms ? attends : attends + " (attention), " + transforms + " (feed-forward)";
}

std::string position_words(const ModelConfig& config) {
  switch (config.positions) {
    case Positions::none:
      return "no positions";
    case Positions::learned:
      return "learned positions";
    case Positions::sinusoidal:
      return "sinusoidal positions";
    case Positions::rope:
      return "rotary positions";
    case Positions::alibi:
      return "ALiBi";
  }
  return "";
}

}  // namespace

SublayerPart part_named(std::string_view part) {
  return part == "feed_forward"      ? SublayerPart::feed_forward
         : part == "cross_attention" ? SublayerPart::cross_attention
                                     : SublayerPart::attention;
}

std::string norm_words(NormKind kind) {
  switch (kind) {
    case NormKind::none:
      return "no norm";
    case NormKind::layer_norm:
      return "LayerNorm";
    case NormKind::rms_norm:
      return "RMSNorm";
    case NormKind::batch_norm:
      return "BatchNorm";
    case NormKind::scale_norm:
      return "ScaleNorm";
    case NormKind::shift:
      return "a learned shift";
    case NormKind::dyt:
      return "DyT";
  }
  return "";
}

std::string model_in_words(const ModelConfig& config) {
  std::string stacks;
  if (config.has_encoder()) stacks = "An encoder of " + layers_in_words(config.encoder_layers);
  if (config.has_decoder()) {
    stacks +=
        (stacks.empty() ? "A decoder of " : " and a decoder of ") + layers_in_words(config.decoder_layers);
  }
  const LayerConfig c = resolved_layer(config, config.has_decoder() ? Side::decoder : Side::encoder, 0);
  return fmt::format("{}, width {}: {}, {}, {}, {}, over a vocabulary of {}.", stacks, config.width,
                     attention_words(c), feed_forward_words(c), position_words(config), norm_words(c.norm),
                     config.vocab_size);
}

std::vector<FormulaOfLayers> formulas_by_layer(const ModelConfig& config) {
  std::vector<FormulaOfLayers> result;
  for (const Side side : {Side::encoder, Side::decoder}) {
    const int64_t count = side == Side::encoder ? config.encoder_layers : config.decoder_layers;
    const auto same = [&](int64_t a, int64_t b) {
      return formula_words(config, side, a) == formula_words(config, side, b) &&
             layer_config(config, side, a).placement == layer_config(config, side, b).placement;
    };
    for (int64_t first = 0, end; first < count; first = end) {
      for (end = first + 1; end < count && same(first, end);) ++end;
      const char* stack = !config.has_encoder() || !config.has_decoder() ? ""
                          : side == Side::encoder                        ? "encoder "
                                                                         : "decoder ";
      const std::string range =
          end - first == 1 ? fmt::format("layer {}", first) : fmt::format("layers {} to {}", first, end - 1);
      result.push_back(
          {formula_words(config, side, first),
           fmt::format("{}{}, {}", stack, range, enum_name(layer_config(config, side, first).placement))});
    }
  }
  return result;
}

}  // namespace plumb
