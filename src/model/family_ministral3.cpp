// Ministral 3: Mistral whose queries grow with the position beyond the length of its training.
#include "model/llama_kin.h"

namespace plumb {
namespace {

constexpr LlamaKin kKin{.type = "ministral3",
                        .vocab_size = 131072,
                        .ffn_width = 14336,
                        .layers = 34,
                        .kv_heads = 8,
                        .head_dim = 128,
                        .max_length = 262144,
                        .eps = 1e-5,
                        .pad = 11};

ModelConfig read(const JsonFields& f) {
  ModelConfig c = read_llama_kin(f, kKin);
  c.layer.window = f.integer_or_none("sliding_window", 0);
  RopeConfig& r = c.layer.rope;
  if (!f.has("rope_parameters") && !f.has("rope_scaling")) {
    r = {.base = 1e6,
         .scaling = RopeScaling::yarn,
         .factor = 16,
         .original_length = 16384,
         .attention_factor = 1,
         .query_growth = 0.1};
    return c;
  }
  const JsonFields rope = rope_fields(f);
  r.query_growth = rope.number("llama_4_scaling_beta", 0);
  if (r.query_growth != 0 && r.scaling == RopeScaling::none)
    r.original_length = rope.integer("original_max_position_embeddings", c.max_length);
  return c;
}

void write(const ModelConfig& c, JsonObject j) {
  write_llama_kin(c, kKin, j);
  const int64_t window = c.layer.window;
  j["sliding_window"] = nullptr;
  if (window > 0) j["sliding_window"] = window;
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
