// How many layers and sub-layers a config asks for.
#pragma once

#include <cstdint>

#include "plumb/config.h"

namespace plumb {

inline int64_t layers_of(const ModelConfig& config, Side side) {
  return side == Side::encoder ? config.encoder_layers : config.decoder_layers;
}

// Attention, cross-attention where there is an encoder to read, feed-forward.
inline int64_t sublayers_of_layer(const ModelConfig& config, Side side) {
  return side == Side::decoder && config.has_encoder() ? 3 : 2;
}

}  // namespace plumb
