// The fields of a ModelConfig by name, each once with its help, and the names of enum values.
#pragma once

#include <array>
#include <string>

#include "plumb/config.h"
#include "plumb/config_fields.h"

namespace plumb {

template <class E>
struct EnumNames;  // names by value, as in files and flags
template <>
struct EnumNames<Placement> {
  static constexpr std::array names{"post-norm",   "pre-norm",
                                    "deep-norm",   "sandwich",
                                    "reordered",   "re-zero",
                                    "layer-scale", "layer-norm-scaling",
                                    "sub-ln",      "plain",
                                    "mix-ln",      "normformer",
                                    "admin",       "fixup",
                                    "t-fixup",     "resi-dual",
                                    "ngpt",        "hyper-connections",
                                    "mhc"};
};
template <>
struct EnumNames<NormKind> {
  static constexpr std::array names{"none",       "layer-norm", "rms-norm", "batch-norm",
                                    "scale-norm", "dyt",        "shift"};
};
template <>
struct EnumNames<GateKind> {
  static constexpr std::array names{"constant", "scalar", "vector"};
};
template <>
struct EnumNames<Mixing> {
  static constexpr std::array names{"none", "free", "doubly-stochastic"};
};
template <>
struct EnumNames<QkNorm> {
  static constexpr std::array names{"none", "per-head", "whole", "own-gains"};
};
template <>
struct EnumNames<Parallel> {
  static constexpr std::array names{"no", "one-norm", "two-norms"};
};
template <>
struct EnumNames<Positions> {
  static constexpr std::array names{"none", "learned", "sinusoidal", "rope", "alibi"};
};
template <>
struct EnumNames<Router> {
  static constexpr std::array names{"softmax", "sigmoid"};
};
template <>
struct EnumNames<RouterGroup> {
  static constexpr std::array names{"best", "best-two"};
};
template <>
struct EnumNames<RopeScaling> {
  static constexpr std::array names{"none", "linear", "dynamic", "yarn", "longrope", "llama3"};
};
template <>
struct EnumNames<Reparam> {
  static constexpr std::array names{"none", "sigma"};
};
template <>
struct EnumNames<Init> {
  static constexpr std::array names{"normal", "scaled-normal", "xavier", "small"};
};
template <>
struct EnumNames<Head> {
  static constexpr std::array names{"none", "language-model", "sequence-classification",
                                    "token-classification", "question-answering"};
};
template <>
struct EnumNames<Problem> {
  static constexpr std::array names{"by-targets", "single-label", "multi-label", "regression"};
};
template <>
struct EnumNames<Activation> {
  static constexpr std::array names{"relu", "gelu", "gelu-tanh", "silu", "relu-squared", "gelu-sigmoid"};
};

template <class E>
std::string enum_name(E value) {
  return EnumNames<E>::names[static_cast<size_t>(value)];
}

// Each of these lists every field once: visitor(name, field, help). Names are snake_case in config.json,
// dashed as flags.
template <class Config, class Visitor>
void visit_rope(Config& c, Visitor&& v) {
  v("rope_base", c.base, "base of the rotary frequencies");
  v("rope_fraction", c.fraction, "part of a head that is rotated");
  v("rope_interleaved", c.interleaved, "rotate neighbours instead of halves");
  v("rope_scaling", c.scaling, "how rotary frequencies are changed for longer texts");
  v("rope_factor", c.factor, "how many times longer those are");
  v("rope_original_length", c.original_length, "length before (0: max_length)");
  v("rope_low_frequency", c.low_frequency, "llama3: turns below which a frequency is divided");
  v("rope_high_frequency", c.high_frequency, "llama3: turns above which a frequency is kept");
  v("rope_beta_fast", c.beta_fast, "yarn: turns above which a frequency is kept");
  v("rope_beta_slow", c.beta_slow, "yarn: turns below which a frequency is divided");
  v("rope_truncate", c.truncate, "yarn: these bounds are whole pairs");
  v("rope_attention_factor", c.attention_factor, "yarn, longrope: factor on cos and sin (0: derived)");
  v("rope_mscale", c.mscale, "yarn: DeepSeek's factor on cos and sin (0: none)");
  v("rope_mscale_all", c.mscale_all, "yarn: DeepSeek's factor on the attention's scale (0: none)");
  v("rope_short_factors", c.short_factors, "longrope: by frequency, up to the original length");
  v("rope_long_factors", c.long_factors, "longrope: by frequency, beyond it");
  v("rope_query_growth", c.query_growth, "growth of queries beyond the original length");
}

template <class Config, class Visitor>
void visit_attention(Config& c, Visitor&& v) {
  v("heads", c.heads, "query heads");
  v("kv_heads", c.kv_heads, "key/value heads (0: as many as heads)");
  v("head_dim", c.head_dim, "width of a head (0: width / heads)");
  v("window", c.window, "newest keys a query sees, itself included (0: all)");
  v("rotary", c.rotary, "use rotary positions in this layer");
  visit_rope(c.rope, v);
  v("qk_norm", c.qk_norm, "norm on queries and keys");
  v("qk_norm_late", c.qk_norm_late, "that norm comes after the rotation");
  v("qkv_fused", c.qkv_fused, "one matrix for queries, keys and values");
  v("attention_bias", c.attention_bias, "biases on the query, key and value projections");
  v("attention_output_bias", c.attention_output_bias, "bias on the attention's output projection");
  v("attention_scale", c.attention_scale, "factor on attention logits (0: 1/sqrt(head_dim))");
  v("attention_softcap", c.attention_softcap, "bound on attention logits, by tanh (0: none)");
  v("attention_sinks", c.attention_sinks, "a learned logit of each head that attends to nothing");
  v("qkv_limit", c.qkv_limit, "bound that queries, keys and values are clamped to (0: none)");
  v("kv_rank", c.kv_rank, "width of the latent that keys and values come from (0: none)");
  v("q_rank", c.q_rank, "width of the latent that queries come from (0: none)");
  v("rope_dim", c.rope_dim, "latent attention: dims of a head that are rotated");
  v("value_dim", c.value_dim, "width of a head's values (0: head_dim)");
}

template <class Config, class Visitor>
void visit_feed_forward(Config& c, Visitor&& v) {
  v("ffn_width", c.ffn_width, "hidden width of the feed-forward (0: 4 width, gated: 8/3 width)");
  v("activation", c.activation, "activation of the feed-forward");
  v("gated", c.gated, "gated feed-forward: act(gate) * up");
  v("gate_up_fused", c.gate_up_fused, "one matrix for gate and up");
  v("ffn_bias", c.ffn_bias, "biases in the feed-forward");
  v("ffn_limit", c.ffn_limit, "bound that gate and up are clamped to (0: none)");
  v("up_offset", c.up_offset, "added to up");
  v("experts", c.experts, "experts (0: a dense feed-forward)");
  v("experts_per_token", c.experts_per_token, "experts that a token is sent to");
  v("shared_experts", c.shared_experts, "experts that every token is sent to");
  v("shared_width", c.shared_width, "hidden width of each of those (0: ffn_width)");
  v("shared_gate", c.shared_gate, "a learned gate on their output");
  v("router", c.router, "how router logits become weights");
  v("router_normalize", c.router_normalize, "weights of the chosen experts sum to 1");
  v("router_bias", c.router_bias, "a bias on router logits");
  v("router_correction", c.router_correction, "an untrained bias on scores, for the choice alone");
  v("router_scale", c.router_scale, "factor on the chosen experts' weights");
  v("router_groups", c.router_groups, "groups of experts");
  v("router_top_groups", c.router_top_groups, "groups that experts are chosen from");
  v("router_group_by", c.router_group_by, "what a group is chosen by: its best expert's score or best two's");
}

template <class Config, class Visitor>
void visit_layer(Config& c, Visitor&& v) {
  v("placement", c.placement, "where the norms stand: the sub-layer formula by name");
  v("parallel", c.parallel, "attention and feed-forward side by side on one stream");
  v("norm_in", c.norm_in, "a norm before the branch");
  v("norm_inner", c.norm_inner, "a norm inside the branch, before its output projection");
  v("norm_branch", c.norm_branch, "a norm on the branch's output");
  v("norm_out", c.norm_out, "a norm after the add");
  v("alpha", c.alpha, "factor on the residual stream");
  v("s", c.s, "factor on the branch's input");
  v("gate_value", c.gate_value, "factor on the branch, or its value at init where it is learned");
  v("gate", c.gate, "whether the factor on the branch is constant, a learned scalar or a learned vector");
  v("shortcut", c.shortcut, "whether alpha is constant, a learned scalar or a learned vector");
  v("head_scale", c.head_scale, "a learned factor on each head before the output projection");
  v("dual", c.dual, "factor on the branches in a second stream that sums them (0: no such stream)");
  v("mixing", c.mixing,
    "maps between several residual streams: free (hyper-connections) or doubly-stochastic (mHC)");
  v("streams", c.streams, "residual streams, where mixing says that there are several");
  v("norm", c.norm, "kind of norm");
  v("norm_eps", c.norm_eps, "epsilon inside the norm's root");
  v("norm_affine", c.norm_affine, "norms have a gain");
  v("norm_bias", c.norm_bias, "norms have a bias");
  v("norm_unit_offset", c.norm_unit_offset, "the stored gain is w where 1 + w is meant");
  v("reparam", c.reparam,
    "sigma: matrices W of the branches stand for gamma W / sigma(W), their spectral norm");
  visit_attention(c, v);
  visit_feed_forward(c, v);
}

template <class Config, class Visitor>
void visit(Config& c, Visitor&& v) {
  v("model_type", c.model_type, "family whose file layout the model has");
  v("vocab_size", c.vocab_size, "tokens (0: the tokenizer's)");
  v("width", c.width, "width of the residual stream");
  v("max_length", c.max_length, "longest sequence");
  v("encoder_layers", c.encoder_layers, "layers of the encoder (0: none)");
  v("decoder_layers", c.decoder_layers, "layers of the decoder (0: none)");
  visit_layer(c.layer, v);
  v("positions", c.positions, "how positions enter");
  v("alibi_max", c.alibi_max, "ALiBi slopes are 2^(-this i / heads)");
  v("alibi_scaled", c.alibi_scaled, "ALiBi is scaled as attention logits are");
  v("position_offset", c.position_offset, "rows of a learned table before the first position's");
  v("sinusoidal_split", c.sinusoidal_split, "sines first, then cosines");
  v("token_types", c.token_types, "rows of the token-type table (0: none)");
  v("embedding_width", c.embedding_width, "width of token tables (0: width)");
  v("embedding_scale", c.embedding_scale, "factor on token embeddings");
  v("embedding_norm", c.embedding_norm, "a norm after the embeddings");
  v("final_norm", c.final_norm, "a norm after the last layer (unset: where the layers do not end in one)");
  v("shared_embeddings", c.shared_embeddings, "encoder and decoder share their token table");
  v("tied_embeddings", c.tied_embeddings, "the head is the token table");
  v("head", c.head, "what the last hidden state is turned into");
  v("labels", c.labels, "names of the classes");
  v("problem", c.problem, "what is told of a sequence: one class, several, or numbers");
  v("logits_scale", c.logits_scale, "factor on the logits");
  v("logits_softcap", c.logits_softcap, "bound on the logits, by tanh (0: none)");
  v("head_bias", c.head_bias, "bias on the logits");
  v("head_transform", c.head_transform, "dense, activation and norm before the head");
  v("logits_bias", c.logits_bias, "an untrained bias on the logits");
  v("linear_in_out", c.linear_in_out, "matrices are stored (in, out)");
  v("dropout", c.dropout, "dropout on every branch before the add");
  v("attention_dropout", c.attention_dropout, "dropout on attention weights");
  v("embedding_dropout", c.embedding_dropout, "dropout on embeddings");
  v("head_dropout", c.head_dropout, "dropout on what a head over classes reads");
  v("init", c.init, "how matrices are drawn (unset: what the placement says)");
  v("init_std", c.init_std, "standard deviation of the normal init");
  v("unit_embeddings", c.unit_embeddings, "token vectors are kept at length 1 (FixNorm)");
  v("base_layers", c.base_layers, "depth of the model that learning rates were found on (0: this one's)");
  v("base_width", c.base_width, "width of the model that learning rates were found on (0: this one's)");
  v("depth_alpha", c.depth_alpha, "branches shrink with depth to this power: 0.5 depth-muP, 1 CompleteP");
  v("router_aux", c.router_aux, "weight of the experts' load-balancing loss");
  v("router_aux_joint", c.router_aux_joint, "that loss is of all layers together, not summed over them");
  v("bos_id", c.bos_id, "id that begins a text (-1: none)");
  v("eos_ids", c.eos_ids, "ids that end a text");
  v("pad_id", c.pad_id, "padding id (-1: none)");
  v("pad_untrained", c.pad_untrained, "look-ups give the padding row no gradient");
  v("mask_id", c.mask_id, "id of a masked token (-1: none)");
  v("decoder_start_id", c.decoder_start_id, "id the decoder starts from (-1: none)");
}

}  // namespace plumb
