// GPT-BigCode (Ben Allal et al. 2023, 2301.03988): GPT-2 with one head of keys and values, matrices (out,
// in).
#include "model/decoder_fields.h"
#include "model/llama_names.h"

namespace plumb {
namespace {

constexpr DecoderKeys kKeys{.width = "n_embd",
                            .layers = "n_layer",
                            .heads = "n_head",
                            .max_length = "n_positions",
                            .kv_heads = nullptr,
                            .head_dim = nullptr,
                            .ffn_width = "n_inner",
                            .norm_eps = "layer_norm_epsilon",
                            .activation = "activation_function",
                            .dropout = "resid_pdrop",
                            .attention_dropout = "attn_pdrop",
                            .embedding_dropout = "embd_pdrop",
                            .rope = RopeKeys::none};

ModelConfig read(const JsonFields& f) {
  ModelConfig c = read_decoder(f, {.type = "gpt_bigcode",
                                   .vocab_size = 50257,
                                   .width = 768,
                                   .layers = 12,
                                   .heads = 12,
                                   .ffn_width = 0,
                                   .max_length = 1024,
                                   .norm = NormKind::layer_norm,
                                   .norm_eps = 1e-5,
                                   .activation = "gelu_pytorch_tanh",
                                   .gated = false,
                                   .tied = true,
                                   .dropout = 0.1,
                                   .attention_dropout = 0.1,
                                   .embedding_dropout = 0.1,
                                   .padding_row = false,
                                   .bos_id = 50256,
                                   .eos_id = 50256,
                                   .keys = kKeys});
  c.positions = Positions::learned;
  c.init = Init::scaled_normal;
  LayerConfig& l = c.layer;
  l.kv_heads = f.flag("multi_query", true) ? 1 : 0;
  l.qkv_fused = l.attention_bias = l.attention_output_bias = l.ffn_bias = true;
  l.attention_scale = f.flag("scale_attn_weights", true) ? 0 : 1;
  refuse_unless(f, "add_cross_attention", false);
  return c;
}

void write(const ModelConfig& c, JsonObject j) {
  const LayerConfig l = resolved_layer(c, Side::decoder, 0);
  write_decoder(c, l, j, kKeys);
  j["multi_query"] = l.kv_heads == 1;
  j["scale_attn_weights"] = l.attention_scale != 1;
}

constexpr TensorName kNames[] = {
    {"token_embedding", "transformer.wte"},
    {"decoder.position_embedding", "transformer.wpe"},
    {"decoder.#.attention.norm_in", "transformer.h.#.ln_1"},
    {"decoder.#.attention.qkv", "transformer.h.#.attn.c_attn", {.by_group = true}},
    {"decoder.#.attention.output", "transformer.h.#.attn.c_proj"},
    {"decoder.#.feed_forward.norm_in", "transformer.h.#.ln_2"},
    {"decoder.#.feed_forward.up", "transformer.h.#.mlp.c_fc"},
    {"decoder.#.feed_forward.down", "transformer.h.#.mlp.c_proj"},
    {"decoder.final_norm", "transformer.ln_f"},
    {"head", "lm_head"},
};
constexpr std::string_view kIgnored[] = {"h.#.attn.bias", "h.#.attn.masked_bias"};  // the causal mask

}  // namespace

const Family kGptBigCode{.type = "gpt_bigcode",
                         .architecture = "GPTBigCodeForCausalLM",
                         .read = read,
                         .write = write,
                         .prefix = "transformer.",
                         .names = kNames,
                         .copies = kLlamaCopies,
                         .ignored = kIgnored};

}  // namespace plumb
