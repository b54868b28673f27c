// What the config.json files of many decoders say alike, for their families' readers and writers: sizes under
// a family's keys, and rotary positions on a part of each head.
#pragma once

#include "model/json_fields.h"
#include "plumb/config.h"

namespace plumb {

// A key and what its absence means; without a key, the value that always holds.
template <class T>
struct KeyOf {
  const char* key = nullptr;
  T absent{};
};

// Of a decoder with LayerNorms before its sub-layers and behind them, and a feed-forward without gate.
struct DecoderKeys {
  const char* type;  // model_type
  int64_t vocab_size;
  KeyOf<int64_t> width{"hidden_size", 0}, length{"max_position_embeddings", 2048},
      layers{"num_hidden_layers", 0}, heads{"num_attention_heads", 0};
  KeyOf<int64_t> kv_heads{};                   // 0: as many as heads
  KeyOf<int64_t> ffn{"intermediate_size", 0};  // 0: 4 width
  KeyOf<double> eps{"layer_norm_eps", 1e-5};
  KeyOf<const char*> activation{"hidden_act", "gelu"};
  KeyOf<double> dropout{}, attention_dropout{"attention_dropout", 0}, embedding_dropout{};
  KeyOf<double> init_std{"initializer_range", 0.02};
  bool tied = true;
  bool padding_row = false;  // the reference's embedding has one that look-ups do not train
  int64_t bos = -1, eos = -1, pad = -1;
};

// Sizes go also by the names that they have in most families, which come first, as in the reference.
ModelConfig read_decoder(const JsonFields& fields, const DecoderKeys& keys);
void write_decoder(const ModelConfig& config, const DecoderKeys& keys, JsonObject out);

// Rotary positions on a part of each head, which is `fraction` where the file does not say it.
RopeConfig read_part_rope(const JsonFields& fields, double fraction);
void write_part_rope(const RopeConfig& rope, JsonObject out);

}  // namespace plumb
