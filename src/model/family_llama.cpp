// LLaMA (Touvron et al. 2023, 2302.13971): pre-norm with RMSNorm, rotary positions, SwiGLU, grouped keys and
// values.
#include "model/llama_kin.h"

namespace plumb {
namespace {

constexpr LlamaKin kKin{.type = "llama",
                        .attention_bias_key = "attention_bias",
                        .output_bias_key = "attention_bias",
                        .ffn_bias_key = "mlp_bias"};

ModelConfig read(const JsonFields& f) {
  return read_llama_kin(f, kKin);
}

void write(const ModelConfig& c, JsonObject j) {
  write_llama_kin(c, kKin, j);
}

}  // namespace

const Family kLlama{.type = "llama",
                    .architecture = "LlamaForCausalLM",
                    .read = read,
                    .write = write,
                    .prefix = "model.",
                    .names = kLlamaNames,
                    .copies = kLlamaCopies,
                    .ignored = kLlamaIgnored};

}  // namespace plumb
