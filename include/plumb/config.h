// What a model is: plain data. One visit lists the fields; JSON, flags, help, equality and validation come
// from it.
//
// A sub-layer is y = N_out(alpha * x + g * N_branch(F(s * N_in(x)))). A Placement names a point in that
// space; each field may be opened on its own. Letters of shapes: docs/shapes.md.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plumb/activation.h"

namespace plumb {

enum class Placement {
  post_norm,           // N_out; Vaswani 2017, 1706.03762
  pre_norm,            // N_in; Xiong 2020, 2002.04745
  deep_norm,           // N_out with alpha by depth; Wang 2022, 2203.00555
  sandwich,            // N_in and N_branch; Gemma 2 and 3, Peri-LN 2502.02732
  reordered,           // N_branch; OLMo 2, 2501.00656
  re_zero,             // no norm, learned scalar g = 0 at init; Bachlechner 2020, 2003.04887
  layer_scale,         // N_in, learned vector g, small at init; Touvron 2021, 2103.17239
  layer_norm_scaling,  // N_in scaled by 1/sqrt(layer); Sun 2025, 2502.05795
  sub_ln,              // N_in and a norm before the output projection; Wang 2022, 2210.06423
  plain,               // N_in, no shortcut (alpha 0): the experiment that shows why residuals exist
  mix_ln,              // post-norm in the first quarter of the layers, pre-norm above; Li 2024, 2412.13795
  normformer,  // N_in; attention: scaled heads and N_branch, feed-forward: an inner norm; Shleifer 2021,
               // 2110.09456
  admin,       // N_out, alpha a learned vector that starts as a profiling pass says; Liu 2020, 2004.08249
  fixup,       // shifts in place of norms, branches that start at 0; Zhang 2019, 1901.09321
  t_fixup,     // neither norm nor gate: init alone; Huang 2020, ICML
  resi_dual,   // N_out, and a second stream that sums the branches; Xie 2023, 2304.14802
  ngpt,        // N_out(x + g (N_branch - x)), all vectors of length 1: nGPT; Loshchilov 2024, 2410.01131
  hyper_connections,  // N_in, and learned maps between several streams; Zhu 2024, 2409.19606
  mhc,                // the same, the streams' own map kept doubly stochastic; Xie 2025, 2512.24880
};

enum class NormKind {
  none,
  layer_norm,  // Ba 2016, 1607.06450
  rms_norm,    // Zhang and Sennrich 2019, 1910.07467
  batch_norm,  // over batch and time, for contrast; Ioffe and Szegedy 2015, 1502.03167
  scale_norm,  // g x / |x|; Nguyen and Salazar 2019, 1910.05895
  dyt,         // gamma tanh(alpha x) + beta; Zhu 2025, 2503.10622
  shift,       // x + b, b one number: what Fixup has where norms stood; Zhang 2019, 1901.09321
};

enum class GateKind { constant, scalar, vector };  // what g is
// How the streams of a layer, where it has several, are read by a branch and mixed: by free maps
// (hyper-connections), or by positive ones of which the streams' own is doubly stochastic (mHC).
enum class Mixing { none, free, doubly_stochastic };
enum class QkNorm { none, per_head, whole };      // whole: over all heads jointly, as OLMo 2
enum class Parallel { no, one_norm, two_norms };  // attention and FFN read one stream, one add; GPT-J, NeoX
enum class Positions { none, learned, sinusoidal, rope, alibi };
enum class Router { softmax, sigmoid };
enum class Reparam { none, sigma };  // sigma: a matrix W stands for gamma W / sigma(W); Zhai 2023, 2303.06296
// scaled: output projections / sqrt(2 L), as GPT-2; small: N(0, sqrt(2 / (5 C))), SmallInit of 1910.05895.
enum class Init { normal, scaled_normal, xavier, small };
// The sub-layers of a layer: the formula of one may differ from another's.
enum class SublayerPart { attention, cross_attention, feed_forward };
enum class Head { none, language_model };  // of an encoder, language_model means masked tokens

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
  static constexpr std::array names{"none", "per-head", "whole"};
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
struct EnumNames<Reparam> {
  static constexpr std::array names{"none", "sigma"};
};
template <>
struct EnumNames<Init> {
  static constexpr std::array names{"normal", "scaled-normal", "xavier", "small"};
};
template <>
struct EnumNames<Head> {
  static constexpr std::array names{"none", "language-model"};
};
template <>
struct EnumNames<Activation> {
  static constexpr std::array names{"relu", "gelu", "gelu-tanh", "silu"};
};

template <class E>
std::string enum_name(E value) {
  return EnumNames<E>::names[static_cast<size_t>(value)];
}

// What may differ from layer to layer. 0 means "derived", where it says so.
struct LayerConfig {
  Placement placement = Placement::pre_norm;
  Parallel parallel = Parallel::no;
  // The formula's fields; unset: what the placement says at this depth.
  std::optional<bool> norm_in, norm_inner, norm_branch, norm_out;
  std::optional<double> alpha, s, gate_value;  // gate_value: g, or its value at init where it is learned
  std::optional<GateKind> gate;
  std::optional<GateKind> shortcut;  // what alpha is: constant, or learned from the value it has
  std::optional<bool> head_scale;    // a learned factor on each head, before the output projection
  std::optional<double> dual;        // factor on the branches in a second stream; 0: there is none
  std::optional<Mixing> mixing;      // maps between several streams
  int64_t streams = 4;               // how many there are where mixing is not none

  NormKind norm = NormKind::rms_norm;
  double norm_eps = 1e-5;
  bool norm_affine = true;
  bool norm_bias = false;
  bool norm_unit_offset = false;  // the stored gain is w where 1 + w is meant (Gemma)

  Reparam reparam = Reparam::none;  // of the matrices of attention and feed-forward

  int64_t heads = 4;
  int64_t kv_heads = 0;  // 0: as many as heads
  int64_t head_dim = 0;  // 0: width / heads
  int64_t window = 0;    // newest keys a query sees, itself included; 0: all
  bool rotary = true;    // whether a model with rotary positions uses them in this layer
  QkNorm qk_norm = QkNorm::none;
  bool qkv_fused = false;  // one (out, in) matrix for Q, K, V in this order
  bool attention_bias = false;
  bool attention_output_bias = false;
  double attention_scale = 0;  // 0: 1/sqrt(head_dim)

  int64_t ffn_width = 0;  // 0: 4 width, or 8/3 width rounded up to 64 where gated
  Activation activation = Activation::silu;
  bool gated = true;
  bool ffn_bias = false;

  int64_t experts = 0;  // 0: a dense feed-forward
  int64_t experts_per_token = 2;
  int64_t shared_experts = 0;
  Router router = Router::softmax;
  bool router_normalize = true;  // weights of the chosen experts sum to 1

  bool operator==(const LayerConfig&) const = default;
};

// Layers first .. first + count - 1 of a stack are as `layer` says instead of as the model's default.
struct LayerRun {
  int64_t first = 0;
  int64_t count = 0;
  LayerConfig layer;
  bool operator==(const LayerRun&) const = default;
};

enum class Side { encoder, decoder };

struct ModelConfig {
  std::string model_type = "plumbline";  // the family whose files these are
  int64_t vocab_size = 0;
  int64_t width = 128;
  int64_t max_length = 1024;  // positions a learned or sinusoidal table has; a bound for all
  int64_t encoder_layers = 0;
  int64_t decoder_layers = 4;

  LayerConfig layer;  // every layer, unless a run says otherwise
  std::vector<LayerRun> encoder_runs, decoder_runs;

  Positions positions = Positions::rope;
  double rope_base = 10000;
  double rope_factor = 1;    // positions are divided by it: linear scaling (Chen 2023, 2306.15595)
  double rope_fraction = 1;  // of head_dim that is rotated
  bool rope_interleaved = false;
  bool sinusoidal_split = false;  // sines first, then cosines (Marian), instead of alternating
  int64_t token_types = 0;
  double embedding_scale = 1;
  bool embedding_norm = false;
  std::optional<bool> final_norm;  // unset: where the last layer does not end in a norm
  bool shared_embeddings = true;   // encoder and decoder read one table
  bool tied_embeddings = true;     // the head is the embedding
  Head head = Head::language_model;
  bool head_bias = false;
  bool head_transform = false;  // dense, activation, norm before the head (BERT)
  bool logits_bias = false;     // a bias that is a buffer and does not train (Marian)
  bool linear_in_out = false;   // matrices are stored (in, out), as GPT-2's

  double dropout = 0;            // on every branch before it is added
  double attention_dropout = 0;  // on attention weights
  double embedding_dropout = 0;
  std::optional<Init> init;  // unset: what the placement says
  double init_std = 0.02;
  bool unit_embeddings = false;  // token vectors are kept at length 1 (FixNorm, 1910.05895)
  // Hyperparameters that carry over from a model of base_layers and base_width (0: this model's): depth-muP
  // (2310.02244) at depth_alpha 1/2, CompleteP (2505.01618) at 1. See scales_of().
  int64_t base_layers = 0, base_width = 0;
  double depth_alpha = 1;
  double router_aux = 0.01;  // weight of the load-balancing loss

  int64_t bos_id = -1;
  std::vector<int64_t> eos_ids;
  int64_t pad_id = -1;
  bool pad_untrained =
      false;  // look-ups give the padding row no gradient (BERT, LLaMA files with a padding index)
  int64_t mask_id = -1;
  int64_t decoder_start_id = -1;

  bool has_encoder() const { return encoder_layers > 0; }
  bool has_decoder() const { return decoder_layers > 0; }
  bool operator==(const ModelConfig&) const = default;
};

// Lists every field once: visitor(name, field, help). Names are snake_case in config.json, dashed as flags.
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
  v("heads", c.heads, "query heads");
  v("kv_heads", c.kv_heads, "key/value heads (0: as many as heads)");
  v("head_dim", c.head_dim, "width of a head (0: width / heads)");
  v("window", c.window, "newest keys a query sees, itself included (0: all)");
  v("rotary", c.rotary, "use rotary positions in this layer");
  v("qk_norm", c.qk_norm, "norm on queries and keys");
  v("qkv_fused", c.qkv_fused, "one matrix for queries, keys and values");
  v("attention_bias", c.attention_bias, "biases on the query, key and value projections");
  v("attention_output_bias", c.attention_output_bias, "bias on the attention's output projection");
  v("attention_scale", c.attention_scale, "factor on attention logits (0: 1/sqrt(head_dim))");
  v("ffn_width", c.ffn_width, "hidden width of the feed-forward (0: 4 width, gated: 8/3 width)");
  v("activation", c.activation, "activation of the feed-forward");
  v("gated", c.gated, "gated feed-forward: act(gate) * up");
  v("ffn_bias", c.ffn_bias, "biases in the feed-forward");
  v("experts", c.experts, "experts (0: a dense feed-forward)");
  v("experts_per_token", c.experts_per_token, "experts that a token is sent to");
  v("shared_experts", c.shared_experts, "experts that every token is sent to");
  v("router", c.router, "how router logits become weights");
  v("router_normalize", c.router_normalize, "weights of the chosen experts sum to 1");
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
  v("rope_base", c.rope_base, "base of the rotary frequencies");
  v("rope_factor", c.rope_factor, "rotary positions are divided by this (linear scaling)");
  v("rope_fraction", c.rope_fraction, "part of a head that is rotated");
  v("rope_interleaved", c.rope_interleaved, "rotate neighbours instead of halves");
  v("sinusoidal_split", c.sinusoidal_split, "sines first, then cosines");
  v("token_types", c.token_types, "rows of the token-type table (0: none)");
  v("embedding_scale", c.embedding_scale, "factor on token embeddings");
  v("embedding_norm", c.embedding_norm, "a norm after the embeddings");
  v("final_norm", c.final_norm, "a norm after the last layer (unset: where the layers do not end in one)");
  v("shared_embeddings", c.shared_embeddings, "encoder and decoder share their token table");
  v("tied_embeddings", c.tied_embeddings, "the head is the token table");
  v("head", c.head, "what the last hidden state is turned into");
  v("head_bias", c.head_bias, "bias on the logits");
  v("head_transform", c.head_transform, "dense, activation and norm before the head");
  v("logits_bias", c.logits_bias, "an untrained bias on the logits");
  v("linear_in_out", c.linear_in_out, "matrices are stored (in, out)");
  v("dropout", c.dropout, "dropout on every branch before the add");
  v("attention_dropout", c.attention_dropout, "dropout on attention weights");
  v("embedding_dropout", c.embedding_dropout, "dropout on embeddings");
  v("init", c.init, "how matrices are drawn (unset: what the placement says)");
  v("init_std", c.init_std, "standard deviation of the normal init");
  v("unit_embeddings", c.unit_embeddings, "token vectors are kept at length 1 (FixNorm)");
  v("base_layers", c.base_layers, "depth of the model that learning rates were found on (0: this one's)");
  v("base_width", c.base_width, "width of the model that learning rates were found on (0: this one's)");
  v("depth_alpha", c.depth_alpha, "branches shrink with depth to this power: 0.5 depth-muP, 1 CompleteP");
  v("router_aux", c.router_aux, "weight of the experts' load-balancing loss");
  v("bos_id", c.bos_id, "id that begins a text (-1: none)");
  v("eos_ids", c.eos_ids, "ids that end a text");
  v("pad_id", c.pad_id, "padding id (-1: none)");
  v("pad_untrained", c.pad_untrained, "look-ups give the padding row no gradient");
  v("mask_id", c.mask_id, "id of a masked token (-1: none)");
  v("decoder_start_id", c.decoder_start_id, "id the decoder starts from (-1: none)");
}

// The layer's own config: the run that covers it, or the default.
const LayerConfig& layer_config(const ModelConfig& config, Side side, int64_t index);

// A copy with derived zeros filled in: kv_heads, head_dim, ffn_width.
LayerConfig resolved_layer(const ModelConfig& config, Side side, int64_t index);

// The formula of one sub-layer with its values at this depth.
struct SublayerFormula {
  bool norm_in = false, norm_inner = false, norm_branch = false, norm_out = false;
  double alpha = 1, s = 1;
  GateKind gate = GateKind::constant;
  double gate_value = 1;
  GateKind shortcut = GateKind::constant;  // else alpha is learned, and this is where it starts
  bool profiled = false;                   // alpha starts as a profiling pass says (Admin)
  bool head_scale = false;
  double dual = 0;               // r' = r + dual g F(...): the second stream of ResiDual; 0: there is none
  Mixing mixing = Mixing::none;  // x' = H_res x + H_post g F(H_pre x) between `streams` streams
  int64_t streams = 1;
  Reparam reparam = Reparam::none;
  // nGPT: alpha is 1 - g and g is |g|, column by column, and what meets is of length 1: the stream, branches,
  // queries and keys, matrices along the width of the stream. Factors s on q and k, up and gate, and logits.
  bool unit = false;
  double beta = 1;         // init gain of V, output and feed-forward matrices; Q and K keep 1
  double output_gain = 1;  // init gain, on top of that, of the last matrix of the branch

  std::string str() const;  // y = LN(0.5 x + g F(LN(x))), with this model's values
  bool operator==(const SublayerFormula&) const = default;
};
SublayerFormula sublayer_formula(const ModelConfig& config, Side side, int64_t index,
                                 SublayerPart part = SublayerPart::attention);

Init init_of(const ModelConfig& config);  // set, or what the placement says
bool has_final_norm(const ModelConfig& config, Side side);
double output_scale(const ModelConfig& config);              // on output projections at init: 1/sqrt(2L) or 1
double embedding_std(const ModelConfig& config, Side side);  // of token tables at init
double head_std(const ModelConfig& config);                  // of a head that is no token table

// What base_layers = Lb and base_width = Cb ask for, with L / Lb and C / Cb as `depth` and `width` (1 where
// unset). Branches are multiplied by depth^-alpha (a field of the formula), logits by 1 / width. Of the
// parameters of layers, matrices start with std / sqrt(width) where the init is normal, train at lr / width *
// depth^(alpha - 1) and decay at weight_decay * width; vectors train at lr * depth^(alpha - 1); Adam's eps is
// eps / width * depth^-alpha for both. 2505.01618, table 1; with alpha = 1/2 depth-muP, 2310.02244.
struct ParameterScales {
  double lr = 1, weight_decay = 1, eps = 1;
  bool operator==(const ParameterScales&) const = default;
};
ParameterScales scales_of(const ModelConfig& config, Side side, bool matrix);
double width_ratio(const ModelConfig& config);  // C / Cb, 1 where unset

// Throws Error(config) naming the first field that cannot be, what it is and what it may be.
void validate(const ModelConfig& config);

// JSON text, in plumb's own keys. Unknown keys are errors with the nearest known one.
std::string to_json(const ModelConfig& config);
ModelConfig config_from_json(const std::string& json);

}  // namespace plumb
