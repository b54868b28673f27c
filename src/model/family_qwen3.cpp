// Qwen 3 (2505.09388): LLaMA with norms on queries and keys.
#include "model/decoder_fields.h"
#include "model/llama_names.h"

namespace plumb {
namespace {

constexpr DecoderKeys kKeys{.attention_bias = "attention_bias", .output_bias = "attention_bias"};

ModelConfig read(const JsonFields& f) {
  ModelConfig c = read_decoder(f, {.type = "qwen3",
                                   .vocab_size = 151936,
                                   .kv_heads = 32,
                                   .head_dim = 128,
                                   .ffn_width = 22016,
                                   .max_length = 32768,
                                   .keys = kKeys});
  c.layer.qk_norm = QkNorm::per_head;
  const int64_t window = f.flag("use_sliding_window", false) ? f.integer_or_none("sliding_window", 4096) : 0;
  const int64_t first = f.integer("max_window_layers", 28);
  const auto absent = [&](int64_t i) { return window > 0 && i >= first; };
  read_windows(f, read_sliding(f, c.decoder_layers, absent), window, c);
  return c;
}

void write(const ModelConfig& c, JsonObject j) {
  write_decoder(c, resolved_layer(c, Side::decoder, 0), j, kKeys);
  const int64_t window = write_windows(c, j);
  j["use_sliding_window"] = window > 0;
}

}  // namespace

const Family kQwen3{.type = "qwen3",
                    .architecture = "Qwen3ForCausalLM",
                    .read = read,
                    .write = write,
                    .prefix = "model.",
                    .names = kLlamaNames,
                    .copies = kLlamaCopies,
                    .ignored = kLlamaIgnored};

}  // namespace plumb
