// Gemma (2403.08295): LLaMA with gains that add 1, scaled embeddings and a tanh GELU.
#include <cmath>
#include "model/decoder_fields.h"
#include "model/llama_names.h"

namespace plumb {
namespace {

constexpr DecoderKeys kKeys{.attention_bias = "attention_bias", .output_bias = "attention_bias"};

ModelConfig read(const JsonFields& f) {
  ModelConfig c = read_decoder(f, {.type = "gemma",
                                   .vocab_size = 256000,
                                   .width = 3072,
                                   .layers = 28,
                                   .heads = 16,
                                   .kv_heads = 16,
                                   .head_dim = 256,
                                   .ffn_width = 24576,
                                   .max_length = 8192,
                                   .activation = "gelu_pytorch_tanh",
                                   .tied = true,
                                   .bos_id = 2,
                                   .eos_id = 1,
                                   .pad_id = 0,
                                   .keys = kKeys});
  refuse_unless(f, "use_bidirectional_attention", false);
  c.embedding_scale = std::sqrt(static_cast<double>(c.width));
  c.layer.norm_unit_offset = true;
  if (c.layer.activation == Activation::gelu) c.layer.activation = Activation::gelu_tanh;  // as it was meant
  return c;
}

void write(const ModelConfig& c, JsonObject j) {
  write_decoder(c, resolved_layer(c, Side::decoder, 0), j, kKeys);
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
