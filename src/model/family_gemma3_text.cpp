// Gemma 3 (2503.19786), its text model: norms on queries and keys; layers with a window have a rotary base of
// their own.
#include <nlohmann/json.hpp>

#include "model/gemma_kin.h"
#include "model/rope_fields.h"

namespace plumb {
namespace {

constexpr DecoderKeys kKeys{.activation = "hidden_activation",
                            .attention_bias = "attention_bias",
                            .output_bias = "attention_bias",
                            .rope = RopeKeys::none};

ModelConfig read(const JsonFields& f) {
  ModelConfig c = read_gemma_kin(f,
                                 {.type = "gemma3_text",
                                  .vocab_size = 262208,
                                  .width = 2304,
                                  .layers = 26,
                                  .heads = 8,
                                  .kv_heads = 4,
                                  .head_dim = 256,
                                  .ffn_width = 9216,
                                  .max_length = 131072,
                                  .activation = "gelu_pytorch_tanh",
                                  .tied = true,
                                  .bos_id = 2,
                                  .eos_id = 1,
                                  .pad_id = 0,
                                  .keys = kKeys},
                                 0);
  c.layer.qk_norm = QkNorm::per_head;
  const JsonFields rope = f.object("rope_parameters");
  Json of_full = rope.has("full_attention") ? rope.raw("full_attention") : Json::object();
  if (f.has("rope_scaling") && of_full.is_object()) of_full.update(f.object("rope_scaling").all());
  const RopeConfig full =
      read_rope_object(f, JsonFields(of_full, f.name()), {.base = f.number("rope_theta", 1e6)});
  const RopeConfig local =
      read_rope_object(f, rope.object("sliding_attention"), {.base = f.number("rope_local_base_freq", 1e4)});
  const int64_t pattern = f.integer("sliding_window_pattern", 6);
  if (pattern < 1) f.wrong("sliding_window_pattern", "at least 1");
  const auto absent = [&](int64_t i) { return (i + 1) % pattern != 0; };
  read_windows(f, read_sliding(f, c.decoder_layers, absent),
               f.integer_or_none("sliding_window", kUsualWindow), c,
               [&](LayerConfig& l, bool sliding) { l.rope = sliding ? local : full; });
  return c;
}

void write(const ModelConfig& c, JsonObject j) {
  write_gemma_kin(c, j, kKeys);
  JsonObject rope = j.object("rope_parameters");
  for (int64_t i = 0; i < c.decoder_layers; ++i) {
    const LayerConfig l = resolved_layer(c, Side::decoder, i);
    const bool full = l.window == 0;
    write_rope_object(l.rope, rope.object(full ? "full_attention" : "sliding_attention"));
    // Older engines read the bases here, and one scaling, which is that of layers without a window.
    j[full ? "rope_theta" : "rope_local_base_freq"] = l.rope.base;
    if (full && l.rope.scaling != RopeScaling::none) write_rope_object(l.rope, j.object("rope_scaling"));
  }
}

}  // namespace

const Family kGemma3Text{.type = "gemma3_text",
                         .architecture = "Gemma3ForCausalLM",
                         .read = read,
                         .write = write,
                         .prefix = "model.",
                         .names = kGemmaNames,
                         .copies = kLlamaCopies,
                         .ignored = kLlamaIgnored};

}  // namespace plumb
