// What the config.json files of decoder-only families have in common: sizes, norms, biases, ids, rotary
// positions, windows by layer.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "model/families.h"

namespace plumb {

enum class RopeKeys {
  none,   // the family itself reads and writes what rotary positions turn by, or has none
  whole,  // of whole heads
  part    // of the part of each head that partial_rotary_factor says
};

// The keys that a family reads; null: none, and what DecoderDefaults says holds. Sizes go also by the names
// that they have here, which come first, as in the reference.
struct DecoderKeys {
  const char *width = "hidden_size", *layers = "num_hidden_layers", *heads = "num_attention_heads",
             *max_length = "max_position_embeddings";
  const char *kv_heads = "num_key_value_heads", *head_dim = "head_dim", *ffn_width = "intermediate_size";
  const char *norm_eps = "rms_norm_eps", *activation = "hidden_act";
  const char *attention_bias = nullptr, *output_bias = nullptr, *ffn_bias = nullptr;
  const char *dropout = nullptr, *attention_dropout = "attention_dropout", *embedding_dropout = nullptr;
  const char* init_std = "initializer_range";
  RopeKeys rope = RopeKeys::whole;
};

// A family's own values of absent keys.
struct DecoderDefaults {
  std::string_view type;  // model_type
  int64_t vocab_size = 32000, width = 4096, layers = 32, heads = 32;
  int64_t kv_heads = 0;       // 0: as many as heads, which a null says too
  int64_t head_dim = 0;       // 0: width / heads, which a null says too
  int64_t ffn_width = 11008;  // 0: 4 width
  int64_t max_length = 2048;
  NormKind norm = NormKind::rms_norm;  // a layer_norm has a bias
  double norm_eps = 1e-6;
  const char* activation = "silu";
  bool gated = true;
  bool tied = false;
  bool attention_bias = false;  // of queries, keys and values
  double dropout = 0, attention_dropout = 0, embedding_dropout = 0, init_std = 0.02;
  RopeConfig rope{};
  bool padding_row = true;  // the reference's embedding has one that look-ups do not train
  int64_t bos_id = -1, eos_id = -1, pad_id = -1;
  DecoderKeys keys{};
};

// A pre-norm decoder with rotary positions. Throws Error(config, unsupported).
ModelConfig read_decoder(const JsonFields& fields, const DecoderDefaults& absent);
// The inverse, of the model and the layer that most of it is like, which is resolved.
void write_decoder(const ModelConfig& config, const LayerConfig& layer, JsonObject out,
                   const DecoderKeys& keys = {});

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

// Gives those layers the window, an error that names the key sliding_window if it is 0; then `change` to
// each.
void read_windows(const JsonFields& fields, const std::vector<bool>& sliding, int64_t window,
                  ModelConfig& config, const std::function<void(LayerConfig&, bool)>& change = {});
// sliding_window and layer_types, by each layer's window; returns it, 0 where no layer has one:
// sliding_window is `absent` then, since some of the reference's classes need a number.
int64_t write_windows(const ModelConfig& config, JsonObject out, int64_t absent = 0);
void write_window(int64_t window, JsonObject out);  // sliding_window alone; 0 is null

// The y whose 1 / y is x to the bit, where there is one.
double inverse(double x);

}  // namespace plumb
