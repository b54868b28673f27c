// LLaMA (Touvron et al. 2023, 2302.13971): pre-norm with RMSNorm, rotary positions, SwiGLU, grouped keys and
// values.
#include "model/decoder_fields.h"
#include "model/llama_names.h"

namespace plumb {
namespace {

constexpr DecoderKeys kKeys{
    .attention_bias = "attention_bias", .output_bias = "attention_bias", .ffn_bias = "mlp_bias"};

ModelConfig read(const JsonFields& f) {
  return read_decoder(f, {.type = "llama", .bos_id = 1, .eos_id = 2, .keys = kKeys});
}

void write(const ModelConfig& c, JsonObject j) {
  write_decoder(c, resolved_layer(c, Side::decoder, 0), j, kKeys);
}

}  // namespace

const Family kLlama{.type = "llama",
                    .architecture = "LlamaForCausalLM",
                    .read = read,
                    .write = write,
                    .prefix = "model.",
                    .names = kLlamaNames,
                    .copies = kLlamaCopies,
                    .ignored = kLlamaIgnored};

}  // namespace plumb
