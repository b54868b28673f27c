// Gemma 2 (2408.00118): caps on attention logits and on logits.
#include "model/gemma_kin.h"

namespace plumb {
namespace {

constexpr LlamaKin kKin{.type = "gemma2",
                        .vocab_size = 256000,
                        .width = 2304,
                        .ffn_width = 9216,
                        .layers = 26,
                        .heads = 8,
                        .kv_heads = 4,
                        .head_dim = 256,
                        .max_length = 8192,
                        .activation_key = "hidden_activation",
                        .activation = "gelu_pytorch_tanh",
                        .tied = true,
                        .bos = 2,
                        .eos = 1,
                        .pad = 0,
                        .attention_bias_key = "attention_bias",
                        .output_bias_key = "attention_bias"};

ModelConfig read(const JsonFields& f) {
  ModelConfig c = read_gemma_kin(f, kKin, 30);
  c.layer.attention_softcap = f.number_or_none("attn_logit_softcapping", 50);
  const auto absent = [](int64_t i) { return i % 2 == 0; };
  read_windows(f, read_sliding(f, c.decoder_layers, absent), f.integer_or_none("sliding_window", 4096), c);
  return c;
}

void write(const ModelConfig& c, JsonObject j) {
  write_gemma_kin(c, kKin, j);
  j["attn_logit_softcapping"] = nullptr;
  if (c.layer.attention_softcap > 0) j["attn_logit_softcapping"] = c.layer.attention_softcap;
}

}  // namespace

const Family kGemma2{.type = "gemma2",
                     .architecture = "Gemma2ForCausalLM",
                     .read = read,
                     .write = write,
                     .prefix = "model.",
                     .names = kGemmaNames,
                     .copies = kLlamaCopies,
                     .ignored = kLlamaIgnored};

}  // namespace plumb
