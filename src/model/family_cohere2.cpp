// Command R7B and A (2504.00698): Command R with a window and rotary positions in most layers, neither in the
// others.
#include "model/decoder_fields.h"
#include "model/llama_names.h"

namespace plumb {
namespace {

constexpr int64_t kUsualWindow = 4096;
constexpr DecoderKeys kKeys{
    .norm_eps = "layer_norm_eps", .attention_bias = "attention_bias", .output_bias = "attention_bias"};

ModelConfig read(const JsonFields& f) {
  ModelConfig c = read_decoder(f, {.type = "cohere2",
                                   .vocab_size = 256000,
                                   .width = 8192,
                                   .layers = 40,
                                   .heads = 64,
                                   .ffn_width = 22528,
                                   .max_length = 8192,
                                   .norm_eps = 1e-5,
                                   .tied = true,
                                   .bos_id = 5,
                                   .eos_id = 255001,
                                   .pad_id = 0,
                                   .keys = kKeys});
  LayerConfig& l = c.layer;
  c.logits_scale = f.number("logit_scale", 0.0625);
  l.norm = NormKind::layer_norm;
  l.parallel = Parallel::one_norm;
  l.rope.interleaved = true;
  const int64_t pattern = f.integer("sliding_window_pattern", 4);
  if (pattern < 1) f.wrong("sliding_window_pattern", "at least 1");
  const auto absent = [&](int64_t i) { return (i + 1) % pattern != 0; };
  read_windows(f, read_sliding(f, c.decoder_layers, absent),
               f.integer_or_none("sliding_window", kUsualWindow), c,
               [](LayerConfig& of, bool sliding) { of.rotary = sliding; });
  return c;
}

void write(const ModelConfig& c, JsonObject j) {
  write_decoder(c, resolved_layer(c, Side::decoder, 0), j, kKeys);
  write_windows(c, j, kUsualWindow);
  j["logit_scale"] = c.logits_scale;
}

}  // namespace

const Family kCohere2{.type = "cohere2",
                      .architecture = "Cohere2ForCausalLM",
                      .read = read,
                      .write = write,
                      .prefix = "model.",
                      .names = kLlamaNames,
                      .copies = kLlamaCopies,
                      .ignored = kLlamaIgnored};

}  // namespace plumb
