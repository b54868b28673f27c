// Ministral 3: Mistral whose queries grow with the position beyond the length of its training.
#include "model/decoder_fields.h"
#include "model/llama_names.h"
#include "model/rope_fields.h"

namespace plumb {
namespace {

constexpr double kBase = 1e6;

ModelConfig read(const JsonFields& f) {
  ModelConfig c = read_decoder(f, {.type = "ministral3",
                                   .vocab_size = 131072,
                                   .layers = 34,
                                   .kv_heads = 8,
                                   .head_dim = 128,
                                   .ffn_width = 14336,
                                   .max_length = 262144,
                                   .norm_eps = 1e-5,
                                   .rope = {.base = kBase,
                                            .scaling = RopeScaling::yarn,
                                            .factor = 16,
                                            .original_length = 16384,
                                            .attention_factor = 1,
                                            .query_growth = 0.1},
                                   .bos_id = 1,
                                   .eos_id = 2,
                                   .pad_id = 11});
  c.layer.window = f.integer_or_none("sliding_window", 0);
  RopeConfig& r = c.layer.rope;
  const JsonFields rope = rope_object(f);
  if (!f.has("rope_parameters") && !f.has("rope_scaling")) r.base = kBase;  // the whole object's
  r.query_growth = rope.number("llama_4_scaling_beta", r.query_growth);
  if (r.query_growth != 0 && r.original_length == 0)
    r.original_length = rope.integer("original_max_position_embeddings", c.max_length);
  return c;
}

void write(const ModelConfig& c, JsonObject j) {
  write_decoder(c, resolved_layer(c, Side::decoder, 0), j);
  write_window(c.layer.window, j);
}

}  // namespace

const Family kMinistral3{.type = "ministral3",
                         .architecture = "Ministral3ForCausalLM",
                         .read = read,
                         .write = write,
                         .prefix = "model.",
                         .names = kLlamaNames,
                         .copies = kLlamaCopies,
                         .ignored = kLlamaIgnored};

}  // namespace plumb
