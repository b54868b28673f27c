// For tests: the smallest model of a family.
#pragma once

#include <cmath>

#include "plumb/model.h"

namespace plumb {

inline ModelConfig small(const std::string& type) {
  ModelConfig c = family_default(type);
  c.vocab_size = 11;
  c.width = 8;
  if (type.starts_with("gemma")) c.embedding_scale = std::sqrt(8.0);  // what its files mean
  c.max_length = 16;
  c.layer.heads = 2;
  if (c.layer.rope.fraction < 0.5) c.layer.rope.fraction = 0.5;  // of 4 dims
  if (c.encoder_layers > 0) c.encoder_layers = 2;
  if (c.decoder_layers > 0) c.decoder_layers = 2;
  c.eos_ids = {2};
  if (c.has_encoder() && c.has_decoder()) c.decoder_start_id = 1;
  return c;
}

}  // namespace plumb
