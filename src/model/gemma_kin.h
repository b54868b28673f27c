// What Gemma 2 and 3 share: norms before and behind each branch, windows in some layers.
#pragma once

#include "model/decoder_fields.h"
#include "model/llama_names.h"

namespace plumb {

inline constexpr int64_t kUsualWindow = 4096;

// read_decoder and what both add; `softcap`: of the logits, where the config is silent.
ModelConfig read_gemma_kin(const JsonFields& f, const DecoderDefaults& absent, double softcap);
void write_gemma_kin(const ModelConfig& c, JsonObject j, const DecoderKeys& keys);

inline constexpr TensorName kGemmaNames[] = {
    {"token_embedding", "model.embed_tokens"},
    {"decoder.#.attention.norm_in", "model.layers.#.input_layernorm"},
    {"decoder.#.attention.norm_branch", "model.layers.#.post_attention_layernorm"},
    {"decoder.#.attention.query", "model.layers.#.self_attn.q_proj"},
    {"decoder.#.attention.key", "model.layers.#.self_attn.k_proj"},
    {"decoder.#.attention.value", "model.layers.#.self_attn.v_proj"},
    {"decoder.#.attention.query_norm", "model.layers.#.self_attn.q_norm"},
    {"decoder.#.attention.key_norm", "model.layers.#.self_attn.k_norm"},
    {"decoder.#.attention.output", "model.layers.#.self_attn.o_proj"},
    {"decoder.#.feed_forward.norm_in", "model.layers.#.pre_feedforward_layernorm"},
    {"decoder.#.feed_forward.norm_branch", "model.layers.#.post_feedforward_layernorm"},
    {"decoder.#.feed_forward.gate", "model.layers.#.mlp.gate_proj"},
    {"decoder.#.feed_forward.up", "model.layers.#.mlp.up_proj"},
    {"decoder.#.feed_forward.down", "model.layers.#.mlp.down_proj"},
    {"decoder.final_norm", "model.norm"},
    {"head", "lm_head"},
};

}  // namespace plumb
