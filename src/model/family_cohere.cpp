// Command R: parallel branches under one LayerNorm, neighbouring dims rotated.
#include "model/llama_kin.h"

namespace plumb {
namespace {

constexpr LlamaKin kKin{.type = "cohere",
                        .vocab_size = 256000,
                        .width = 8192,
                        .ffn_width = 22528,
                        .layers = 40,
                        .heads = 64,
                        .max_length = 8192,
                        .eps_key = "layer_norm_eps",
                        .eps = 1e-5,
                        .tied = true,
                        .bos = 5,
                        .eos = 255001,
                        .pad = 0,
                        .attention_bias_key = "attention_bias",
                        .output_bias_key = "attention_bias",
                        .rope_base = 5e5};

ModelConfig read(const JsonFields& f) {
  ModelConfig c = read_llama_kin(f, kKin);
  LayerConfig& l = c.layer;
  c.logits_scale = f.number("logit_scale", 0.0625);
  l.norm = NormKind::layer_norm;
  l.parallel = Parallel::one_norm;
  l.rope.interleaved = true;
  if (f.flag("use_qk_norm", false)) l.qk_norm = QkNorm::own_gains;
  return c;
}

void write(const ModelConfig& c, JsonObject j) {
  write_llama_kin(c, kKin, j);
  j["logit_scale"] = c.logits_scale;
  j["use_qk_norm"] = c.layer.qk_norm == QkNorm::own_gains;
}

}  // namespace

const Family kCohere{.type = "cohere",
                     .architecture = "CohereForCausalLM",
                     .read = read,
                     .write = write,
                     .prefix = "model.",
                     .names = kLlamaNames,
                     .copies = kLlamaCopies,
                     .ignored = kLlamaIgnored};

}  // namespace plumb
