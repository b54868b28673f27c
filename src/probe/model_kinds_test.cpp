// The probe's record of a model of each kind, against straight f64 loops over captured activations.
#include <gtest/gtest.h>

#include "model/batch_pass.h"
#include "probe/slow_measures.h"
#include "probe/test_model.h"

namespace plumb::probe_test {
namespace {

// Keeps what it is shown of one pass, and shows it to the probe too.
struct Captured : Copies {
  using Copies::Copies;
  bool closely() const override { return true; }
  void forward(const Site& site, const Tensor& value) override {
    append(close[site.module][site.quantity], value);
    const std::string_view q = site.quantity;
    if (q == "stream" || q == "branch" || (q == "output" && site.module.find('.') == std::string::npos)) {
      Copies::forward(site, value);
    }
  }
  void backward(const Site& site, const Tensor& value, const Tensor& gradient) override {
    if (shown.contains({site.module, site.quantity})) Copies::backward(site, value, gradient);
  }
  void logits(const Tensor& t) override {
    append(head, t);
    Copies::logits(t);
  }
  std::map<std::string, std::map<std::string, std::vector<double>>> close;
  std::vector<double> head;
};

constexpr int64_t kRows = 2, kLength = 7, kTargets = 5, kVocabulary = 50;

// Padding at the end of the second row, on both sides.
::plumb::Batch made_batch(bool both) {
  ::plumb::Batch b{.rows = kRows, .length = kLength};
  for (int64_t i = 0; i < kRows * kLength; ++i) {
    const bool real = i < 2 * kLength - 3;
    b.ids.push_back(static_cast<int32_t>(real ? (11 * i + 3) % kVocabulary : 0));
    b.mask.push_back(real);
  }
  const int64_t length = both ? kTargets : kLength;
  if (both) b.decoder_length = kTargets;
  for (int64_t i = 0; i < kRows * length; ++i) {
    const bool real = i < 2 * length - 1;
    if (both) {
      b.decoder_ids.push_back(static_cast<int32_t>(real ? (7 * i + 1) % kVocabulary : 0));
      b.decoder_mask.push_back(real);
    }
    const bool target = real && (both || b.mask[i]);
    b.targets.push_back(target ? static_cast<int32_t>((5 * i + 2) % kVocabulary) : kIgnoreTarget);
    b.target_count += target;
  }
  return b;
}

ModelConfig config_of_kind(const std::string& kind) {
  ModelConfig c = config_of(Placement::pre_norm);
  c.decoder_layers = kind == "encoder" ? 0 : 2;
  c.encoder_layers = kind == "decoder" ? 0 : 2;
  c.layer.heads = 4;
  c.layer.head_dim = 6;
  if (kind == "decoder") {
    c.layer.kv_heads = 2;
    c.layer.window = 4;
  }
  if (kind == "encoder") c.layer.placement = Placement::post_norm;
  if (kind != "decoder") c.positions = Positions::sinusoidal;
  return c;
}

struct SlowAttention {
  double max_logit = 0, entropy = 0, least = 0, first = 0, query = 0, key = 0;
};

struct Geometry3 {
  int64_t queries, keys, heads, groups, dim;
  bool causal;
  int64_t window;
};

SlowAttention slow_attention(const std::vector<double>& q, const std::vector<double>& k, const Geometry3& g,
                             const std::vector<uint8_t>& query_mask, const std::vector<uint8_t>& key_mask) {
  SlowAttention a;
  std::vector<double> entropies(g.heads);
  double queries = 0, spread = 0, keys = 0;
  for (int64_t b = 0; b < kRows; ++b) {
    for (int64_t s = 0; s < g.keys; ++s) {
      if (!key_mask[b * g.keys + s]) continue;
      keys += 1;
      for (int64_t h = 0; h < g.groups; ++h) {
        double norm = 0;
        for (int64_t d = 0; d < g.dim; ++d)
          norm += std::pow(k[((b * g.keys + s) * g.groups + h) * g.dim + d], 2);
        a.key += std::sqrt(norm) / static_cast<double>(g.groups);
      }
    }
    for (int64_t t = 0; t < g.queries; ++t) {
      if (!query_mask[b * g.queries + t]) continue;
      queries += 1;
      bool is_spread = false;
      for (int64_t h = 0; h < g.heads; ++h) {
        double norm = 0, total = 0, entropy = 0;
        std::vector<double> weights(g.keys);
        int64_t seen = 0;
        for (int64_t d = 0; d < g.dim; ++d)
          norm += std::pow(q[((b * g.queries + t) * g.heads + h) * g.dim + d], 2);
        a.query += std::sqrt(norm) / static_cast<double>(g.heads);
        for (int64_t s = 0; s < g.keys; ++s) {
          if (!key_mask[b * g.keys + s] || (g.causal && s > t) || (g.window && t - s >= g.window)) continue;
          double z = 0;
          for (int64_t d = 0; d < g.dim; ++d) {
            z += q[((b * g.queries + t) * g.heads + h) * g.dim + d] *
                 k[((b * g.keys + s) * g.groups + h * g.groups / g.heads) * g.dim + d];
          }
          z /= std::sqrt(static_cast<double>(g.dim));
          a.max_logit = std::max(a.max_logit, std::abs(z));
          total += weights[s] = std::exp(z);
          ++seen;
        }
        if (seen < 2) continue;
        is_spread = true;
        for (const double w : weights) entropy -= w > 0 ? w / total * std::log(w / total) : 0;
        entropies[h] += entropy / std::log(static_cast<double>(seen));
        a.first += weights[0] / total / static_cast<double>(g.heads);
      }
      spread += is_spread;
    }
  }
  a.least = *std::min_element(entropies.begin(), entropies.end()) / spread;
  for (const double e : entropies) a.entropy += e / spread / static_cast<double>(g.heads);
  a.first /= spread;
  a.query /= queries;
  a.key /= keys;
  return a;
}

class ProbeOfKind : public testing::TestWithParam<const char*> {
 protected:
  ProbeOfKind()
      : config(config_of_kind(GetParam())),
        both(config.has_encoder() && config.has_decoder()),
        fixture(config),
        batch(made_batch(both)),
        path(new_file("kind.jsonl")) {}

  Json step(Probe& probe, int64_t number) {
    EXPECT_TRUE(probe.observer()->wants(number));
    Captured captured(probe.observer());
    Tape tape;
    Context context{.tape = &tape, .training = true, .observer = &captured};
    batch_loss(context, fixture.model, batch, {.scale = 1.0 / static_cast<double>(batch.target_count)});
    tape.backward();
    probe.observer()->gradients(number, fixture.model.parameters(), 0.5);
    close = captured.close;
    shown = captured.shown;
    head = captured.head;
    probe.observer()->finish(number, 1, 0.1);
    return records(path).back();
  }
  const std::vector<uint8_t>& mask_of(const std::string& site) const {
    return both && site.starts_with("decoder") ? batch.decoder_mask : batch.mask;
  }
  int64_t length_of(const std::string& site) const {
    return both && site.starts_with("decoder") ? kTargets : kLength;
  }

  ModelConfig config;
  bool both;
  Fixture fixture;
  ::plumb::Batch batch;
  std::filesystem::path path;
  std::map<std::string, std::map<std::string, std::vector<double>>> close;
  std::map<std::pair<std::string, std::string>, Shown> shown;
  std::vector<double> head;
};

TEST_P(ProbeOfKind, AttentionIsThatOfASlowComputation) {
  Probe probe(path.string());
  const Json r = step(probe, 1);
  int64_t attentions = 0;
  for (const auto& [site, quantities] : close) {
    if (!quantities.contains("q")) continue;
    ++attentions;
    const bool cross = site.ends_with("cross_attention");
    const LayerConfig layer =
        resolved_layer(config, site.starts_with("encoder") ? Side::encoder : Side::decoder, 0);
    const SlowAttention a = slow_attention(quantities.at("q"), quantities.at("k"),
                                           {.queries = length_of(site),
                                            .keys = cross ? kLength : length_of(site),
                                            .heads = layer.heads,
                                            .groups = layer.kv_heads,
                                            .dim = layer.head_dim,
                                            .causal = !cross && site.starts_with("decoder"),
                                            .window = cross ? 0 : layer.window},
                                           mask_of(site), cross ? batch.mask : mask_of(site));
    const Json& got = entry(r, "sites", site).at("attention");
    expect_near(got.at("max_logit"), a.max_logit, site);
    expect_near(got.at("entropy"), a.entropy, site);
    expect_near(got.at("least_entropy"), a.least, site);
    expect_near(got.at("first_mass"), a.first, site);
    expect_near(got.at("query_norm"), a.query, site);
    expect_near(got.at("key_norm"), a.key, site);
  }
  EXPECT_EQ(attentions, both ? 6 : 2);
}

TEST_P(ProbeOfKind, StreamsAndLogitsAreThoseOfASlowComputation) {
  Probe probe(path.string());
  const Json r = step(probe, 1);
  for (const auto& [key, s] : shown) {
    const auto& [site, quantity] = key;
    const Json& got = entry(r, "sites", site).at(quantity);
    double sum = 0;
    for (double x : s.values) sum += x;
    const double rms = norm_of(s.values) / std::sqrt(static_cast<double>(s.values.size()));
    EXPECT_NEAR(got.at("mean_over_rms").get<double>(), sum / static_cast<double>(s.values.size()) / rms,
                1e-5);
    if (quantity == "branch") continue;
    SlowGeometry slow;
    for (int64_t b = 0; b < kRows; ++b) {
      std::vector<double> rows;
      int64_t n = 0;
      for (int64_t t = b * length_of(site); t < (b + 1) * length_of(site); ++t) {
        if (!mask_of(site)[t]) continue;
        rows.insert(rows.end(), s.values.begin() + t * s.width, s.values.begin() + (t + 1) * s.width);
        ++n;
      }
      slow += slow_geometry(rows, n, s.width);
    }
    EXPECT_NEAR(got.at("token_cosine").get<double>(), slow.cosine / kRows, 1e-5) << site;
    expect_near(got.at("residual"), slow.residual / kRows, site);
    expect_near(got.at("effective_rank"), slow.rank / kRows, site);
  }
  double log_z = 0, largest = 0;
  for (size_t row = 0; row < head.size(); row += kVocabulary) {
    double z = 0;
    for (int64_t v = 0; v < kVocabulary; ++v) {
      z += std::exp(head[row + v]);
      largest = std::max(largest, std::abs(head[row + v]));
    }
    log_z += std::log(z);
  }
  ASSERT_EQ(static_cast<int64_t>(head.size()), batch.target_count * kVocabulary);
  const Json& logits = entry(r, "sites", "head").at("logits");
  expect_near(logits.at("log_z"), log_z / static_cast<double>(batch.target_count), "log_z");
  expect_near(logits.at("max"), largest, "largest logit");
}

TEST_P(ProbeOfKind, LayersGradientsAreSummedUp) {
  Probe probe(path.string(), {.adam_eps = 1e-6});
  const Json r = step(probe, 1);
  for (const char* stack : {"encoder", "decoder"}) {
    const int64_t layers =
        std::string_view(stack) == "encoder" ? config.encoder_layers : config.decoder_layers;
    if (layers == 0) continue;
    std::vector<double> norms;
    for (int64_t i = 0; i < layers; ++i) {
      const std::string layer = std::string(stack) + "." + std::to_string(i);
      double squares = 0;
      for (const auto& p : fixture.model.parameters().all()) {
        if (!p->name.starts_with(layer + ".")) continue;
        double own = 0;
        for (const float g : gradient_of(*p)) own += double{g} * g;
        squares += own;
        const double rms = std::sqrt(own / static_cast<double>(p->value.numel()));
        expect_near(entry(r, "parameters", p->name).at("grad_rms"), rms, p->name);
        expect_near(entry(r, "parameters", p->name).at("grad_over_eps"), rms * 0.5 / 1e-6, p->name);
      }
      norms.push_back(std::sqrt(squares));
      expect_near(entry(r, "sites", layer).at("layer").at("grad_norm"), norms.back(), layer);
    }
    double mean = 0, variance = 0;
    for (double n : norms) mean += n / static_cast<double>(layers);
    for (double n : norms) variance += (n - mean) * (n - mean) / static_cast<double>(layers);
    const Json& got = entry(r, "sites", stack).at("layers");
    expect_near(got.at("grad_first_over_last"), norms.front() / norms.back(), stack);
    EXPECT_NEAR(got.at("grad_cv").get<double>(), std::sqrt(variance) / mean, 1e-5);
    const auto first = shown.at({std::string(stack) + ".0.attention", "stream"}).gradient;
    const auto last = shown.at({std::string(stack) + ".1.feed_forward", "stream"}).gradient;
    expect_near(got.at("stream_grad_first_over_last"), norm_of(first) / norm_of(last), stack);
  }
}

// The loss of a model that never had the layer, whose weights are those of the others.
double loss_without(const Fixture& whole, const ModelConfig& config, const ::plumb::Batch& batch, Side side,
                    int64_t layer) {
  ModelConfig shorter = config;
  (side == Side::encoder ? shorter.encoder_layers : shorter.decoder_layers) -= 1;
  Fixture less(shorter);
  const std::string stack = side == Side::encoder ? "encoder." : "decoder.";
  for (const auto& p : less.model.parameters().all()) {
    std::string name = p->name;
    if (name.starts_with(stack) && std::isdigit(name[8]) && name[8] - '0' >= layer) ++name[8];
    const Tensor from = whole.model.parameters().find(name)->value;
    std::copy_n(from.f32(), from.numel(), p->value.f32());
  }
  Context context;
  const LossSums sums = batch_loss(context, less.model, batch, {});
  return sums.nll / static_cast<double>(sums.count);
}

struct Final : Observer {
  bool closely() const override { return true; }
  void forward(const Site& site, const Tensor& value) override {
    if (std::string_view(site.quantity) == "final") output = value.clone();
  }
  void backward(const Site&, const Tensor&, const Tensor&) override {}
  Tensor output;
};

TEST_P(ProbeOfKind, TheModelIsMeasuredOnTheFixedBatch) {
  Probe probe(path.string());
  probe.measure_model(fixture.model, batch);
  const auto function = [&] {
    Final final;
    Context context{.observer = &final};
    const Tensor hidden = batch_hidden(context, fixture.model, batch);
    std::vector<double> rows;
    for (size_t r = 0; r < batch.targets.size(); ++r) {
      if (batch.targets[r] == kIgnoreTarget) continue;
      for (int64_t c = 0; c < hidden.width(); ++c)
        rows.push_back(final.output.f32()[static_cast<int64_t>(r) * hidden.width() + c]);
    }
    return rows;
  };
  const auto rms = [](const std::vector<double>& a, const std::vector<double>& b) {
    double sum = 0;
    for (size_t i = 0; i < a.size(); ++i) sum += std::pow(a[i] - b[i], 2);
    return std::sqrt(sum / static_cast<double>(a.size()));
  };
  std::vector<std::vector<float>> weights;
  for (const auto& p : fixture.model.parameters().all())
    weights.emplace_back(p->value.f32(), p->value.f32() + p->value.numel());
  const auto start = function();
  const Json first = step(probe, 1);
  for (size_t i = 0; i < weights.size(); ++i) {
    const Tensor& now = fixture.model.parameters().all()[i]->value;
    EXPECT_TRUE(std::equal(weights[i].begin(), weights[i].end(), now.f32()));  // none was moved for good
  }
  EXPECT_EQ(entry(first, "sites", "model").at("function").at("drift"), 0);
  EXPECT_EQ(entry(first, "sites", "model").at("function").at("update"), 0);
  // What the probe did to the weights, done again: the same signs.
  size_t n = 0;
  for (const auto& p : fixture.model.parameters().all()) {
    if (p->role != Role::matrix || !(p->name.starts_with("encoder.") || p->name.starts_with("decoder.")))
      continue;
    double squares = 0;
    const int64_t size = p->value.numel();
    for (int64_t i = 0; i < size; ++i) squares += std::pow(p->value.f32()[i], 2);
    const auto by = static_cast<float>(1e-3 * std::sqrt(squares / static_cast<double>(size)));
    for (int64_t i = 0; i < size; ++i) {
      const auto words = random_block({7, random_stream(n)}, static_cast<uint64_t>(i / 128));
      p->value.f32()[i] += (words[i / 32 % 4] >> (i % 32) & 1) ? by : -by;
    }
    ++n;
  }
  const auto moved = function();
  const double drift = rms(moved, start);
  // The difference of two f32 outputs of size 1 that are 1e-3 apart: three digits fewer than either.
  EXPECT_NEAR(entry(first, "sites", "model").at("function").at("perturbation").get<double>(),
              drift * drift * 1e6, 1e-3 * drift * drift * 1e6);

  const Json second = step(probe, 10);
  EXPECT_NEAR(entry(second, "sites", "model").at("function").at("drift").get<double>(), drift, 1e-3 * drift);
  Context context;
  const LossSums sums = batch_loss(context, fixture.model, batch, {});
  const double loss = sums.nll / static_cast<double>(sums.count);
  expect_near(entry(second, "sites", "model").at("function").at("loss"), loss, "loss");
  for (const Side side : {Side::encoder, Side::decoder}) {
    const int64_t layers = side == Side::encoder ? config.encoder_layers : config.decoder_layers;
    for (int64_t i = 0; i < layers; ++i) {
      const std::string at = (side == Side::encoder ? "encoder." : "decoder.") + std::to_string(i);
      EXPECT_NEAR(entry(second, "sites", at).at("layer").at("drop_loss").get<double>(),
                  loss_without(fixture, config, batch, side, i) - loss, 1e-5)
          << at;
    }
  }
  EXPECT_EQ(
      entry(second, "sites", (config.has_decoder() ? "decoder" : "encoder") + std::string(".1.attention"))
          .at("scale")
          .at("alpha"),
      1);
}

INSTANTIATE_TEST_SUITE_P(All, ProbeOfKind, testing::Values("decoder", "encoder", "encoder_decoder"),
                         [](const auto& kind) { return std::string(kind.param); });

}  // namespace
}  // namespace plumb::probe_test
