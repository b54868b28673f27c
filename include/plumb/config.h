// What a model is: plain data. config_fields.h lists the fields; JSON, flags and help come from it.
//
// A sub-layer is y = N_out(alpha * x + g * N_branch(F(s * N_in(x)))). A Placement names a point in that
// space; each field may be opened on its own. Letters of shapes: docs/shapes.md.
#pragma once

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
enum class QkNorm {
  none,
  per_head,  // one norm that each head is put through
  whole,     // over all heads jointly; OLMo 2
  own_gains  // each head by itself, with gains of its own; Cohere, StableLM
};
enum class Parallel { no, one_norm, two_norms };  // attention and FFN read one stream, one add; GPT-J, NeoX
enum class Positions { none, learned, sinusoidal, rope, alibi };
enum class Router { softmax, sigmoid };
// What a group of experts is chosen by: the score of its best one (DeepSeek-V2), or of its best two
// (DeepSeek-V3).
enum class RouterGroup { best, best_two };
// How rotary frequencies are changed so that a model reads longer texts than it was trained on.
enum class RopeScaling {
  none,
  linear,    // positions / factor; Chen 2023, 2306.15595
  dynamic,   // a base that grows with the length of the sequence; NTK-aware
  yarn,      // by frequency, and a factor on the attention; Peng 2023, 2309.00071
  longrope,  // a factor for each frequency; Ding 2024, 2402.13753
  llama3     // by frequency: low ones / factor; Llama 3.1, 2407.21783
};
enum class Reparam { none, sigma };  // sigma: a matrix W stands for gamma W / sigma(W); Zhai 2023, 2303.06296
// scaled: output projections / sqrt(2 L), as GPT-2; small: N(0, sqrt(2 / (5 C))), SmallInit of 1910.05895.
enum class Init { normal, scaled_normal, xavier, small };
// The sub-layers of a layer: the formula of one may differ from another's.
enum class SublayerPart { attention, cross_attention, feed_forward };
enum class Head {
  none,
  language_model,  // of an encoder, that means masked tokens
  sequence_classification,
  token_classification,
  question_answering,  // of each token, how likely an answer starts there, and ends there
};
// What is told of a sequence: one class, any number of classes, or numbers. by_targets: what it is trained on
// says it.
enum class Problem { by_targets, single_label, multi_label, regression };

// Rotary positions: pair i of a head's dims turns by position * frequency i; Su 2021, 2104.09864.
struct RopeConfig {
  double base = 10000;
  double fraction = 1;       // of head_dim that is rotated
  bool interleaved = false;  // neighbours are a pair; otherwise halves
  RopeScaling scaling = RopeScaling::none;
  double factor = 1;                             // how many times longer
  int64_t original_length = 0;                   // of the texts of its training; 0: max_length
  double low_frequency = 1, high_frequency = 4;  // llama3: turns within original_length that bound the change
  double beta_fast = 32, beta_slow = 1;          // yarn: the same
  bool truncate = true;                          // yarn: these bounds are whole pairs
  double attention_factor = 0;                   // yarn, longrope: on cos and sin; 0: as the paper derives it
  double mscale = 0, mscale_all = 0;             // yarn, as DeepSeek has it; 0: none
  std::vector<double> short_factors, long_factors;  // longrope: up to original_length, and beyond
  double query_growth = 0;  // queries times 1 + this log(1 + floor(position / original_length)); Ministral 3
  bool operator==(const RopeConfig&) const = default;
};

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
  RopeConfig rope;
  QkNorm qk_norm = QkNorm::none;
  bool qk_norm_late = false;  // after the rotation; Hunyuan
  bool qkv_fused = false;     // one (out, in) matrix for Q, K, V in this order
  bool attention_bias = false;
  bool attention_output_bias = false;
  double attention_scale = 0;    // 0: 1/sqrt(head_dim)
  double attention_softcap = 0;  // logits become cap tanh(logits / cap); 0: none. Gemma 2, 2408.00118
  bool attention_sinks = false;  // a learned logit of each head that takes a share and gives nothing; GPT-OSS
  double qkv_limit = 0;          // queries, keys and values are clamped to +-limit; 0: none. MPT, OLMo
  // Latent attention (DeepSeek-V2, 2405.04434): keys and values come from a latent of kv_rank (0: there is
  // none), queries from one of q_rank (0: from the stream). Of head_dim, rope_dim dims are rotated, whose key
  // the heads share.
  int64_t kv_rank = 0, q_rank = 0, rope_dim = 0;
  int64_t value_dim = 0;  // width of a head's values; 0: head_dim

  int64_t ffn_width = 0;  // 0: 4 width, or 8/3 width rounded up to 64 where gated
  Activation activation = Activation::silu;
  bool gated = true;
  bool gate_up_fused = false;  // one (out, in) matrix for gate and up in this order
  bool ffn_bias = false;
  double ffn_limit = 0;  // gate is clamped to at most it, up to +-it; 0: none. GPT-OSS
  double up_offset = 0;  // added to up; GPT-OSS

  int64_t experts = 0;  // 0: a dense feed-forward
  int64_t experts_per_token = 2;
  int64_t shared_experts = 0;
  int64_t shared_width = 0;  // hidden width of each of these; 0: ffn_width
  bool shared_gate = false;  // their output times sigmoid(w x); Qwen1.5-MoE
  Router router = Router::softmax;
  bool router_normalize = true;    // weights of the chosen experts sum to 1
  bool router_bias = false;        // on the logits; GPT-OSS
  bool router_correction = false;  // an untrained bias on the scores, for the choice alone; 2408.15664
  double router_scale = 1;         // on the weights
  // Experts are chosen from the best router_top_groups of router_groups groups.
  int64_t router_groups = 1, router_top_groups = 1;
  RouterGroup router_group_by = RouterGroup::best;

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
  double alibi_max = 8;           // slopes are 2^(-alibi_max i / H)
  bool alibi_scaled = false;      // slopes in bf16, times the attention's scale; Falcon
  int64_t position_offset = 0;    // rows of a learned table before the first position's; OPT, RoBERTa
  bool sinusoidal_split = false;  // sines first, then cosines (Marian), instead of alternating
  int64_t token_types = 0;
  int64_t embedding_width = 0;  // of token tables, with maps to the width and back; 0: width. OPT, ALBERT
  double embedding_scale = 1;
  bool embedding_norm = false;
  std::optional<bool> final_norm;  // unset: where the last layer does not end in a norm
  bool shared_embeddings = true;   // encoder and decoder read one table
  bool tied_embeddings = true;     // the head is the embedding
  Head head = Head::language_model;
  std::vector<std::string> labels;  // names of the classes, of a head that tells them
  Problem problem = Problem::by_targets;
  bool head_bias = false;
  double logits_scale = 1;
  double logits_softcap = 0;    // as attention_softcap
  bool head_transform = false;  // dense, activation, norm before the head (BERT)
  bool logits_bias = false;     // a bias that is a buffer and does not train (Marian)
  bool linear_in_out = false;   // matrices are stored (in, out), as GPT-2's

  double dropout = 0;            // on every branch before it is added
  double attention_dropout = 0;  // on attention weights
  double embedding_dropout = 0;
  double head_dropout = 0;   // on what a head over classes reads
  std::optional<Init> init;  // unset: what the placement says
  double init_std = 0.02;
  bool unit_embeddings = false;  // token vectors are kept at length 1 (FixNorm, 1910.05895)
  // Hyperparameters that carry over from a model of base_layers and base_width (0: this model's): depth-muP
  // (2310.02244) at depth_alpha 1/2, CompleteP (2505.01618) at 1. See scales_of().
  int64_t base_layers = 0, base_width = 0;
  double depth_alpha = 1;
  double router_aux = 0.01;       // weight of the load-balancing loss
  bool router_aux_joint = false;  // of all layers' tokens together; otherwise summed over layers

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

// The layer's own config: the run that covers it, or the default.
const LayerConfig& layer_config(const ModelConfig& config, Side side, int64_t index);

// A copy with derived zeros filled in: kv_heads, head_dim, value_dim, ffn_width, shared_width and rope's
// original_length.
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
