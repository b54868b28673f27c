// Seed-OSS: LLaMA with biases on queries, keys and values, and dropout.
#include "model/llama_kin.h"

namespace plumb {
namespace {

constexpr LlamaKin kKin{.type = "seed_oss",
                        .vocab_size = 155136,
                        .ffn_width = 27648,
                        .layers = 64,
                        .heads = 80,
                        .kv_heads = 8,
                        .head_dim = 128,
                        .max_length = 524288,
                        .bos = 0,
                        .pad = 1,
                        .attention_bias_key = "attention_bias",
                        .output_bias_key = "attention_out_bias",
                        .ffn_bias_key = "mlp_bias",
                        .attention_bias = true};

ModelConfig read(const JsonFields& f) {
  ModelConfig c = read_llama_kin(f, kKin);
  c.attention_dropout = f.number("attention_dropout", 0.1);
  c.dropout = f.number("residual_dropout", 0.1);
  return c;
}

void write(const ModelConfig& c, JsonObject j) {
  write_llama_kin(c, kKin, j);
  j["residual_dropout"] = c.dropout;
}

}  // namespace

const Family kSeedOss{.type = "seed_oss",
                      .architecture = "SeedOssForCausalLM",
                      .read = read,
                      .write = write,
                      .prefix = "model.",
                      .names = kLlamaNames,
                      .copies = kLlamaCopies,
                      .ignored = kLlamaIgnored};

}  // namespace plumb
