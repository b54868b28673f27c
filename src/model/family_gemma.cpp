// Gemma (2403.08295): LLaMA with gains that add 1, scaled embeddings and a tanh GELU.
#include <cmath>
#include "model/llama_kin.h"

namespace plumb {
namespace {

constexpr LlamaKin kKin{.type = "gemma",
                        .vocab_size = 256000,
                        .width = 3072,
                        .ffn_width = 24576,
                        .layers = 28,
                        .heads = 16,
                        .kv_heads = 16,
                        .head_dim = 256,
                        .max_length = 8192,
                        .activation = "gelu_pytorch_tanh",
                        .tied = true,
                        .bos = 2,
                        .eos = 1,
                        .pad = 0,
                        .attention_bias_key = "attention_bias",
                        .output_bias_key = "attention_bias"};

ModelConfig read(const JsonFields& f) {
  ModelConfig c = read_llama_kin(f, kKin);
  refuse_unless(f, "use_bidirectional_attention", false);
  c.embedding_scale = std::sqrt(static_cast<double>(c.width));
  c.layer.norm_unit_offset = true;
  if (c.layer.activation == Activation::gelu) c.layer.activation = Activation::gelu_tanh;  // as it was meant
  return c;
}

void write(const ModelConfig& c, JsonObject j) {
  write_llama_kin(c, kKin, j);
}

}  // namespace

const Family kGemma{.type = "gemma",
                    .architecture = "GemmaForCausalLM",
                    .read = read,
                    .write = write,
                    .prefix = "model.",
                    .names = kLlamaNames,
                    .copies = kLlamaCopies,
                    .ignored = kLlamaIgnored};

}  // namespace plumb
