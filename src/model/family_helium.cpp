// Helium: LLaMA whose neighbouring dims are rotated.
#include "model/decoder_fields.h"
#include "model/llama_names.h"

namespace plumb {
namespace {

constexpr DecoderKeys kKeys{.attention_bias = "attention_bias", .ffn_bias = "mlp_bias"};

ModelConfig read(const JsonFields& f) {
  ModelConfig c = read_decoder(f, {.type = "helium",
                                   .vocab_size = 48000,
                                   .width = 2560,
                                   .layers = 24,
                                   .heads = 20,
                                   .kv_heads = 20,
                                   .head_dim = 128,
                                   .ffn_width = 7040,
                                   .max_length = 4096,
                                   .norm_eps = 1e-8,
                                   .rope = {.base = 1e5},
                                   .bos_id = 1,
                                   .eos_id = 2,
                                   .pad_id = 3,
                                   .keys = kKeys});
  c.layer.rope.interleaved = true;
  const LayerConfig l = resolved_layer(c, Side::decoder, 0);
  if (l.heads * l.head_dim != c.width) f.wrong("head_dim", "hidden_size / num_attention_heads");
  return c;
}

void write(const ModelConfig& c, JsonObject j) {
  write_decoder(c, resolved_layer(c, Side::decoder, 0), j, kKeys);
}

}  // namespace

const Family kHelium{.type = "helium",
                     .architecture = "HeliumForCausalLM",
                     .read = read,
                     .write = write,
                     .prefix = "model.",
                     .names = kLlamaNames,
                     .copies = kLlamaCopies,
                     .ignored = kLlamaIgnored};

}  // namespace plumb
