// GPT-J (Wang and Komatsuzaki 2021): attention and feed-forward side by side behind one norm, rotary
// positions on a part of each head.
#include <fmt/format.h>

#include <cmath>

#include "model/decoder_fields.h"
#include "model/llama_names.h"
#include "plumb/error.h"

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
  ModelConfig c = read_decoder(f, {.type = "gptj",
                                   .vocab_size = 50400,
                                   .width = 4096,
                                   .layers = 28,
                                   .heads = 16,
                                   .ffn_width = 0,
                                   .norm = NormKind::layer_norm,
                                   .norm_eps = 1e-5,
                                   .activation = "gelu_new",
                                   .gated = false,
                                   .padding_row = false,
                                   .bos_id = 50256,
                                   .eos_id = 50256,
                                   .keys = kKeys});
  c.head_bias = true;
  LayerConfig& l = c.layer;
  l.parallel = Parallel::one_norm;
  l.ffn_bias = true;
  l.rope.interleaved = true;
  const int64_t rotated = f.integer("rotary_dim", 64), head = l.heads > 0 ? c.width / l.heads : 0;
  if (rotated < 2 || rotated % 2 != 0 || rotated > head) {
    throw Error(ErrorKind::config,
                fmt::format("{}: rotary_dim is {}, and has to be even and at most the {} dims of a head",
                            f.name(), rotated, head));
  }
  l.rope.fraction = static_cast<double>(rotated) / static_cast<double>(head);
  return c;
}

void write(const ModelConfig& c, JsonObject j) {
  const LayerConfig l = resolved_layer(c, Side::decoder, 0);
  write_decoder(c, l, j, kKeys);
  j["rotary_dim"] = static_cast<int64_t>(std::llround(static_cast<double>(l.head_dim) * l.rope.fraction));
}

constexpr TensorName kNames[] = {
    {"token_embedding", "transformer.wte"},
    {"decoder.#.attention.norm_in", "transformer.h.#.ln_1"},
    {"decoder.#.attention.query", "transformer.h.#.attn.q_proj"},
    {"decoder.#.attention.key", "transformer.h.#.attn.k_proj"},
    {"decoder.#.attention.value", "transformer.h.#.attn.v_proj"},
    {"decoder.#.attention.output", "transformer.h.#.attn.out_proj"},
    {"decoder.#.feed_forward.up", "transformer.h.#.mlp.fc_in"},
    {"decoder.#.feed_forward.down", "transformer.h.#.mlp.fc_out"},
    {"decoder.final_norm", "transformer.ln_f"},
    {"head", "lm_head"},
};
constexpr std::string_view kIgnored[] = {"h.#.attn.bias", "h.#.attn.masked_bias"};  // the causal mask

}  // namespace

const Family kGptJ{.type = "gptj",
                   .architecture = "GPTJForCausalLM",
                   .read = read,
                   .write = write,
                   .prefix = "transformer.",
                   .names = kNames,
                   .copies = kLlamaCopies,
                   .ignored = kIgnored};

}  // namespace plumb
