// A model's layers in words, for plumb info.
#pragma once

#include <string>
#include <vector>

#include "plumb/config.h"

namespace plumb::cli {

std::string side_name(Side side);  // "encoder", "decoder"

// Layers of a side that are alike, by ascending index.
struct AlikeLayers {
  Side side;
  std::vector<int64_t> indices;
  LayerConfig layer;
  SublayerFormula formula, transform;  // of attention, and of the feed-forward
};

// In the order of each kind's first layer, the encoder's first.
std::vector<AlikeLayers> alike_layers(const ModelConfig& config);

// "0 to 4, 6 to 10, 12"
std::string index_words(const std::vector<int64_t>& indices);

// Three lines, or four where a field is set that the first three do not tell, each with its line break.
std::string layer_words(const ModelConfig& config, const AlikeLayers& layers);

// "name = value" of every field beside the layers' that says what the model computes and is not its default.
std::string model_words(const ModelConfig& config);

}  // namespace plumb::cli
