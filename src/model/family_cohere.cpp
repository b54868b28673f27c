// Command R: parallel branches under one LayerNorm, neighbouring dims rotated.
#include "model/decoder_fields.h"
#include "model/llama_names.h"

namespace plumb {
namespace {

constexpr DecoderKeys kKeys{
    .norm_eps = "layer_norm_eps", .attention_bias = "attention_bias", .output_bias = "attention_bias"};

ModelConfig read(const JsonFields& f) {
  ModelConfig c = read_decoder(f, {.type = "cohere",
                                   .vocab_size = 256000,
                                   .width = 8192,
                                   .layers = 40,
                                   .heads = 64,
                                   .ffn_width = 22528,
                                   .max_length = 8192,
                                   .norm_eps = 1e-5,
                                   .tied = true,
                                   .rope = {.base = 5e5},
                                   .bos_id = 5,
                                   .eos_id = 255001,
                                   .pad_id = 0,
                                   .keys = kKeys});
  LayerConfig& l = c.layer;
  c.logits_scale = f.number("logit_scale", 0.0625);
  l.norm = NormKind::layer_norm;
  l.parallel = Parallel::one_norm;
  l.rope.interleaved = true;
  if (f.flag("use_qk_norm", false)) l.qk_norm = QkNorm::own_gains;
  return c;
}

void write(const ModelConfig& c, JsonObject j) {
  write_decoder(c, resolved_layer(c, Side::decoder, 0), j, kKeys);
  j["logit_scale"] = c.logits_scale;
  j["use_qk_norm"] = c.layer.qk_norm == QkNorm::own_gains;
}

}  // namespace

const Family kCohere{.type = "cohere",
                     .architecture = "CohereForCausalLM",
                     .read = read,
                     .write = write,
                     .prefix = "model.",
                     .names = kLlamaNames,
                     .copies = kLlamaCopies,
                     .ignored = kLlamaIgnored};

}  // namespace plumb
