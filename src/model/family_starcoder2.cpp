// StarCoder2 (Lozhkov et al. 2024, 2402.19173): pre-norm with LayerNorm, rotary positions, grouped keys and
// values, a window, biases everywhere.
#include "model/families.h"
#include "model/family_parts.h"
#include "model/rope_fields.h"

namespace plumb {
namespace {

constexpr DecoderKeys kKeys{.type = "starcoder2",
                            .vocab_size = 49152,
                            .width = {"hidden_size", 3072},
                            .length = {"max_position_embeddings", 4096},
                            .layers = {"num_hidden_layers", 30},
                            .heads = {"num_attention_heads", 24},
                            .kv_heads = {"num_key_value_heads", 2},
                            .ffn = {"intermediate_size", 12288},
                            .eps = {"norm_epsilon", 1e-5},
                            .activation = {"hidden_act", "gelu_pytorch_tanh"},
                            .dropout = {"residual_dropout", 0},
                            .embedding_dropout = {"embedding_dropout", 0},
                            .init_std = {"initializer_range", 0.018042},
                            .padding_row = true,
                            .bos = 50256,
                            .eos = 50256};

ModelConfig read(const JsonFields& f) {
  ModelConfig c = read_decoder(f, kKeys);
  LayerConfig& l = c.layer;
  l.rope = read_rope(f);
  l.rope.fraction = 1;
  l.head_dim = f.integer("head_dim", 0);
  l.window = f.integer("sliding_window", 0);
  l.attention_bias = l.attention_output_bias = l.ffn_bias = f.flag("use_bias", true);
  return c;
}

void write(const ModelConfig& c, JsonObject j) {
  const LayerConfig l = resolved_layer(c, Side::decoder, 0);
  write_decoder(c, kKeys, j);
  write_rope(l.rope, j);
  if (l.head_dim * l.heads != c.width) j["head_dim"] = l.head_dim;
  j["sliding_window"] = nullptr;
  if (l.window > 0) j["sliding_window"] = l.window;
  j["use_bias"] = l.ffn_bias;
}

constexpr TensorName kNames[] = {
    {"token_embedding", "model.embed_tokens"},
    {"decoder.#.attention.norm_in", "model.layers.#.input_layernorm"},
    {"decoder.#.attention.query", "model.layers.#.self_attn.q_proj"},
    {"decoder.#.attention.key", "model.layers.#.self_attn.k_proj"},
    {"decoder.#.attention.value", "model.layers.#.self_attn.v_proj"},
    {"decoder.#.attention.output", "model.layers.#.self_attn.o_proj"},
    {"decoder.#.feed_forward.norm_in", "model.layers.#.post_attention_layernorm"},
    {"decoder.#.feed_forward.up", "model.layers.#.mlp.c_fc"},
    {"decoder.#.feed_forward.down", "model.layers.#.mlp.c_proj"},
    {"decoder.final_norm", "model.norm"},
    {"head", "lm_head"},
};
constexpr TensorName kCopies[] = {{"token_embedding.weight", "lm_head.weight"}};
constexpr std::string_view kIgnored[] = {"layers.#.self_attn.rotary_emb.inv_freq"};

}  // namespace

const Family kStarCoder2{.type = "starcoder2",
                         .architecture = "Starcoder2ForCausalLM",
                         .read = read,
                         .write = write,
                         .prefix = "model.",
                         .names = kNames,
                         .copies = kCopies,
                         .ignored = kIgnored};

}  // namespace plumb
