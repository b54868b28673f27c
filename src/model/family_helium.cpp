// Helium: LLaMA whose neighbouring dims are rotated.
#include "model/llama_kin.h"

namespace plumb {
namespace {

constexpr LlamaKin kKin{.type = "helium",
                        .vocab_size = 48000,
                        .width = 2560,
                        .ffn_width = 7040,
                        .layers = 24,
                        .heads = 20,
                        .kv_heads = 20,
                        .head_dim = 128,
                        .max_length = 4096,
                        .eps = 1e-8,
                        .pad = 3,
                        .attention_bias_key = "attention_bias",
                        .ffn_bias_key = "mlp_bias",
                        .rope_base = 1e5};

ModelConfig read(const JsonFields& f) {
  ModelConfig c = read_llama_kin(f, kKin);
  c.layer.rope.interleaved = true;
  const LayerConfig l = resolved_layer(c, Side::decoder, 0);
  if (l.heads * l.head_dim != c.width) f.wrong("head_dim", "hidden_size / num_attention_heads");
  return c;
}

void write(const ModelConfig& c, JsonObject j) {
  write_llama_kin(c, kKin, j);
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
