// ERNIE 4.5 (dense): LLaMA whose neighbouring dims are rotated.
#include "model/decoder_fields.h"
#include "model/llama_names.h"

namespace plumb {
namespace {

constexpr DecoderKeys kKeys{.attention_bias = "use_bias",
                            .output_bias = "use_bias",
                            .ffn_bias = "use_bias",
                            .attention_dropout = nullptr};

ModelConfig read(const JsonFields& f) {
  ModelConfig c = read_decoder(f, {.type = "ernie4_5",
                                   .vocab_size = 103424,
                                   .width = 1024,
                                   .layers = 18,
                                   .heads = 16,
                                   .kv_heads = 2,
                                   .head_dim = 128,
                                   .ffn_width = 3072,
                                   .max_length = 131072,
                                   .norm_eps = 1e-5,
                                   .tied = true,
                                   .rope = {.base = 5e5},
                                   .bos_id = 1,
                                   .eos_id = 2,
                                   .pad_id = 0,
                                   .keys = kKeys});
  c.layer.rope.interleaved = true;
  return c;
}

void write(const ModelConfig& c, JsonObject j) {
  write_decoder(c, resolved_layer(c, Side::decoder, 0), j, kKeys);
}

}  // namespace

const Family kErnie45{.type = "ernie4_5",
                      .architecture = "Ernie4_5ForCausalLM",
                      .read = read,
                      .write = write,
                      .prefix = "model.",
                      .names = kLlamaNames,
                      .copies = kLlamaCopies,
                      .ignored = kLlamaIgnored};

}  // namespace plumb
