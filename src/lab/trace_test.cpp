// What a trace says against slow computations of its own: streams and norms from the f64 oracle, attention by
// what its weights make of the values, gradient shares by the complex step and by models whose answer is
// known.
#include "plumb/trace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "base/test_support.h"
#include "infer/test_models.h"
#include "lab/trace_data.h"
#include "lab/trace_table.h"
#include "model/oracle.h"
#include "plumb/config_fields.h"

namespace plumb {
namespace {

constexpr double kF32 = 2e-5;  // values of order 1 through a small model in f32, against f64

ModelConfig tiny(Placement placement = Placement::pre_norm) {
  ModelConfig c;
  c.vocab_size = 9;
  c.width = 8;
  c.max_length = 12;
  c.decoder_layers = 2;
  c.layer.placement = placement;
  c.layer.norm = NormKind::layer_norm;
  c.layer.norm_bias = true;
  c.layer.heads = 2;
  c.layer.ffn_width = 12;
  c.tied_embeddings = false;
  return c;
}

const std::vector<int32_t> kIds = {3, 1, 4, 0, 5};

template <class S>
oracle::Weights<S> weights_of(const Transformer& model) {
  oracle::Weights<S> w;
  for (const auto& p : model.parameters().all()) {
    w.values[p->name].assign(p->value.f32(), p->value.f32() + p->value.numel());
  }
  return w;
}

template <class S>
void clear(oracle::Weights<S>& w, const std::string& name) {
  ASSERT_TRUE(w.has(name)) << name;
  std::fill(w.values[name].begin(), w.values[name].end(), S(0));
}

oracle::Batch batch_of(const std::vector<int32_t>& ids) {
  return {1, static_cast<int64_t>(ids.size()), {ids.begin(), ids.end()}, std::vector<int>(ids.size(), 1)};
}

// The stream as a sub-layer of a decoder receives it: what a model of the layers before gives.
oracle::Matrix<double> stream_before(const Transformer& model, int64_t layer, bool feed_forward) {
  ModelConfig c = model.config();
  auto w = weights_of<double>(model);
  c.decoder_layers = layer + feed_forward;
  c.final_norm = false;
  if (feed_forward) clear(w, fmt::format("decoder.{}.feed_forward.down.weight", layer));
  return oracle::Model<double>(c, w).decode(batch_of(kIds), nullptr, nullptr);
}

Spread plain_spread(const oracle::Matrix<double>& x) {
  Spread s;
  for (int64_t r = 0; r < x.rows; ++r) {
    double mean = 0, square = 0;
    for (int64_t i = 0; i < x.width; ++i) mean += x.at(r, i) / x.width;
    for (int64_t i = 0; i < x.width; ++i) square += x.at(r, i) * x.at(r, i) / x.width;
    s.mean += mean / x.rows;
    s.spread += (square - mean * mean) / x.rows;
    s.rms += square / x.rows;
  }
  return {s.mean, std::sqrt(s.spread), std::sqrt(s.rms)};
}

void expect_spread(const Spread& got, const Spread& want, const std::string& what) {
  EXPECT_NEAR(got.mean, want.mean, kF32) << what;
  EXPECT_NEAR(got.spread, want.spread, kF32 * (1 + want.spread)) << what;
  EXPECT_NEAR(got.rms, want.rms, kF32 * (1 + want.rms)) << what;
}

TEST(Trace, NumbersAreThoseOfTheOracle) {
  const auto model = test::make_model(tiny());
  const Observed observed = observe_pass(*model, {.ids = kIds});
  const auto sublayers = sublayer_numbers(*model, observed);
  const auto norms = norm_numbers(model->config(), observed);
  ASSERT_EQ(sublayers.size(), 4u);
  ASSERT_EQ(norms.size(), 5u);
  for (int64_t i = 0; i < 4; ++i) {
    const SublayerNumbers& s = sublayers[i];
    const auto x = stream_before(*model, i / 2, i % 2 == 1),
               y = stream_before(*model, (i + 1) / 2, i % 2 == 0);
    expect_spread(s.stream, plain_spread(x), s.module);
    expect_spread(norms[i].before, plain_spread(x), norms[i].module);
    expect_spread(s.output, plain_spread(y), s.module);
    oracle::Matrix<double> branch = y;
    double cosine = 0;
    for (int64_t r = 0; r < x.rows; ++r) {
      double xx = 0, xy = 0, yy = 0;
      for (int64_t c = 0; c < x.width; ++c) {
        branch.at(r, c) -= x.at(r, c);
        xx += x.at(r, c) * x.at(r, c);
        xy += x.at(r, c) * y.at(r, c);
        yy += y.at(r, c) * y.at(r, c);
      }
      cosine += xy / std::sqrt(xx * yy) / x.rows;
    }
    expect_spread(s.branch, plain_spread(branch), s.module);
    EXPECT_NEAR(s.added.value(), plain_spread(branch).rms / plain_spread(x).rms, 1e-4) << s.module;
    EXPECT_NEAR(s.cosine, cosine, kF32) << s.module;
  }
  // Without gain and bias, LayerNorm leaves mean 0 and spread 1; here it has both, so the oracle's own norm
  // tells.
  const auto final = oracle::Model<double>(model->config(), weights_of<double>(*model))
                         .decode(*std::make_unique<oracle::Batch>(batch_of(kIds)), nullptr, nullptr);
  expect_spread(norms[4].after, plain_spread(final), norms[4].module);
  EXPECT_EQ(norms[4].module, "decoder.final_norm");
}

TEST(Trace, AddedCountsAlphaAndTheGate) {
  ModelConfig c = tiny(Placement::layer_scale);
  c.layer.alpha = 2;
  const auto model = test::make_model(c);
  const Observed observed = observe_pass(*model, {.ids = kIds});
  const auto numbers = sublayer_numbers(*model, observed);
  const Tensor gate = model->parameters().find("decoder.0.attention.gate")->value;
  const Tensor b = observed.value("decoder.0.attention", "branch"),
               x = observed.value("decoder.0.attention", "stream");
  double added = 0, kept = 0;
  for (int64_t i = 0; i < b.numel(); ++i) {
    added += std::pow(gate.f32()[i % 8] * b.f32()[i], 2);
    kept += std::pow(2 * x.f32()[i], 2);
  }
  EXPECT_NEAR(numbers[0].added.value(), std::sqrt(added / kept), 1e-6);
}

TEST(Trace, EveryNormOfEveryPlacementIsThere) {
  const auto norms_of = [](ModelConfig c) {
    const auto model = test::make_model(c);
    std::vector<std::string> names;
    for (const auto& n : norm_numbers(model->config(), observe_pass(*model, {.ids = kIds})))
      names.push_back(n.module);
    return names;
  };
  ModelConfig c = tiny(Placement::sub_ln);
  c.decoder_layers = 1;
  c.embedding_norm = true;
  c.layer.qk_norm = QkNorm::per_head;
  c.layer.norm_branch = c.layer.norm_out = true;
  const std::string l = "decoder.0.";
  EXPECT_EQ(norms_of(c),
            (std::vector<std::string>{
                "decoder.embedding_norm", l + "attention.norm_in", l + "attention.query_norm",
                l + "attention.key_norm", l + "attention.norm_inner", l + "attention.norm_branch",
                l + "attention.norm_out", l + "feed_forward.norm_in", l + "feed_forward.norm_inner",
                l + "feed_forward.norm_branch", l + "feed_forward.norm_out"}));
  ModelConfig none = tiny(Placement::re_zero);
  EXPECT_TRUE(norms_of(none).empty());
}

// The recomputed weights are those that the engine used: with its values they give its heads.
TEST(Trace, AttentionWeightsMakeTheHeads) {
  for (const test::Variant& v : test::variants()) {
    const auto model = test::make_model(v.config);
    const ModelConfig& c = model->config();
    const Observed observed =
        observe_pass(*model, {.ids = {7, 3, 9, 1, 4, 12, 2}, .decoder_ids = {5, 6, 1, 2}});
    for (const SublayerName& s : sublayers_of(c)) {
      const Tensor q = observed.value(s.module, "q");
      if (!q.defined()) continue;
      const LayerConfig l = resolved_layer(c, s.side, s.layer);
      const Tensor w = attention_weights(c, s, view_of(c, s), q, observed.value(s.module, "k"),
                                         observed.value(s.module, "sinks"));
      const Tensor value = observed.value(s.module, "value"), heads = observed.value(s.module, "heads");
      for (int64_t h = 0; h < l.heads; ++h) {
        for (int64_t t = 0; t < w.size(1); ++t) {
          for (int64_t d = 0; d < l.value_dim; ++d) {
            double sum = 0;
            for (int64_t k = 0; k < w.size(2); ++k) {
              sum += double{w.f32()[(h * w.size(1) + t) * w.size(2) + k]} *
                     value.f32()[k * value.width() + h / (l.heads / l.kv_heads) * l.value_dim + d];
            }
            ASSERT_NEAR(heads.f32()[t * heads.width() + h * l.value_dim + d], sum, 1e-5)
                << v.name << " " << s.module;
          }
        }
      }
    }
  }
}

TEST(Trace, AttentionNumbersOfGivenWeights) {
  // Head 0 looks at key 0 always, head 1 evenly at what it sees; causal, three tokens.
  const Tensor w = Tensor::of<float>({2, 3, 3}, {1, 0, 0, 1, 0, 0, 1, 0, 0,  //
                                                 1, 0, 0, .5f, .5f, 0, 1 / 3.f, 1 / 3.f, 1 / 3.f});
  const AttentionNumbers n = attention_numbers("decoder.0.attention", w, {1, 2, 3});
  EXPECT_EQ(n.heads[0].top, 0);
  EXPECT_NEAR(n.heads[0].top_share, 1, 1e-7);
  EXPECT_NEAR(n.heads[0].entropy, 0, 1e-7);
  EXPECT_NEAR(n.heads[0].distance, 1, 1e-7);
  EXPECT_NEAR(n.heads[1].entropy, 1, 1e-6);
  EXPECT_NEAR(n.heads[1].top_share, (1 + 0.5 + 1.0 / 3) / 3, 1e-6);
  EXPECT_NEAR(n.heads[1].distance, (0.5 + 1.0) / 3, 1e-6);
  EXPECT_NEAR(n.entropy, 0.5, 1e-6);
  EXPECT_NEAR(n.received[2], 1.0 / 18, 1e-6);
  const AttentionNumbers alone = attention_numbers("x", Tensor::of<float>({1, 1, 1}, {1}), {1});
  EXPECT_TRUE(std::isnan(alone.entropy)) << "one key leaves nothing to spread over";
}

// What the stream before sub-layer `index` of a two-layer decoder gets back from kIds' next tokens (4: its
// end), by the complex step: of the layers from there on, with the stream as their embeddings.
std::vector<double> gradient_at(const Transformer& model, int64_t index) {
  using oracle::Dual;
  ModelConfig c = model.config();
  const bool end = index == 4, feed_forward = index % 2 == 1;
  const auto x = stream_before(model, index / 2, feed_forward);
  const int64_t layer = end ? 1 : index / 2;
  oracle::Weights<Dual> w;
  for (const auto& [name, values] : weights_of<Dual>(model).values) {
    const std::string stack = "decoder.";
    std::string renamed = name;
    if (name.starts_with(stack) && std::isdigit(name[stack.size()])) {
      const int64_t own = name[stack.size()] - '0';
      if (own < layer) continue;
      renamed = stack + std::to_string(own - layer) + name.substr(stack.size() + 1);
    }
    w.values[renamed] = values;
  }
  if (feed_forward || end) clear(w, "decoder.0.attention.output.weight");
  if (end) clear(w, "decoder.0.feed_forward.down.weight");
  c.decoder_layers -= layer;
  w.values["token_embedding.weight"] = {x.v.begin(), x.v.end()};
  std::vector<int32_t> places(kIds.size());
  std::iota(places.begin(), places.end(), 0);
  std::vector<int> targets(kIds.begin() + 1, kIds.end());
  targets.push_back(-1);
  std::vector<double> gradient;
  for (Dual& v : w.values["token_embedding.weight"]) {
    const Dual was = v;
    v += Dual(0, 1e-30);
    oracle::Model<Dual> m(c, w);
    gradient.push_back(m.loss(m.logits(m.decode(batch_of(places), nullptr, nullptr)), targets, 0, 0).imag() /
                       1e-30);
    v = was;
  }
  return gradient;
}

Model model_of(const ModelConfig& config) {
  Model model = Model::create(config, 1);
  test::fill_weights(model.transformer().parameters(), 1);
  return model;
}

double dot_of(const std::vector<double>& a, const std::vector<double>& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

TEST(Trace, GradientSharesAreThoseOfTheComplexStep) {
  Model model = model_of(tiny());
  const LossGradient g = loss_gradient(model, Tokenizer::characters("abcdef"), {.ids = kIds});
  ASSERT_EQ(g.shares.size(), 4u);
  EXPECT_EQ(g.targets, 4);
  std::vector<std::vector<double>> at;
  for (int64_t i = 0; i < 5; ++i) at.push_back(gradient_at(model.transformer(), i));
  for (size_t i = 0; i < 4; ++i) {
    const auto& whole = at[i];
    EXPECT_NEAR(g.shares[i].rms, std::sqrt(dot_of(whole, whole) / static_cast<double>(whole.size())), 1e-5);
    EXPECT_NEAR(g.shares[i].shortcut + g.shares[i].branch, 1, 1e-5);
    // alpha is 1 and no norm stands behind an add: the shortcut hands back what the next sub-layer got.
    EXPECT_NEAR(g.shares[i].shortcut, dot_of(at[i + 1], whole) / dot_of(whole, whole), 1e-4) << i;
    EXPECT_NEAR(g.shares[i].straight, dot_of(at[4], whole) / dot_of(whole, whole), 1e-4) << i;
  }
  for (const auto& p : model.transformer().parameters().all())
    EXPECT_FALSE(p->value.grad().defined()) << p->name;
}

TEST(Trace, ZeroBranchesLeaveAllToTheShortcut) {
  for (const Placement placement : {Placement::pre_norm, Placement::post_norm, Placement::deep_norm,
                                    Placement::hyper_connections, Placement::mhc}) {
    Model model = model_of(tiny(placement));
    for (const auto& p : model.transformer().parameters().all()) {
      if (p->name.ends_with("attention.output.weight") || p->name.ends_with("down.weight") ||
          p->name.ends_with("maps.weight"))
        std::memset(p->value.f32(), 0, p->value.bytes());
    }
    for (const auto& s : loss_gradient(model, Tokenizer::characters("abcdef"), {.ids = kIds}).shares) {
      EXPECT_NEAR(s.shortcut, 1, 1e-6) << enum_name(placement) << " " << s.module;
      EXPECT_NEAR(s.branch, 0, 1e-6) << enum_name(placement) << " " << s.module;
      EXPECT_NEAR(s.straight, 1, 1e-5) << enum_name(placement) << " " << s.module;
    }
  }
}

TEST(Trace, APlainStackHasNoShortcut) {
  Model model = model_of(tiny(Placement::plain));
  for (const auto& s : loss_gradient(model, Tokenizer::characters("abcdef"), {.ids = kIds}).shares) {
    EXPECT_EQ(s.shortcut, 0) << s.module;
    EXPECT_NEAR(s.branch, 1, 1e-6) << s.module;
    EXPECT_EQ(s.straight, 0) << s.module;
    EXPECT_GT(s.rms, 0) << s.module;
  }
}

// Every variant and placement goes through, there and back, and the shares sum to 1.
TEST(Trace, AnyModelBothWays) {
  std::vector<test::Variant> all = test::variants();
  for (size_t p = 0; p < EnumNames<Placement>::names.size(); ++p) {
    all.push_back({EnumNames<Placement>::names[p], tiny(static_cast<Placement>(p))});
  }
  for (const Parallel p : {Parallel::one_norm, Parallel::two_norms}) {
    all.push_back({"parallel " + enum_name(p), tiny()});
    all.back().config.layer.parallel = p;
  }
  all.push_back({"encoder", tiny()});
  all.back().config.encoder_layers = std::exchange(all.back().config.decoder_layers, 0);
  for (test::Variant& v : all) {
    v.config.model_type = "plumbline";
    v.config.vocab_size = 300;
    if (v.config.decoder_start_id < 0) v.config.decoder_start_id = 256;
    Model model = model_of(v.config);
    const bool both = v.config.has_encoder() && v.config.has_decoder();
    const Trace trace(model, Tokenizer::bytes(), "one two", {.target = both ? "abc" : "", .gradient = true});
    for (const char* part : {"1. Shapes", "2. Order", "3. Numbers", "4. The way back", "y = "}) {
      EXPECT_NE(trace.text().find(part), std::string::npos) << v.name << " " << part;
    }
    for (const auto& s : trace.data().gradient->shares) {
      EXPECT_TRUE(s.rms == 0 || std::abs(s.shortcut + s.branch - 1) < 1e-4) << v.name << " " << s.module;
    }
  }
}

TEST(Trace, ACloseObserverChangesNothing) {
  for (const test::Variant& v : test::variants()) {
    const auto model = test::make_model(v.config);
    const PassInput input{.ids = {7, 3, 9, 1, 4}, .decoder_ids = {5, 6, 1}};
    Context context;
    const Tensor alone = run_stacks(context, *model, input);
    const Observed observed = observe_pass(*model, input);
    const Tensor watched = observed.value(v.config.has_decoder() ? "decoder" : "encoder",
                                          v.config.embedding_width > 0 ? "narrowed" : "final");
    ASSERT_EQ(alone.shape(), watched.shape()) << v.name;
    for (int64_t i = 0; i < alone.numel(); ++i) ASSERT_NEAR(alone.f32()[i], watched.f32()[i], 1e-5) << v.name;
  }
}

TEST(Trace, BadInput) {
  Model model = model_of(tiny());
  const Tokenizer tokenizer = Tokenizer::characters("abcdef");
  const auto refused = [&](ErrorKind kind, const std::string& text, const TraceOptions& options = {}) {
    return error_of(kind, [&] { Trace(model, tokenizer, text, options); });
  };
  EXPECT_EQ(refused(ErrorKind::input, ""), "the text is empty: there is nothing to run");
  EXPECT_NE(refused(ErrorKind::input, "abcdefabcdefa").find("13 tokens is longer than the 12"),
            std::string::npos);
  EXPECT_NE(refused(ErrorKind::usage, "a", {.target = "b"}).find("target"), std::string::npos);
  EXPECT_NE(refused(ErrorKind::input, "a", {.gradient = true}).find("too short"), std::string::npos);
  ModelConfig c = tiny();
  c.head = Head::none;
  Model headless = model_of(c);
  EXPECT_NE(error_of(ErrorKind::unsupported, [&] { Trace(headless, tokenizer, "abc", {.gradient = true}); })
                .find("no language-model head"),
            std::string::npos);
  c = tiny();
  c.encoder_layers = std::exchange(c.decoder_layers, 0);
  Model encoder = model_of(c);
  EXPECT_NE(error_of(ErrorKind::unsupported, [&] { Trace(encoder, tokenizer, "abc", {.gradient = true}); })
                .find("mask token"),
            std::string::npos);
}

TEST(Trace, TablesAlign) {
  EXPECT_EQ(text_table({{"a", "n"}, {"ßß", "10"}}, 1), "  a    n\n  ßß  10\n");
  EXPECT_EQ(percent(0.5), "50 %");
  EXPECT_EQ(percent(0.0123), "1.2 %");
  EXPECT_EQ(digits(std::nan("")), "-");
}

}  // namespace
}  // namespace plumb
