// GPT-NeoX (Black et al. 2022, 2204.06745) and Pythia: attention and feed-forward side by side, each with its
// norm, or one behind the other; queries, keys and values of a head stand together.
#include "model/decoder_fields.h"
#include "model/rope_fields.h"

namespace plumb {
namespace {

constexpr DecoderKeys kKeys{.kv_heads = nullptr,
                            .head_dim = nullptr,
                            .norm_eps = "layer_norm_eps",
                            .dropout = "hidden_dropout",
                            .embedding_dropout = "hidden_dropout",
                            .rope = RopeKeys::part};

ModelConfig read(const JsonFields& f) {
  ModelConfig c = read_decoder(f, {.type = "gpt_neox",
                                   .vocab_size = 50432,
                                   .width = 6144,
                                   .layers = 44,
                                   .heads = 64,
                                   .ffn_width = 24576,
                                   .norm = NormKind::layer_norm,
                                   .norm_eps = 1e-5,
                                   .activation = "gelu",
                                   .gated = false,
                                   .rope = {.fraction = 0.25},
                                   .padding_row = false,
                                   .bos_id = 0,
                                   .eos_id = 2,
                                   .keys = kKeys});
  LayerConfig& l = c.layer;
  // Its keys beside rope_parameters have names of their own.
  const JsonFields rope = rope_object(f);
  l.rope.base = rope.number("rope_theta", f.number("rotary_emb_base", 10000));
  l.rope.fraction = rope.number("partial_rotary_factor", f.number("rotary_pct", 0.25));
  l.parallel = f.flag("use_parallel_residual", true) ? Parallel::two_norms : Parallel::no;
  l.qkv_fused = l.ffn_bias = true;
  l.attention_bias = l.attention_output_bias = f.flag("attention_bias", true);
  return c;
}

void write(const ModelConfig& c, JsonObject j) {
  const LayerConfig l = resolved_layer(c, Side::decoder, 0);
  write_decoder(c, l, j, kKeys);
  j["rotary_emb_base"] = l.rope.base;
  j["rotary_pct"] = l.rope.fraction;
  j["use_parallel_residual"] = l.parallel == Parallel::two_norms;
  j["attention_bias"] = l.attention_bias;
}

constexpr TensorName kNames[] = {
    {"token_embedding", "gpt_neox.embed_in"},
    {"decoder.#.attention.norm_in", "gpt_neox.layers.#.input_layernorm"},
    {"decoder.#.attention.qkv", "gpt_neox.layers.#.attention.query_key_value", {.by_group = true}},
    {"decoder.#.attention.output", "gpt_neox.layers.#.attention.dense"},
    {"decoder.#.feed_forward.norm_in", "gpt_neox.layers.#.post_attention_layernorm"},
    {"decoder.#.feed_forward.up", "gpt_neox.layers.#.mlp.dense_h_to_4h"},
    {"decoder.#.feed_forward.down", "gpt_neox.layers.#.mlp.dense_4h_to_h"},
    {"decoder.final_norm", "gpt_neox.final_layer_norm"},
    {"head", "embed_out"},
};
constexpr TensorName kCopies[] = {{"token_embedding.weight", "embed_out.weight"},
                                  {"token_embedding.weight", "lm_head.weight"}};
constexpr std::string_view kIgnored[] = {"layers.#.attention.bias",  // the causal mask
                                         "layers.#.attention.masked_bias",
                                         "layers.#.attention.rotary_emb.inv_freq"};

}  // namespace

const Family kGptNeoX{.type = "gpt_neox",
                      .architecture = "GPTNeoXForCausalLM",
                      .read = read,
                      .write = write,
                      .prefix = "gpt_neox.",
                      .names = kNames,
                      .copies = kCopies,
                      .ignored = kIgnored};

}  // namespace plumb
