// A model in words for reports.
#pragma once

#include <string>
#include <vector>

#include "plumb/config.h"

namespace plumb {

// Which of a layer's sub-layers "attention", "cross_attention" or "feed_forward" is.
SublayerPart part_named(std::string_view part);

std::string norm_words(NormKind kind);  // "RMSNorm"

// "A decoder of 4 layers and width 128: attention of 4 heads, ..."
std::string model_in_words(const ModelConfig& config);

// The sub-layer formula of each run of equal layers: {"y = x + F(N(x))", "layers 0-3, pre-norm"}.
struct FormulaOfLayers {
  std::string formula, layers;
};
std::vector<FormulaOfLayers> formulas_by_layer(const ModelConfig& config);

}  // namespace plumb
