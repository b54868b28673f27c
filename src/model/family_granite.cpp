// Granite 3 (dense): LLaMA with constant factors on embeddings, branches, attention and logits.
#include "model/decoder_fields.h"
#include "model/llama_names.h"
#include "nn/rotary.h"

namespace plumb {
namespace {

constexpr DecoderKeys kKeys{
    .attention_bias = "attention_bias", .output_bias = "attention_bias", .ffn_bias = "mlp_bias"};

ModelConfig read(const JsonFields& f) {
  ModelConfig c = read_decoder(f, {.type = "granite", .bos_id = 1, .eos_id = 2, .keys = kKeys});
  c.embedding_scale = f.number("embedding_multiplier", 1);
  c.logits_scale = 1 / f.number("logits_scaling", 1);
  c.layer.gate_value = f.number("residual_multiplier", 1);
  c.layer.attention_scale = f.number("attention_multiplier", 1);
  return c;
}

void write(const ModelConfig& c, JsonObject j) {
  write_decoder(c, resolved_layer(c, Side::decoder, 0), j, kKeys);
  j["embedding_multiplier"] = c.embedding_scale;
  j["logits_scaling"] = inverse(c.logits_scale);
  j["residual_multiplier"] = sublayer_formula(c, Side::decoder, 0).gate_value;
  j["attention_multiplier"] = attention_scale(resolved_layer(c, Side::decoder, 0), false);
}

}  // namespace

const Family kGranite{.type = "granite",
                      .architecture = "GraniteForCausalLM",
                      .read = read,
                      .write = write,
                      .prefix = "model.",
                      .names = kLlamaNames,
                      .copies = kLlamaCopies,
                      .ignored = kLlamaIgnored};

}  // namespace plumb
