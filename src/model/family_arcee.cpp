// Arcee AFM: LLaMA with a squared ReLU in place of the gate.
#include "model/llama_kin.h"

namespace plumb {
namespace {

constexpr LlamaKin kKin{.type = "arcee",
                        .width = 2560,
                        .ffn_width = 18432,
                        .max_length = 4096,
                        .activation = "relu2",
                        .eps = 1e-5,
                        .bos = 128000,
                        .eos = 128001,
                        .attention_bias_key = "attention_bias",
                        .output_bias_key = "attention_bias",
                        .ffn_bias_key = "mlp_bias"};

ModelConfig read(const JsonFields& f) {
  ModelConfig c = read_llama_kin(f, kKin);
  c.layer.gated = false;
  return c;
}

void write(const ModelConfig& c, JsonObject j) {
  write_llama_kin(c, kKin, j);
}

}  // namespace

const Family kArcee{.type = "arcee",
                    .architecture = "ArceeForCausalLM",
                    .read = read,
                    .write = write,
                    .prefix = "model.",
                    .names = kLlamaNames,
                    .copies = kLlamaCopies,
                    .ignored = kLlamaIgnored};

}  // namespace plumb
