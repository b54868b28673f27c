// Falcon (Almazrouei et al. 2023, 2311.16867). Its models are wired in three ways: attention and feed-forward
// side by side behind a norm each and with groups of heads (new_decoder_architecture), behind one norm and
// with one head of keys (multi_query), or one behind the other with ALiBi.
#include <fmt/format.h>

#include "model/decoder_fields.h"
#include "model/llama_names.h"
#include "plumb/error.h"

namespace plumb {
namespace {

constexpr DecoderKeys kKeys{.kv_heads = nullptr,
                            .head_dim = nullptr,
                            .ffn_width = "ffn_hidden_size",
                            .norm_eps = "layer_norm_epsilon",
                            .activation = "activation",
                            .dropout = "hidden_dropout"};

// One combination works in the reference for each number of norms.
Parallel read_wiring(const JsonFields& f, bool grouped) {
  const bool parallel = f.flag("parallel_attn", true);
  const int64_t norms = f.integer("num_ln_in_parallel_attn", grouped ? 2 : 1);
  const bool built = grouped ? parallel && (norms == 1 || norms == 2) : !parallel || norms != 2;
  if (!built) {
    throw Error(
        ErrorKind::unsupported,
        fmt::format("{}: new_decoder_architecture {} with parallel_attn {} and num_ln_in_parallel_attn "
                    "{} is not supported",
                    f.name(), grouped, parallel, norms));
  }
  return !parallel ? Parallel::no : norms == 2 ? Parallel::two_norms : Parallel::one_norm;
}

ModelConfig read(const JsonFields& f) {
  ModelConfig c = read_decoder(f, {.type = "falcon",
                                   .vocab_size = 65024,
                                   .width = 4544,
                                   .layers = 32,
                                   .heads = 71,
                                   .ffn_width = 0,
                                   .norm = NormKind::layer_norm,
                                   .norm_eps = 1e-5,
                                   .activation = "gelu",
                                   .gated = false,
                                   .tied = true,
                                   .padding_row = false,
                                   .bos_id = 11,
                                   .eos_id = 11,
                                   .keys = kKeys});
  c.width = f.integer("n_embed", c.width);
  LayerConfig& l = c.layer;
  const bool grouped = f.flag("new_decoder_architecture", false);
  l.parallel = read_wiring(f, grouped);
  if (grouped) {
    l.kv_heads = f.integer("num_kv_heads", 0);
  } else {
    l.kv_heads = f.flag("multi_query", true) ? 1 : 0;
  }
  l.qkv_fused = true;
  l.attention_bias = l.attention_output_bias = l.ffn_bias = f.flag("bias", false);
  if (f.flag("alibi", false)) {
    c.positions = Positions::alibi;
    c.alibi_scaled = true;
  }
  return c;
}

void write(const ModelConfig& c, JsonObject j) {
  const LayerConfig l = resolved_layer(c, Side::decoder, 0);
  const bool grouped = l.parallel == Parallel::two_norms || (l.kv_heads > 1 && l.kv_heads < l.heads);
  write_decoder(c, l, j, kKeys);
  j["num_kv_heads"] = l.kv_heads;
  j["new_decoder_architecture"] = grouped;
  j["multi_query"] = l.kv_heads == 1;
  j["parallel_attn"] = l.parallel != Parallel::no;
  j["num_ln_in_parallel_attn"] = l.parallel == Parallel::two_norms ? 2 : 1;
  j["bias"] = l.ffn_bias;
  j["alibi"] = c.positions == Positions::alibi;
}

constexpr TensorName kNames[] = {
    {"token_embedding", "transformer.word_embeddings"},
    {"decoder.#.attention.norm_in", "transformer.h.#.input_layernorm"},
    {"decoder.#.attention.qkv", "transformer.h.#.self_attention.query_key_value", {.by_group = true}},
    {"decoder.#.attention.output", "transformer.h.#.self_attention.dense"},
    {"decoder.#.feed_forward.norm_in", "transformer.h.#.post_attention_layernorm"},
    {"decoder.#.feed_forward.up", "transformer.h.#.mlp.dense_h_to_4h"},
    {"decoder.#.feed_forward.down", "transformer.h.#.mlp.dense_4h_to_h"},
    {"decoder.final_norm", "transformer.ln_f"},
    {"head", "lm_head"},
};
constexpr TensorName kTwoNorms[] = {{"decoder.#.attention.norm_in", "transformer.h.#.ln_attn"},
                                    {"decoder.#.feed_forward.norm_in", "transformer.h.#.ln_mlp"}};
constexpr std::string_view kIgnored[] = {"h.#.self_attention.rotary_emb.inv_freq"};

}  // namespace

const Family kFalcon{.type = "falcon",
                     .architecture = "FalconForCausalLM",
                     .read = read,
                     .write = write,
                     .prefix = "transformer.",
                     .names = kNames,
                     .two_norms = kTwoNorms,
                     .copies = kLlamaCopies,
                     .ignored = kIgnored};

}  // namespace plumb
