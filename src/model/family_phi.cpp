// Phi-1, 1.5 and 2 (Gunasekar et al. 2023, 2306.11644): attention and feed-forward side by side behind one
// norm, rotary positions on half of each head, biases everywhere.
#include "model/decoder_fields.h"
#include "model/llama_names.h"

namespace plumb {
namespace {

constexpr DecoderKeys kKeys{.norm_eps = "layer_norm_eps",
                            .dropout = "resid_pdrop",
                            .embedding_dropout = "embd_pdrop",
                            .rope = RopeKeys::part};

ModelConfig read(const JsonFields& f) {
  ModelConfig c = read_decoder(f, {.type = "phi",
                                   .vocab_size = 51200,
                                   .width = 2048,
                                   .layers = 24,
                                   .heads = 32,
                                   .ffn_width = 8192,
                                   .norm = NormKind::layer_norm,
                                   .norm_eps = 1e-5,
                                   .activation = "gelu_new",
                                   .gated = false,
                                   .rope = {.fraction = 0.5},
                                   .bos_id = 1,
                                   .eos_id = 2,
                                   .keys = kKeys});
  c.head_bias = true;
  LayerConfig& l = c.layer;
  l.parallel = Parallel::one_norm;
  l.attention_bias = l.attention_output_bias = l.ffn_bias = true;
  if (f.flag("qk_layernorm", false)) l.qk_norm = QkNorm::per_head;
  return c;
}

void write(const ModelConfig& c, JsonObject j) {
  const LayerConfig l = resolved_layer(c, Side::decoder, 0);
  write_decoder(c, l, j, kKeys);
  j["qk_layernorm"] = l.qk_norm == QkNorm::per_head;
}

constexpr TensorName kNames[] = {
    {"token_embedding", "model.embed_tokens"},
    {"decoder.#.attention.norm_in", "model.layers.#.input_layernorm"},
    {"decoder.#.attention.query", "model.layers.#.self_attn.q_proj"},
    {"decoder.#.attention.key", "model.layers.#.self_attn.k_proj"},
    {"decoder.#.attention.value", "model.layers.#.self_attn.v_proj"},
    {"decoder.#.attention.query_norm", "model.layers.#.self_attn.q_layernorm"},
    {"decoder.#.attention.key_norm", "model.layers.#.self_attn.k_layernorm"},
    {"decoder.#.attention.output", "model.layers.#.self_attn.dense"},
    {"decoder.#.feed_forward.up", "model.layers.#.mlp.fc1"},
    {"decoder.#.feed_forward.down", "model.layers.#.mlp.fc2"},
    {"decoder.final_norm", "model.final_layernorm"},
    {"head", "lm_head"},
};

}  // namespace

const Family kPhi{.type = "phi",
                  .architecture = "PhiForCausalLM",
                  .read = read,
                  .write = write,
                  .prefix = "model.",
                  .names = kNames,
                  .copies = kLlamaCopies,
                  .ignored = kLlamaIgnored};

}  // namespace plumb
