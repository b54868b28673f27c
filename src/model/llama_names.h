// The names of tensors in LLaMA's files, which many families share.
#pragma once

#include "model/families.h"

namespace plumb {

inline constexpr TensorName kLlamaNames[] = {
    {"token_embedding", "model.embed_tokens"},
    {"decoder.#.attention.norm_in", "model.layers.#.input_layernorm"},
    {"decoder.#.attention.norm_branch", "model.layers.#.post_attention_layernorm"},
    {"decoder.#.attention.query", "model.layers.#.self_attn.q_proj"},
    {"decoder.#.attention.key", "model.layers.#.self_attn.k_proj"},
    {"decoder.#.attention.value", "model.layers.#.self_attn.v_proj"},
    {"decoder.#.attention.qkv", "model.layers.#.self_attn.qkv_proj"},
    {"decoder.#.attention.query_norm", "model.layers.#.self_attn.q_norm"},
    {"decoder.#.attention.key_norm", "model.layers.#.self_attn.k_norm"},
    {"decoder.#.attention.output", "model.layers.#.self_attn.o_proj"},
    {"decoder.#.feed_forward.norm_in", "model.layers.#.post_attention_layernorm"},
    {"decoder.#.feed_forward.norm_branch", "model.layers.#.post_feedforward_layernorm"},
    {"decoder.#.feed_forward.gate", "model.layers.#.mlp.gate_proj"},
    {"decoder.#.feed_forward.up", "model.layers.#.mlp.up_proj"},
    {"decoder.#.feed_forward.gate_up", "model.layers.#.mlp.gate_up_proj"},
    {"decoder.#.feed_forward.down", "model.layers.#.mlp.down_proj"},
    {"decoder.final_norm", "model.norm"},
    {"head", "lm_head"},
};
inline constexpr TensorName kLlamaCopies[] = {{"token_embedding.weight", "lm_head.weight"}};
inline constexpr std::string_view kLlamaIgnored[] = {"layers.#.self_attn.rotary_emb.inv_freq"};

}  // namespace plumb
