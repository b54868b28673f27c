// What the config.json files of decoder-only families with rotary positions, RMS norms and gated
// feed-forwards have in common.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "model/families.h"

namespace plumb {

// A family's own values of absent keys.
struct DecoderDefaults {
  std::string_view type;  // model_type
  int64_t vocab_size = 32000, width = 4096, layers = 32, heads = 32;
  int64_t kv_heads = 0;  // 0: as many as heads, which a null says too
  int64_t head_dim = 0;
  int64_t ffn_width = 11008, max_length = 2048;
  double norm_eps = 1e-6;
  RopeConfig rope{};
  int64_t bos_id = -1, eos_id = -1, pad_id = -1;
};

// A pre-norm decoder; rotary positions turn whole heads. Throws Error(config, unsupported).
ModelConfig read_decoder(const JsonFields& fields, const DecoderDefaults& absent);
// The inverse, of the model and the layer that most of it is like.
void write_decoder(const ModelConfig& config, const LayerConfig& layer, JsonObject out);

// Experts of a family that balances all layers' tokens together, and only where it is told to show router
// logits.
void read_balance(const JsonFields& fields, ModelConfig& config, double absent);
void write_balance(const ModelConfig& config, JsonObject out, double absent);

// The decoder's layers, one by one; as runs beside the model's own layer, which the last one is.
void set_layers(ModelConfig& config, const std::vector<LayerConfig>& layers);

// layer_types, "sliding_attention" or "full_attention" for each layer. An absent list has what `sliding`
// says.
std::vector<bool> read_sliding(const JsonFields& fields, int64_t layers,
                               const std::function<bool(int64_t)>& sliding);
void write_sliding(const ModelConfig& config, JsonObject out);

}  // namespace plumb
