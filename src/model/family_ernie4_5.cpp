// ERNIE 4.5 (dense): LLaMA whose neighbouring dims are rotated.
#include "model/llama_kin.h"

namespace plumb {
namespace {

constexpr LlamaKin kKin{.type = "ernie4_5",
                        .vocab_size = 103424,
                        .width = 1024,
                        .ffn_width = 3072,
                        .layers = 18,
                        .heads = 16,
                        .kv_heads = 2,
                        .head_dim = 128,
                        .max_length = 131072,
                        .eps = 1e-5,
                        .tied = true,
                        .pad = 0,
                        .attention_bias_key = "use_bias",
                        .output_bias_key = "use_bias",
                        .ffn_bias_key = "use_bias",
                        .rope_base = 5e5};

ModelConfig read(const JsonFields& f) {
  ModelConfig c = read_llama_kin(f, kKin);
  c.attention_dropout = 0;  // it never drops
  c.layer.rope.interleaved = true;
  return c;
}

void write(const ModelConfig& c, JsonObject j) {
  write_llama_kin(c, kKin, j);
}

}  // namespace

const Family kErnie45{.type = "ernie4_5",
                      .architecture = "Ernie4_5ForCausalLM",
                      .read = read,
                      .write = write,
                      .prefix = "model.",
                      .names = kLlamaNames,
                      .copies = kLlamaCopies,
                      .ignored = kLlamaIgnored};

}  // namespace plumb
