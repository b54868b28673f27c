// Loss and every gradient of whole models against the complex-step oracle in f64: each placement, norm,
// attention, feed-forward and kind of model, fused and plain, recomputed or not.
#include "model/transformer.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/random.h"
#include "model/oracle.h"
#include "ops/experts.h"
#include "plumb/config_fields.h"
#include "plumb/error.h"

namespace plumb {
namespace {

struct Case {
  std::string name;
  ModelConfig config;
};
void PrintTo(const Case& c, std::ostream* out) {
  *out << c.name;
}

ModelConfig tiny() {
  ModelConfig c;
  c.vocab_size = 11;
  c.width = 8;
  c.max_length = 16;
  c.decoder_layers = 2;
  c.layer.heads = 2;
  c.layer.ffn_width = 12;
  c.layer.norm_bias = true;
  c.init_std = 0.4;
  c.init = Init::normal;
  return c;
}

Case with(const std::string& name, const std::function<void(ModelConfig&)>& change) {
  Case c{name, tiny()};
  change(c.config);
  return c;
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (size_t p = 0; p < EnumNames<Placement>::names.size(); ++p) {
    all.push_back(with(std::string("placement ") + EnumNames<Placement>::names[p], [&](ModelConfig& c) {
      c.layer.placement = static_cast<Placement>(p);
      c.decoder_layers = 3;
    }));
  }
  for (size_t n = 0; n < EnumNames<NormKind>::names.size(); ++n) {
    for (const Placement p : {Placement::pre_norm, Placement::post_norm}) {
      all.push_back(with(std::string("norm ") + EnumNames<NormKind>::names[n] + " " + enum_name(p),
                         [&](ModelConfig& c) {
                           c.layer.norm = static_cast<NormKind>(n);
                           c.layer.placement = p;
                           c.layer.gate_value = 0.7;
                         }));
    }
  }
  all.push_back(with("norm unit offset", [](ModelConfig& c) { c.layer.norm_unit_offset = true; }));
  all.push_back(
      with("norm without affine", [](ModelConfig& c) { c.layer.norm_affine = c.layer.norm_bias = false; }));
  all.push_back(with("layer norm affine", [](ModelConfig& c) { c.layer.norm = NormKind::layer_norm; }));
  all.push_back(with("every field of the formula", [](ModelConfig& c) {
    c.layer.norm = NormKind::layer_norm;
    c.layer.norm_in = c.layer.norm_inner = c.layer.norm_branch = c.layer.norm_out = true;
    c.layer.alpha = 1.3;
    c.layer.s = 0.6;
    c.layer.gate = GateKind::vector;
    c.layer.gate_value = 0.4;
  }));
  all.push_back(with("learned scalar gate", [](ModelConfig& c) { c.layer.gate = GateKind::scalar; }));
  all.push_back(with("learned shortcuts, head scales, gated", [](ModelConfig& c) {
    c.layer.shortcut = GateKind::scalar;
    c.layer.alpha = 0.8;
    c.layer.head_scale = true;
    c.layer.gate = GateKind::vector;
  }));
  all.push_back(with("a second stream beside pre-norm", [](ModelConfig& c) { c.layer.dual = 0.3; }));
  all.push_back(with("CompleteP", [](ModelConfig& c) {
    c.base_layers = 1;
    c.base_width = 4;
  }));
  all.push_back(with("encoder-decoder ResiDual", [](ModelConfig& c) {
    c.encoder_layers = 1;
    c.layer.placement = Placement::resi_dual;
  }));
  for (const Mixing m : {Mixing::free, Mixing::doubly_stochastic}) {
    all.push_back(
        with("mixing " + enum_name(m) + " three streams, norms around the branch", [&](ModelConfig& c) {
          c.layer.placement = Placement::sandwich;
          c.layer.mixing = m;
          c.layer.streams = 3;
          c.layer.norm = NormKind::layer_norm;
          c.layer.s = 0.7;
          c.layer.gate_value = 0.6;
          c.linear_in_out = true;
        }));
    all.push_back(with("encoder-decoder mixing " + enum_name(m), [&](ModelConfig& c) {
      c.encoder_layers = 1;
      c.layer.mixing = m;
      c.layer.streams = 2;
    }));
  }
  for (const Parallel p : {Parallel::one_norm, Parallel::two_norms}) {
    all.push_back(with("parallel " + enum_name(p), [&](ModelConfig& c) { c.layer.parallel = p; }));
  }
  for (size_t p = 0; p < EnumNames<Positions>::names.size(); ++p) {
    all.push_back(with(std::string("positions ") + EnumNames<Positions>::names[p],
                       [&](ModelConfig& c) { c.positions = static_cast<Positions>(p); }));
  }
  for (const bool scaled : {false, true}) {
    all.push_back(
        with(scaled ? "ALiBi with other slopes, scaled" : "ALiBi with other slopes", [&](ModelConfig& c) {
          c.positions = Positions::alibi;
          c.alibi_max = 5;
          c.alibi_scaled = scaled;
        }));
  }
  for (const bool tied : {false, true}) {
    all.push_back(
        with(tied ? "narrow embeddings, tied, position offset" : "narrow embeddings", [&](ModelConfig& c) {
          c.embedding_width = 6;
          c.tied_embeddings = tied;
          c.positions = tied ? Positions::learned : Positions::rope;
          if (tied) c.position_offset = 2;
          c.layer.placement = tied ? Placement::post_norm : Placement::pre_norm;
          c.linear_in_out = !tied;
        }));
  }
  all.push_back(with("rope interleaved and partial", [](ModelConfig& c) {
    c.layer.rope.interleaved = true;
    c.layer.rope.fraction = 0.5;
    c.layer.rope.base = 100;
  }));
  all.push_back(with("rope on an odd number of dims", [](ModelConfig& c) {
    c.layer.head_dim = 6;
    c.layer.rope = {
        .base = 50, .fraction = 0.5, .scaling = RopeScaling::dynamic, .factor = 2, .original_length = 3};
  }));
  struct Scaled {
    const char* name;
    RopeConfig rope;
  };
  using enum RopeScaling;
  const Scaled scaled[] = {
      {"linear", {.base = 50, .scaling = linear, .factor = 2.5}},
      {"dynamic", {.base = 50, .scaling = dynamic, .factor = 2, .original_length = 3}},
      {"dynamic within", {.base = 50, .interleaved = true, .scaling = dynamic, .factor = 2}},
      {"yarn",
       {.base = 20, .scaling = yarn, .factor = 4, .original_length = 12, .beta_fast = 1.3, .beta_slow = .2}},
      {"yarn DeepSeek",
       {.base = 20,
        .interleaved = true,
        .scaling = yarn,
        .factor = 4,
        .original_length = 12,
        .beta_fast = 1.3,
        .beta_slow = .2,
        .truncate = false,
        .mscale = .7,
        .mscale_all = 1.2}},
      {"yarn given factor",
       {.base = 20, .scaling = yarn, .factor = 4, .attention_factor = 1.3, .query_growth = 0.6}},
      {"longrope short",
       {.scaling = longrope, .factor = 4, .short_factors = {1, 1.5, 2, 3}, .long_factors = {2, 3, 4, 5}}},
      {"longrope long",
       {.base = 30,
        .scaling = longrope,
        .factor = 4,
        .original_length = 4,
        .short_factors = {1, 1.5, 2, 3},
        .long_factors = {1.2, 3, 4, 5}}},
      {"llama3",
       {.base = 200,
        .scaling = llama3,
        .factor = 8,
        .original_length = 16,
        .low_frequency = .4,
        .high_frequency = 1.5}},
      {"growing queries", {.original_length = 2, .query_growth = 0.5}}};
  for (const Scaled& s : scaled) {
    all.push_back(with(std::string("rope ") + s.name, [&](ModelConfig& c) {
      c.layer.head_dim = 8;
      c.layer.rope = s.rope;
    }));
  }
  all.push_back(with("softcaps, sinks, limits", [](ModelConfig& c) {
    c.layer.heads = 4;
    c.layer.kv_heads = 2;
    c.layer.attention_softcap = 0.4;
    c.layer.attention_sinks = true;
    c.layer.qkv_limit = 0.8;
    c.logits_scale = 1.7;
    c.logits_softcap = 0.9;
  }));
  all.push_back(with("limits behind norms over all heads", [](ModelConfig& c) {
    c.layer.qk_norm = QkNorm::whole;
    c.layer.qkv_limit = 0.6;
    LayerRun run{.first = 1, .count = 1, .layer = c.layer};
    run.layer.qkv_fused = true;
    c.decoder_runs = {run};
  }));
  all.push_back(with("limits on a fused product, untrained bias under a cap", [](ModelConfig& c) {
    c.layer.qkv_fused = c.layer.attention_bias = c.logits_bias = true;
    c.layer.qkv_limit = 0.7;
    c.logits_softcap = 1.5;
    c.tied_embeddings = false;
  }));
  for (const bool layer_norm : {false, true}) {
    all.push_back(
        with(layer_norm ? "qk layer norm own gains fused" : "qk norm own gains late", [&](ModelConfig& c) {
          c.layer.heads = 4;
          c.layer.kv_heads = 2;
          c.layer.qk_norm = QkNorm::own_gains;
          c.layer.qk_norm_late = !layer_norm;
          c.layer.qkv_fused = layer_norm;
          if (layer_norm) c.layer.norm = NormKind::layer_norm;
        }));
  }
  all.push_back(with("qk norm late fused", [](ModelConfig& c) {
    c.layer.qk_norm = QkNorm::per_head;
    c.layer.qk_norm_late = c.layer.qkv_fused = true;
  }));
  all.push_back(with("sinusoids split", [](ModelConfig& c) {
    c.positions = Positions::sinusoidal;
    c.sinusoidal_split = true;
    c.embedding_scale = 2.5;
  }));
  all.push_back(with("multi-query, explicit head_dim, window, biases", [](ModelConfig& c) {
    c.layer.heads = 4;
    c.layer.kv_heads = 1;
    c.layer.head_dim = 6;
    c.layer.window = 3;
    c.layer.attention_bias = c.layer.attention_output_bias = c.layer.ffn_bias = true;
    c.layer.attention_scale = 0.3;
  }));
  all.push_back(with("fused grouped queries", [](ModelConfig& c) {
    c.layer.heads = 4;
    c.layer.kv_heads = 2;
    c.layer.qkv_fused = c.layer.attention_bias = true;
  }));
  for (const QkNorm q : {QkNorm::per_head, QkNorm::whole}) {
    for (const bool fused : {false, true}) {
      all.push_back(with("qk norm " + enum_name(q) + (fused ? " fused" : ""), [&](ModelConfig& c) {
        c.layer.qk_norm = q;
        c.layer.qkv_fused = fused;
      }));
    }
  }
  for (size_t a = 0; a < EnumNames<Activation>::names.size(); ++a) {
    for (const bool gated : {false, true}) {
      all.push_back(
          with(std::string("activation ") + EnumNames<Activation>::names[a] + (gated ? " gated" : ""),
               [&](ModelConfig& c) {
                 c.layer.activation = static_cast<Activation>(a);
                 c.layer.gated = gated;
                 c.layer.ffn_bias = !gated;
               }));
    }
  }
  all.push_back(with("gate and up fused, biases", [](ModelConfig& c) {
    c.layer.gate_up_fused = c.layer.ffn_bias = true;
    c.layer.norm_inner = true;
    LayerRun run{.first = 1, .count = 1, .layer = c.layer};
    run.layer.norm_inner = false;
    c.decoder_runs = {run};
  }));
  all.push_back(with("gate and up fused in out, sigma reparam", [](ModelConfig& c) {
    c.layer.gate_up_fused = c.linear_in_out = true;
    c.layer.reparam = Reparam::sigma;
  }));
  all.push_back(with("gate and up fused, nGPT, experts", [](ModelConfig& c) {
    c.layer.gate_up_fused = true;
    c.layer.placement = Placement::ngpt;
    c.layer.experts = 3;
  }));
  for (const bool fused : {false, true}) {
    all.push_back(with(fused ? "bounded gate and up fused" : "bounded gate, up moved", [&](ModelConfig& c) {
      c.layer.gate_up_fused = c.layer.ffn_bias = fused;
      c.layer.ffn_limit = 0.4;
      c.layer.up_offset = fused ? 1 : -0.3;
      c.layer.activation = Activation::gelu_sigmoid;
    }));
  }
  all.push_back(with("up moved, unbounded", [](ModelConfig& c) { c.layer.up_offset = 1; }));
  for (const Router r : {Router::softmax, Router::sigmoid}) {
    all.push_back(with("experts " + enum_name(r), [&](ModelConfig& c) {
      c.layer.experts = 4;
      c.layer.experts_per_token = 2;
      c.layer.shared_experts = 1;
      c.layer.router = r;
      c.layer.router_normalize = r == Router::sigmoid;
      c.router_aux = 0.3;
    }));
  }
  all.push_back(
      with("experts balanced together, a router's bias, a gate on wider shared ones", [](ModelConfig& c) {
        c.layer.experts = 4;
        c.layer.shared_experts = 2;
        c.layer.shared_width = 7;
        c.layer.shared_gate = c.layer.router_bias = c.layer.ffn_bias = true;
        c.router_aux = 0.3;
        c.router_aux_joint = true;
        c.decoder_layers = 3;
        LayerRun dense{.first = 1, .count = 1, .layer = c.layer};
        dense.layer.experts = dense.layer.shared_experts = 0;
        dense.layer.shared_gate = false;
        c.decoder_runs = {dense};
      }));
  for (const RouterGroup by : {RouterGroup::best, RouterGroup::best_two}) {
    all.push_back(with("latent attention, experts in groups by " + enum_name(by), [&](ModelConfig& c) {
      const bool two = by == RouterGroup::best_two;
      c.layer.heads = 3;
      c.layer.head_dim = 7;
      c.layer.kv_rank = 5;
      c.layer.q_rank = two ? 6 : 0;
      c.layer.rope_dim = 4;
      c.layer.value_dim = 6;
      c.layer.rope.interleaved = two;
      c.layer.attention_bias = c.layer.attention_output_bias = two;
      c.layer.experts = 6;
      c.layer.experts_per_token = 3;
      c.layer.router = two ? Router::sigmoid : Router::softmax;
      c.layer.router_normalize = two;
      c.layer.router_correction = two;
      c.layer.router_scale = 1.7;
      c.layer.router_groups = 3;
      c.layer.router_top_groups = 2;
      c.layer.router_group_by = by;
    }));
  }
  all.push_back(with("latent attention in an encoder", [](ModelConfig& c) {
    c.encoder_layers = 2;
    c.decoder_layers = 0;
    c.layer.kv_rank = 3;
    c.layer.rope_dim = 4;  // all of a head: no part of a key is of the latent
    c.layer.reparam = Reparam::sigma;
    c.linear_in_out = true;
  }));
  for (const bool fused : {false, true}) {
    all.push_back(with(fused ? "sigma reparam fused in out" : "sigma reparam", [&](ModelConfig& c) {
      c.layer.reparam = Reparam::sigma;
      c.layer.kv_heads = 1;
      c.layer.qkv_fused = c.linear_in_out = c.layer.attention_bias = fused;
      c.layer.gated = !fused;
    }));
  }
  all.push_back(with("sigma reparam fused post norm", [](ModelConfig& c) {
    c.layer.reparam = Reparam::sigma;
    c.layer.qkv_fused = true;
    c.layer.placement = Placement::post_norm;
  }));
  all.push_back(with("sigma reparam of experts and encoder-decoder", [](ModelConfig& c) {
    c.layer.reparam = Reparam::sigma;
    c.layer.experts = 3;
    c.encoder_layers = c.decoder_layers = 1;
  }));
  all.push_back(with("nGPT encoder-decoder, grouped, not gated, biases", [](ModelConfig& c) {
    c.layer.placement = Placement::ngpt;
    c.encoder_layers = c.decoder_layers = 1;
    c.layer.kv_heads = 1;
    c.layer.gated = false;
    c.layer.attention_bias = c.layer.ffn_bias = c.head_bias = c.logits_bias = c.linear_in_out = true;
    c.tied_embeddings = false;
    c.positions = Positions::learned;
  }));
  all.push_back(with("nGPT fused, experts, sigma reparam", [](ModelConfig& c) {
    c.layer.placement = Placement::ngpt;
    c.layer.qkv_fused = true;
    c.layer.experts = 3;
    c.layer.reparam = Reparam::sigma;
  }));
  all.push_back(with("GPT-2", [](ModelConfig& c) {
    c.linear_in_out = c.layer.qkv_fused = c.layer.attention_bias = c.layer.attention_output_bias =
        c.layer.ffn_bias = true;
    c.layer.norm = NormKind::layer_norm;
    c.layer.gated = false;
    c.layer.activation = Activation::gelu_tanh;
    c.positions = Positions::learned;
  }));
  all.push_back(with("BERT", [](ModelConfig& c) {
    c.decoder_layers = 0;
    c.encoder_layers = 2;
    c.layer.placement = Placement::post_norm;
    c.layer.norm = NormKind::layer_norm;
    c.layer.attention_bias = c.layer.attention_output_bias = c.layer.ffn_bias = true;
    c.layer.gated = false;
    c.layer.activation = Activation::gelu;
    c.positions = Positions::learned;
    c.token_types = 2;
    c.embedding_norm = c.head_transform = c.head_bias = true;
  }));
  all.push_back(with("encoder-decoder", [](ModelConfig& c) {
    c.encoder_layers = 2;
    c.layer.placement = Placement::post_norm;
    c.layer.attention_bias = true;
    c.positions = Positions::sinusoidal;
    c.logits_bias = true;
  }));
  all.push_back(with("encoder-decoder, two tables, untied, pre-norm", [](ModelConfig& c) {
    c.encoder_layers = 1;
    c.shared_embeddings = c.tied_embeddings = false;
  }));
  all.push_back(with("encoder-decoder DeepNorm with qk norm", [](ModelConfig& c) {
    c.encoder_layers = 1;
    c.layer.placement = Placement::deep_norm;
    c.layer.qk_norm = QkNorm::per_head;
  }));
  all.push_back(with("a run of other layers", [](ModelConfig& c) {
    c.decoder_layers = 3;
    LayerRun run{.first = 1, .count = 1, .layer = c.layer};
    run.layer.placement = Placement::post_norm;
    run.layer.heads = 1;
    run.layer.window = 2;
    run.layer.rotary = false;
    c.decoder_runs = {run};
  }));
  return all;
}

// No weight is trivial: uniform gains hide LN(LN(x)).
void randomize(ParameterTable& table) {
  for (const auto& p : table.all()) {
    const RandomKey key{99, random_stream(std::hash<std::string>{}(p->name))};
    for (int64_t i = 0; i < p->shape.numel(); ++i) {
      const double n = random_normal(key, i);
      float& v = p->value.f32()[i];
      if (p->role == Role::gain) v += static_cast<float>(0.3 * n);
      if (p->name.ends_with(".maps.weight")) v = static_cast<float>(0.5 * n);  // starts at 0
      if (p->role == Role::bias || p->role == Role::gate) v = static_cast<float>(0.5 * n);
      // The value and gradient of |W v| / |v| hold for any v.
      if (p->name.ends_with(".singular")) v += static_cast<float>(0.2 * n);
      if (p->role == Role::statistic &&
          (p->name == "head.logits_bias" || p->name.ends_with(".router.correction")))
        v = static_cast<float>(0.5 * n);
    }
  }
}

oracle::Batch ragged(int64_t length, uint64_t seed, int vocabulary) {
  oracle::Batch b{.batch = 2, .length = length};
  for (int64_t r = 0; r < 2; ++r) {
    for (int64_t t = 0; t < length; ++t) {
      b.ids.push_back(static_cast<int>(random_below({seed, 5}, r * length + t, vocabulary)));
      b.mask.push_back(r == 0 || t < length - 2);
    }
  }
  return b;
}

Tokens tokens_of(const oracle::Batch& b) {
  const std::vector<int32_t> ids(b.ids.begin(), b.ids.end());
  const std::vector<uint8_t> mask(b.mask.begin(), b.mask.end());
  return {.ids = Tensor::of<int32_t>({b.batch, b.length}, ids),
          .mask = Tensor::of<uint8_t>({b.batch, b.length}, mask)};
}

struct Problem {
  oracle::Batch source = ragged(4, 1, 11), text = ragged(5, 2, 11);
  std::vector<int> targets;
  explicit Problem(const ModelConfig& c) {
    if (!c.has_decoder()) text = source;
    for (size_t i = 0; i < text.ids.size(); ++i) {
      targets.push_back(text.mask[i] && i % 3 != 1 ? static_cast<int>((i * 7 + 3) % 11) : -100);
    }
  }
};

constexpr double kSmoothing = 0.1, kZ = 0.02;

template <class S>
S oracle_loss(const ModelConfig& c, const oracle::Weights<S>& w, const Problem& p) {
  oracle::Model<S> m(c, w);
  oracle::Matrix<S> memory;
  if (c.has_encoder()) memory = m.encode(p.source);
  const auto h = c.has_decoder() ? m.decode(p.text, c.has_encoder() ? &memory : nullptr, &p.source) : memory;
  return m.loss(m.logits(h), p.targets, kSmoothing, kZ);
}

struct Pass {
  double loss = 0;
  std::map<std::string, std::vector<float>> gradients;
};

Pass engine(Transformer& model, const Problem& p, const std::function<void(Context&)>& change) {
  for (const auto& q : model.parameters().all()) q->value.clear_grad();
  Tape tape;
  ops::Balance balance{.weight = model.config().router_aux};
  Context context{.tape = &tape, .training = true};
  context.balance = &balance;
  change(context);
  const ModelConfig& c = model.config();
  Tensor memory, memory_mask;
  if (c.has_encoder()) {
    memory = model.encode(context, tokens_of(p.source));
    memory_mask = tokens_of(p.source).mask;
  }
  const Tensor h = c.has_decoder()
                       ? model.decode(context, tokens_of(p.text), c.has_encoder() ? memory : Tensor(),
                                      c.has_encoder() ? memory_mask : Tensor())
                       : memory;
  const auto count = std::count_if(p.targets.begin(), p.targets.end(), [](int t) { return t >= 0; });
  const std::vector<int32_t> targets(p.targets.begin(), p.targets.end());
  const LossSums sums =
      model.loss(context, h, Tensor::of<int32_t>({static_cast<int64_t>(targets.size())}, targets),
                 {.label_smoothing = kSmoothing, .z_loss = kZ, .scale = 1.0 / static_cast<double>(count)});
  tape.backward();
  Pass pass{.loss = sums.loss / static_cast<double>(count) + c.router_aux * balance.value()};
  for (const auto& q : model.parameters().all()) {
    const Tensor g = q->value.grad();
    if (g.defined()) pass.gradients[q->name].assign(g.f32(), g.f32() + g.numel());
  }
  return pass;
}

class Gradients : public testing::TestWithParam<Case> {};

// Tolerance: f32 sums of a few hundred products of order one, relative to the tensor's largest gradient;
// where that is truly 0 (key biases), to a hundredth of the typical one. Most cases come within 5e-6; in the
// pre-norm encoder-decoder a change of the weights by 6e-8 of themselves alone moves a gradient by 1.4e-5.
// `want` by element index.
void expect_close(const std::vector<float>& got, const std::map<size_t, double>& want,
                  const std::string& what) {
  double scale = 1e-2;
  for (const float g : got) scale = std::max(scale, std::abs(static_cast<double>(g)));
  for (const auto& [i, w] : want) EXPECT_NEAR(got[i], w, 1e-4 * scale) << what << "[" << i << "]";
}

void expect_complex_step(const ModelConfig& config, const Problem& problem) {
  Transformer model(config);
  model.parameters().initialize(3);
  randomize(model.parameters());

  oracle::Weights<oracle::Dual> weights;
  for (const auto& p : model.parameters().all()) {
    weights.values[p->name].assign(p->value.f32(), p->value.f32() + p->value.numel());
  }
  const double loss = oracle_loss(config, weights, problem).real();
  // Every element of small tensors, about 10 of large ones: each element costs a forward
  // pass.
  std::map<std::string, std::map<size_t, double>> want;
  for (const auto& p : model.parameters().all()) {
    if (!p->trainable) continue;
    auto& values = weights.values[p->name];
    for (size_t i = 0; i < values.size(); i += values.size() / 10 + 1) {
      values[i] += oracle::Dual(0, 1e-30);
      want[p->name][i] = oracle_loss(config, weights, problem).imag() / 1e-30;
      values[i] = values[i].real();
    }
  }

  const auto check = [&](const char* how, const std::function<void(Context&)>& change) {
    const Pass pass = engine(model, problem, change);
    EXPECT_NEAR(pass.loss, loss, 2e-6 * std::max(1.0, std::abs(loss))) << how;
    for (const auto& [name, gradient] : want) {
      ASSERT_TRUE(pass.gradients.contains(name)) << how << ": no gradient reached " << name;
      expect_close(pass.gradients.at(name), gradient, std::string(how) + " " + name);
    }
  };
  check("fused", [](Context&) {});
  check("plain", [](Context& c) { c.plain = true; });
  check("recomputed", [](Context& c) { c.recompute = true; });
}

TEST_P(Gradients, MatchTheComplexStep) {
  expect_complex_step(GetParam().config, Problem(GetParam().config));
}

// Where LongRoPE's other frequencies begin, the keys of a cache are made again: each step equals a pass over
// the text so far, also behind another order of the rows and after going back.
TEST(Cached, LongropeFollowsTheLengthSoFar) {
  ModelConfig c = tiny();
  c.layer.head_dim = 4;
  c.layer.rope = {.base = 30,
                  .scaling = RopeScaling::longrope,
                  .factor = 4,
                  .original_length = 4,
                  .short_factors = {1, 1.5},
                  .long_factors = {1.2, 4}};
  Transformer model(c);
  model.parameters().initialize(3);
  randomize(model.parameters());
  oracle::Batch text{.batch = 2, .length = 8, .ids = {1, 5, 2, 7, 3, 9, 4, 6, 8, 2, 2, 1, 10, 3, 5, 7}};
  const auto first = [&](int64_t n) {
    std::vector<int32_t> ids;
    for (int64_t r = 0; r < 2; ++r) ids.insert(ids.end(), &text.ids[r * 8], &text.ids[r * 8] + n);
    return Tensor::of<int32_t>({2, n}, ids);
  };
  Context context;
  Cache cache = model.make_cache(2, 2);
  const auto expect_next = [&](int64_t n) {
    const Tensor got = model.decode_next(
        context, {.ids = Tensor::of<int32_t>({2, 1}, {text.ids[n], text.ids[8 + n]})}, cache);
    const Tensor want = model.decode(context, {.ids = first(n + 1)});
    for (int64_t r = 0; r < 2; ++r) {
      for (int64_t i = 0; i < c.width; ++i)
        ASSERT_NEAR(got.f32()[r * c.width + i], want.f32()[(r * (n + 1) + n) * c.width + i], 1e-5) << n;
    }
  };
  for (int64_t n = 0; n < 3; ++n) expect_next(n);
  cache.reorder({1, 0});
  std::swap_ranges(text.ids.begin(), text.ids.begin() + 8, text.ids.begin() + 8);
  for (int64_t n = 3; n < 7; ++n) expect_next(n);
  cache.truncate(3);
  for (int64_t n = 3; n < 8; ++n) expect_next(n);
}

TEST(OneToken, GradientsOfMixedStreamsMatchTheComplexStep) {
  for (const Placement p : {Placement::hyper_connections, Placement::mhc}) {
    ModelConfig c = tiny();
    c.layer.placement = p;
    Problem problem(c);
    problem.text = {.batch = 1, .length = 1, .ids = {3}, .mask = {1}};
    problem.targets = {5};
    expect_complex_step(c, problem);
  }
}

// Frozen parameters take no gradient, and the others' stay what they were: each half frozen in turn.
TEST_P(Gradients, OfTheRestStayWhenSomeAreFrozen) {
  const ModelConfig& config = GetParam().config;
  Transformer model(config);
  model.parameters().initialize(3);
  randomize(model.parameters());
  const Problem problem(config);
  const Pass all = engine(model, problem, [](Context&) {});
  for (const uint64_t half : {0, 1}) {
    for (const bool recompute : {false, true}) {
      uint64_t i = 0;
      for (const auto& p : model.parameters().all()) {
        p->trainable = p->role != Role::statistic && random_below({7, half}, i++, 2) == 0;
      }
      model.parameters().set_gradients();
      const Pass some = engine(model, problem, [&](Context& c) { c.recompute = recompute; });
      for (const auto& p : model.parameters().all()) {
        EXPECT_EQ(some.gradients.contains(p->name), p->trainable) << p->name;
        if (!p->trainable) continue;
        // Sums may be taken in another order: to rounding.
        const auto &got = some.gradients.at(p->name), &want = all.gradients.at(p->name);
        std::map<size_t, double> by_index;
        for (size_t k = 0; k < want.size(); ++k) by_index[k] = want[k];
        expect_close(got, by_index, p->name);
      }
    }
  }
}

// bf16 products round operands to 8 bits: gradients agree in direction, cosine above 0.99.
TEST_P(Gradients, InBf16PointTheSameWay) {
  const ModelConfig& config = GetParam().config;
  Transformer model(config);
  model.parameters().initialize(3);
  randomize(model.parameters());
  const Problem problem(config);
  const Pass exact = engine(model, problem, [](Context&) {});
  const Pass rounded = engine(model, problem, [](Context& c) { c.compute = DType::bf16; });
  double dot = 0, a = 0, b = 0;
  for (const auto& [name, gradient] : exact.gradients) {
    for (size_t i = 0; i < gradient.size(); ++i) {
      const double x = gradient[i], y = rounded.gradients.at(name)[i];
      dot += x * y;
      a += x * x;
      b += y * y;
    }
  }
  EXPECT_GT(dot / std::sqrt(a * b), 0.99);
  EXPECT_NE(exact.gradients, rounded.gradients) << "the dtype was not used";
}

INSTANTIATE_TEST_SUITE_P(Model, Gradients, testing::ValuesIn(cases()), [](const auto& test) {
  std::string name = test.param.name;
  std::replace_if(
      name.begin(), name.end(), [](unsigned char ch) { return !std::isalnum(ch); }, '_');
  return name;
});

}  // namespace
}  // namespace plumb
