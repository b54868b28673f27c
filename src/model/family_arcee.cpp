// Arcee AFM: LLaMA with a squared ReLU in place of the gate.
#include "model/decoder_fields.h"
#include "model/llama_names.h"

namespace plumb {
namespace {

constexpr DecoderKeys kKeys{
    .attention_bias = "attention_bias", .output_bias = "attention_bias", .ffn_bias = "mlp_bias"};

ModelConfig read(const JsonFields& f) {
  return read_decoder(f, {.type = "arcee",
                          .width = 2560,
                          .ffn_width = 18432,
                          .max_length = 4096,
                          .norm_eps = 1e-5,
                          .activation = "relu2",
                          .gated = false,
                          .bos_id = 128000,
                          .eos_id = 128001,
                          .keys = kKeys});
}

void write(const ModelConfig& c, JsonObject j) {
  write_decoder(c, resolved_layer(c, Side::decoder, 0), j, kKeys);
}

}  // namespace

const Family kArcee{.type = "arcee",
                    .architecture = "ArceeForCausalLM",
                    .read = read,
                    .write = write,
                    .prefix = "model.",
                    .names = kLlamaNames,
                    .copies = kLlamaCopies,
                    .ignored = kLlamaIgnored};

}  // namespace plumb
