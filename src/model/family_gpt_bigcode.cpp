// GPT-BigCode (Ben Allal et al. 2023, 2301.03988): GPT-2 with one head of keys and values, matrices (out,
// in).
#include "model/families.h"
#include "model/family_parts.h"

namespace plumb {
namespace {

constexpr DecoderKeys kKeys{.type = "gpt_bigcode",
                            .vocab_size = 50257,
                            .width = {"n_embd", 768},
                            .length = {"n_positions", 1024},
                            .layers = {"n_layer", 12},
                            .heads = {"n_head", 12},
                            .ffn = {"n_inner", 0},
                            .eps = {"layer_norm_epsilon", 1e-5},
                            .activation = {"activation_function", "gelu_pytorch_tanh"},
                            .dropout = {"resid_pdrop", 0.1},
                            .attention_dropout = {"attn_pdrop", 0.1},
                            .embedding_dropout = {"embd_pdrop", 0.1},
                            .bos = 50256,
                            .eos = 50256};

ModelConfig read(const JsonFields& f) {
  ModelConfig c = read_decoder(f, kKeys);
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
  write_decoder(c, kKeys, j);
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
constexpr TensorName kCopies[] = {{"token_embedding.weight", "lm_head.weight"}};
constexpr std::string_view kIgnored[] = {"h.#.attn.bias", "h.#.attn.masked_bias"};  // the causal mask

}  // namespace

const Family kGptBigCode{.type = "gpt_bigcode",
                         .architecture = "GPTBigCodeForCausalLM",
                         .read = read,
                         .write = write,
                         .prefix = "transformer.",
                         .names = kNames,
                         .copies = kCopies,
                         .ignored = kIgnored};

}  // namespace plumb
