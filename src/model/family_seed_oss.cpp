// Seed-OSS: LLaMA with biases on queries, keys and values, and dropout.
#include "model/decoder_fields.h"
#include "model/llama_names.h"

namespace plumb {
namespace {

constexpr DecoderKeys kKeys{.attention_bias = "attention_bias",
                            .output_bias = "attention_out_bias",
                            .ffn_bias = "mlp_bias",
                            .dropout = "residual_dropout"};

ModelConfig read(const JsonFields& f) {
  return read_decoder(f, {.type = "seed_oss",
                          .vocab_size = 155136,
                          .layers = 64,
                          .heads = 80,
                          .kv_heads = 8,
                          .head_dim = 128,
                          .ffn_width = 27648,
                          .max_length = 524288,
                          .attention_bias = true,
                          .dropout = 0.1,
                          .attention_dropout = 0.1,
                          .bos_id = 0,
                          .eos_id = 2,
                          .pad_id = 1,
                          .keys = kKeys});
}

void write(const ModelConfig& c, JsonObject j) {
  write_decoder(c, resolved_layer(c, Side::decoder, 0), j, kKeys);
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
