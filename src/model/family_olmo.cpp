// OLMo (Groeneveld 2024, 2402.00838): LLaMA with LayerNorm that has no parameters.
#include "model/llama_kin.h"

namespace plumb {
namespace {

constexpr LlamaKin kKin{.type = "olmo",
                        .vocab_size = 50304,
                        .eps_key = nullptr,
                        .eps = 1e-5,
                        .bos = -1,
                        .eos = 50279,
                        .pad = 1,
                        .attention_bias_key = "attention_bias",
                        .output_bias_key = "attention_bias"};

ModelConfig read(const JsonFields& f) {
  ModelConfig c = read_llama_kin(f, kKin);
  c.layer.norm = NormKind::layer_norm;
  c.layer.norm_affine = false;
  c.layer.qkv_limit = f.number("clip_qkv", 0);
  return c;
}

void write(const ModelConfig& c, JsonObject j) {
  write_llama_kin(c, kKin, j);
  j["clip_qkv"] = nullptr;
  if (c.layer.qkv_limit > 0) j["clip_qkv"] = c.layer.qkv_limit;
}

}  // namespace

const Family kOlmo{.type = "olmo",
                   .architecture = "OlmoForCausalLM",
                   .read = read,
                   .write = write,
                   .prefix = "model.",
                   .names = kLlamaNames,
                   .copies = kLlamaCopies,
                   .ignored = kLlamaIgnored};

}  // namespace plumb
