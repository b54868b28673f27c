// Gemma 2 (2408.00118): caps on attention logits and on logits.
#include "model/gemma_kin.h"

namespace plumb {
namespace {

constexpr DecoderKeys kKeys{
    .activation = "hidden_activation", .attention_bias = "attention_bias", .output_bias = "attention_bias"};

ModelConfig read(const JsonFields& f) {
  ModelConfig c = read_gemma_kin(f,
                                 {.type = "gemma2",
                                  .vocab_size = 256000,
                                  .width = 2304,
                                  .layers = 26,
                                  .heads = 8,
                                  .kv_heads = 4,
                                  .head_dim = 256,
                                  .ffn_width = 9216,
                                  .max_length = 8192,
                                  .activation = "gelu_pytorch_tanh",
                                  .tied = true,
                                  .bos_id = 2,
                                  .eos_id = 1,
                                  .pad_id = 0,
                                  .keys = kKeys},
                                 30);
  c.layer.attention_softcap = f.number_or_none("attn_logit_softcapping", 50);
  const auto absent = [](int64_t i) { return i % 2 == 0; };
  read_windows(f, read_sliding(f, c.decoder_layers, absent),
               f.integer_or_none("sliding_window", kUsualWindow), c);
  return c;
}

void write(const ModelConfig& c, JsonObject j) {
  write_gemma_kin(c, j, kKeys);
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
