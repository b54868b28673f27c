// OLMo (Groeneveld 2024, 2402.00838): LLaMA with LayerNorm that has no parameters.
#include "model/decoder_fields.h"
#include "model/llama_names.h"

namespace plumb {
namespace {

constexpr DecoderKeys kKeys{
    .norm_eps = nullptr, .attention_bias = "attention_bias", .output_bias = "attention_bias"};

ModelConfig read(const JsonFields& f) {
  ModelConfig c = read_decoder(
      f,
      {.type = "olmo", .vocab_size = 50304, .norm_eps = 1e-5, .eos_id = 50279, .pad_id = 1, .keys = kKeys});
  c.layer.norm = NormKind::layer_norm;
  c.layer.norm_affine = false;
  c.layer.qkv_limit = f.number("clip_qkv", 0);
  return c;
}

void write(const ModelConfig& c, JsonObject j) {
  write_decoder(c, resolved_layer(c, Side::decoder, 0), j, kKeys);
  j["clip_qkv"] = nullptr;
  if (c.layer.qkv_limit > 0) j["clip_qkv"] = c.layer.qkv_limit;
}

}  // namespace

const Family kOlmo{.type = "olmo",
                   .architecture = "OlmoForCausalLM",
                   .read = read,
                   .write = write,
                   .prefix = "model.",
                   .names = kLlamaNames,
                   .copies = kLlamaCopies,
                   .ignored = kLlamaIgnored};

}  // namespace plumb
