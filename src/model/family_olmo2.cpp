// OLMo 2 (2501.00656): norms behind the branches, and over all of a token's queries and keys.
#include "model/llama_kin.h"

namespace plumb {
namespace {

constexpr LlamaKin kKin{.type = "olmo2",
                        .vocab_size = 50304,
                        .eps = 1e-5,
                        .bos = -1,
                        .eos = 50279,
                        .pad = 1,
                        .attention_bias_key = "attention_bias",
                        .output_bias_key = "attention_bias"};

ModelConfig read(const JsonFields& f) {
  ModelConfig c = read_llama_kin(f, kKin);
  c.layer.placement = Placement::reordered;
  c.layer.qk_norm = QkNorm::whole;
  return c;
}

void write(const ModelConfig& c, JsonObject j) {
  write_llama_kin(c, kKin, j);
}

}  // namespace

const Family kOlmo2{.type = "olmo2",
                    .architecture = "Olmo2ForCausalLM",
                    .read = read,
                    .write = write,
                    .prefix = "model.",
                    .names = kLlamaNames,
                    .copies = kLlamaCopies,
                    .ignored = kLlamaIgnored};

}  // namespace plumb
