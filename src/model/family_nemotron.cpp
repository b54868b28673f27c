// Nemotron (Parmar et al. 2024, 2402.16819): pre-norm with LayerNorms whose gain is 1 + w, squared ReLU,
// rotary positions on half of each head.
#include "model/families.h"
#include "model/family_parts.h"

namespace plumb {
namespace {

constexpr DecoderKeys kKeys{.type = "nemotron",
                            .vocab_size = 256000,
                            .width = {"hidden_size", 6144},
                            .length = {"max_position_embeddings", 4096},
                            .layers = {"num_hidden_layers", 32},
                            .heads = {"num_attention_heads", 48},
                            .kv_heads = {"num_key_value_heads", 0},
                            .ffn = {"intermediate_size", 24576},
                            .eps = {"norm_eps", 1e-5},
                            .activation = {"hidden_act", "relu2"},
                            .init_std = {"initializer_range", 0.0134},
                            .tied = false,
                            .padding_row = true,
                            .bos = 2,
                            .eos = 3};

ModelConfig read(const JsonFields& f) {
  ModelConfig c = read_decoder(f, kKeys);
  LayerConfig& l = c.layer;
  l.rope = read_part_rope(f, 0.5);
  l.norm_unit_offset = true;
  l.head_dim = f.integer("head_dim", 0);
  l.attention_bias = l.attention_output_bias = f.flag("attention_bias", false);
  l.ffn_bias = f.flag("mlp_bias", false);
  return c;
}

void write(const ModelConfig& c, JsonObject j) {
  const LayerConfig l = resolved_layer(c, Side::decoder, 0);
  write_decoder(c, kKeys, j);
  write_part_rope(l.rope, j);
  j["head_dim"] = l.head_dim;
  j["attention_bias"] = l.attention_bias;
  j["mlp_bias"] = l.ffn_bias;
}

constexpr TensorName kNames[] = {
    {"token_embedding", "model.embed_tokens"},
    {"decoder.#.attention.norm_in", "model.layers.#.input_layernorm"},
    {"decoder.#.attention.query", "model.layers.#.self_attn.q_proj"},
    {"decoder.#.attention.key", "model.layers.#.self_attn.k_proj"},
    {"decoder.#.attention.value", "model.layers.#.self_attn.v_proj"},
    {"decoder.#.attention.output", "model.layers.#.self_attn.o_proj"},
    {"decoder.#.feed_forward.norm_in", "model.layers.#.post_attention_layernorm"},
    {"decoder.#.feed_forward.up", "model.layers.#.mlp.up_proj"},
    {"decoder.#.feed_forward.down", "model.layers.#.mlp.down_proj"},
    {"decoder.final_norm", "model.norm"},
    {"head", "lm_head"},
};
constexpr TensorName kCopies[] = {{"token_embedding.weight", "lm_head.weight"}};
constexpr std::string_view kIgnored[] = {"layers.#.self_attn.rotary_emb.inv_freq"};

}  // namespace

const Family kNemotron{.type = "nemotron",
                       .architecture = "NemotronForCausalLM",
                       .read = read,
                       .write = write,
                       .prefix = "model.",
                       .names = kNames,
                       .copies = kCopies,
                       .ignored = kIgnored};

}  // namespace plumb
