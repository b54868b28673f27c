// OLMo 2 (2501.00656): norms behind the branches, and over all of a token's queries and keys.
#include "model/decoder_fields.h"
#include "model/llama_names.h"

namespace plumb {
namespace {

constexpr DecoderKeys kKeys{.attention_bias = "attention_bias", .output_bias = "attention_bias"};

ModelConfig read(const JsonFields& f) {
  ModelConfig c = read_decoder(
      f,
      {.type = "olmo2", .vocab_size = 50304, .norm_eps = 1e-5, .eos_id = 50279, .pad_id = 1, .keys = kKeys});
  c.layer.placement = Placement::reordered;
  c.layer.qk_norm = QkNorm::whole;
  return c;
}

void write(const ModelConfig& c, JsonObject j) {
  write_decoder(c, resolved_layer(c, Side::decoder, 0), j, kKeys);
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
