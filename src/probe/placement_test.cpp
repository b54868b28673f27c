// The probe against slow f64 loops over what the model shows, for every placement; and what it shows against
// the formula and against gradients that are known otherwise.
#include <algorithm>
#include <bit>

#include "plumb/config_fields.h"
#include "probe/test_model.h"

namespace plumb::probe_test {
namespace {

void expect_measures(const Json& got, const Shown& s, const std::string& what) {
  const auto n = static_cast<double>(s.values.size());
  double sum = 0, squares = 0, fourths = 0, largest = 0;
  std::vector<double> magnitudes;
  for (double x : s.values) {
    sum += x;
    squares += x * x;
    fourths += x * x * x * x;
    largest = std::max(largest, std::abs(x));
    magnitudes.push_back(std::abs(x));
  }
  std::sort(magnitudes.begin(), magnitudes.end());
  expect_near(got.at("rms"), std::sqrt(squares / n), what + " rms");
  EXPECT_NEAR(got.at("mean").get<double>(), sum / n, kDigits * std::sqrt(squares / n)) << what;
  expect_near(got.at("max"), largest, what + " max");
  expect_near(got.at("median"), magnitudes[(magnitudes.size() - 1) / 2], what + " median");
  expect_near(got.at("kurtosis"), fourths * n / (squares * squares), what + " kurtosis");
  EXPECT_FALSE(got.contains("not_finite"));
  if (s.gradient.empty()) {
    EXPECT_FALSE(got.contains("grad_norm"));
    return;
  }
  ASSERT_EQ(s.gradient.size(), s.values.size());
  expect_near(got.at("grad_norm"), norm_of(s.gradient), what + " grad_norm");
  expect_near(got.at("grad_rms"), norm_of(s.gradient) / std::sqrt(n), what + " grad_rms");
}

double mean_cosine(const Shown& a, const Shown& b) {
  double sum = 0;
  const size_t width = a.width, rows = a.values.size() / width;
  for (size_t r = 0; r < rows; ++r) {
    double xx = 0, xy = 0, yy = 0;
    for (size_t c = r * width; c < (r + 1) * width; ++c) {
      xx += a.values[c] * a.values[c];
      xy += a.values[c] * b.values[c];
      yy += b.values[c] * b.values[c];
    }
    sum += xy / std::sqrt(xx * yy);
  }
  return sum / static_cast<double>(rows);
}

class ProbeOfPlacement : public testing::TestWithParam<Placement> {
 protected:
  ProbeOfPlacement() : fixture(config_of(GetParam())), path(new_file("placement.jsonl")) {}

  // One step as a trainer makes it: plain gradient descent at 0.1, clipped by `clip`.
  void step(Probe& probe, int64_t number, double clip = 1) {
    RunObserver* observer = probe.observer();
    ASSERT_TRUE(observer->wants(number));
    Copies copies(observer);
    const double loss = run_batch(fixture.model, batch_of(0), {.observer = &copies});
    shown = copies.shown;
    order = copies.order;
    observer->gradients(number, fixture.model.parameters(), clip);
    std::vector<ParameterUpdate> updates;
    for (const auto& p : fixture.model.parameters().all()) {
      if (!p->trainable) continue;
      before[p->name] = std::vector<double>(p->value.f32(), p->value.f32() + p->value.numel());
      gradients[p->name] = gradient_of(*p);
      ParameterUpdate u{.parameter = p.get()};
      for (size_t i = 0; i < gradients[p->name].size(); ++i) {
        float& w = p->value.f32()[i];
        const float old = w;
        w -= static_cast<float>(0.1 * clip) * gradients[p->name][i];
        u.sum_of_squares += std::pow(double{w} - double{old}, 2);
      }
      updates.push_back(u);
    }
    observer->updates(number, updates);
    observer->finish(number, loss, 0.1);
  }

  const Shown& of(const std::string& site, const std::string& quantity) { return shown.at({site, quantity}); }

  Fixture fixture;
  std::filesystem::path path;
  std::map<std::pair<std::string, std::string>, Shown> shown;
  std::vector<std::pair<std::string, std::string>> order;
  std::map<std::string, std::vector<double>> before;
  std::map<std::string, std::vector<float>> gradients;
};

TEST_P(ProbeOfPlacement, MeasuresAreThoseOfASlowComputation) {
  Probe probe(path.string());
  step(probe, 10, 0.5);
  const auto lines = records(path);
  ASSERT_EQ(lines.size(), 1u);
  const Json& r = lines[0];
  EXPECT_EQ(r.at("step"), 10);
  EXPECT_EQ(r.at("clip"), 0.5);
  expect_near(r.at("lr"), 0.1, "lr");
  EXPECT_EQ(shown.size(), 3u * 2 * 2 + 1);  // layers, sub-layers, stream and branch; the output
  for (const auto& [site, s] : shown) {
    expect_measures(entry(r, "sites", site.first).at(site.second), s, site.first + " " + site.second);
  }
  std::vector<std::string> sites;  // each sub-layer's stream, and the output
  for (const auto& [module, quantity] : order) {
    if (quantity != "branch") sites.push_back(module);
  }
  for (size_t i = 0; i + 1 < sites.size(); ++i) {
    EXPECT_EQ(r.at("sites")[i].at("at"), sites[i]);
    const Shown& after = of(sites[i + 1], i + 2 == sites.size() ? "output" : "stream");
    const Json& step_of = entry(r, "sites", sites[i]).at("step");
    EXPECT_NEAR(step_of.at("cosine").get<double>(), mean_cosine(of(sites[i], "stream"), after), 1e-5);
    const Shown &branch = of(sites[i], "branch"), &stream = of(sites[i], "stream");
    const double streams =
        static_cast<double>(stream.values.size()) / static_cast<double>(branch.values.size());
    expect_near(step_of.at("ratio"), norm_of(branch.values) / norm_of(stream.values) * std::sqrt(streams),
                "ratio");
  }
}

TEST_P(ProbeOfPlacement, WeightsAreMeasuredByTensorAndByPlace) {
  Probe probe(path.string());
  step(probe, 1);
  const Json r = records(path).at(0);
  double all = 0;
  struct Sum {
    double n = 0, squares = 0, gradient = 0, update = 0;
  };
  std::map<std::string, Sum> places;
  for (const auto& p : fixture.model.parameters().all()) {
    if (!p->trainable) continue;
    const auto &w = before.at(p->name), n = w;
    Sum s{.n = static_cast<double>(w.size())};
    for (size_t i = 0; i < w.size(); ++i) {
      s.squares += w[i] * w[i];
      s.gradient += std::pow(gradients.at(p->name)[i], 2);
      s.update += std::pow(double{p->value.f32()[i]} - w[i], 2);
    }
    const Json& got = entry(r, "parameters", p->name);
    expect_near(got.at("rms"), std::sqrt(s.squares / s.n), p->name);
    expect_near(got.at("grad_norm"), std::sqrt(s.gradient), p->name);
    expect_near(got.at("update_rms"), std::sqrt(s.update / s.n), p->name);
    expect_near(got.at("update_ratio"), std::sqrt(s.update / s.squares), p->name);
    all += s.gradient;
    // decoder.0.attention.query.weight is the attention's; decoder.final_norm.gain is the final norm's.
    std::string place = p->name.substr(0, p->name.rfind('.'));
    for (const char* sublayer : {".attention", ".feed_forward"}) {
      if (const size_t i = p->name.find(sublayer); i != std::string::npos) {
        place = p->name.substr(0, i + std::strlen(sublayer));
      }
    }
    Sum& total = places[place];
    total.n += s.n, total.squares += s.squares, total.gradient += s.gradient, total.update += s.update;
  }
  expect_near(r.at("grad_norm"), std::sqrt(all), "grad_norm");
  for (const auto& [place, s] : places) {
    const Json& got = entry(r, "sites", place).at("weights");
    expect_near(got.at("rms"), std::sqrt(s.squares / s.n), place);
    expect_near(got.at("grad_norm"), std::sqrt(s.gradient), place);
    expect_near(got.at("update_rms"), std::sqrt(s.update / s.n), place);
    expect_near(got.at("update_ratio"), std::sqrt(s.update / s.squares), place);
  }
}

// Placements with one stream. The maps between several are held to their formulas by model/transformer_test.
class ProbeOfOneStream : public ProbeOfPlacement {};

// y = N_out(alpha x + g branch): the next stream is this of the stream and the branch.
TEST_P(ProbeOfOneStream, StreamAndBranchAreThoseOfTheFormula) {
  Probe probe(path.string());
  const auto& table = fixture.model.parameters();
  std::map<std::string, std::vector<double>> values;
  for (const auto& p : table.all()) {
    values[p->name] = std::vector<double>(p->value.f32(), p->value.f32() + p->value.numel());
  }
  step(probe, 1);
  std::vector<std::string> sites;
  for (const auto& [module, quantity] : order) {
    if (quantity != "branch") sites.push_back(module);
  }
  for (size_t i = 0; i + 1 < sites.size(); ++i) {
    const SublayerFormula f =
        sublayer_formula(fixture.model.config(), Side::decoder, static_cast<int64_t>(i / 2),
                         i % 2 == 0 ? SublayerPart::attention : SublayerPart::feed_forward);
    const Shown &x = of(sites[i], "stream"), &branch = of(sites[i], "branch");
    const Shown& y = of(sites[i + 1], i + 2 == sites.size() ? "output" : "stream");
    const auto factor = [&](const char* name, double constant, size_t c) {
      const auto learned = values.find(sites[i] + name);
      return learned == values.end() ? constant : learned->second[learned->second.size() == 1 ? 0 : c];
    };
    const size_t width = x.width;
    for (size_t row = 0; row < x.values.size(); row += width) {
      std::vector<double> sum(width);
      for (size_t c = 0; c < width; ++c) {
        sum[c] = factor(".shortcut", f.alpha, c) * x.values[row + c] +
                 factor(".gate", f.gate_value, c) * branch.values[row + c];
      }
      if (f.norm_out) {
        double mean = 0, variance = 0;
        for (double v : sum) mean += v / static_cast<double>(width);
        for (double v : sum) variance += (v - mean) * (v - mean) / static_cast<double>(width);
        const auto &gain = values.at(sites[i] + ".norm_out.gain"),
                   &bias = values.at(sites[i] + ".norm_out.bias");
        for (size_t c = 0; c < width; ++c) {
          sum[c] = (sum[c] - mean) / std::sqrt(variance + 1e-5) * gain[c] + bias[c];
        }
      }
      for (size_t c = 0; c < width; ++c) ASSERT_NEAR(y.values[row + c], sum[c], 2e-5) << sites[i];
    }
  }
}

// A bias that is added to every row of the branch has the sum of the branch's gradient over rows; a row of
// the embedding that was looked up once has the gradient of that row of the first stream.
TEST_P(ProbeOfPlacement, GradientsAreThoseOfBiasesAndEmbedding) {
  Probe probe(path.string());
  step(probe, 1);
  for (const char* sublayer : {"attention", "feed_forward"}) {
    for (int layer = 0; layer < 3; ++layer) {
      const std::string site = "decoder." + std::to_string(layer) + "." + sublayer;
      const std::string last = std::strcmp(sublayer, "attention") == 0 ? ".output.bias" : ".down.bias";
      const bool normed = gradients.contains(site + ".norm_branch.bias");
      const auto& bias = gradients.at(site + (normed ? ".norm_branch.bias" : last));
      const Shown& branch = of(site, "branch");
      std::vector<double> sums(branch.width);
      for (size_t i = 0; i < branch.gradient.size(); ++i) sums[i % branch.width] += branch.gradient[i];
      for (size_t c = 0; c < sums.size(); ++c) ASSERT_NEAR(bias[c], sums[c], 1e-5 * norm_of(sums)) << site;
    }
  }
  const Shown& first = of("decoder.0.attention", "stream");
  const auto& embedding = gradients.at("token_embedding.weight");
  const size_t streams = sublayer_formula(fixture.model.config(), Side::decoder, 0).streams, width = 24;
  for (size_t i = 0; i < first.gradient.size() / streams; ++i) {  // all streams begin as the embedding
    double sum = 0;
    for (size_t k = 0; k < streams; ++k) sum += first.gradient[(i / width * streams + k) * width + i % width];
    ASSERT_NEAR(embedding[i], sum, streams == 1 ? 0 : 1e-6);
  }
}

bool same_bits(const std::vector<float>& x, const std::vector<float>& y) {
  const auto bits = [](float v) { return std::bit_cast<uint32_t>(v); };
  return std::ranges::equal(x, y, {}, bits, bits);
}

TEST_P(ProbeOfPlacement, WatchingChangesNoBit) {
  for (const bool recompute : {false, true}) {
    for (const NormKind norm : {NormKind::layer_norm, NormKind::rms_norm, NormKind::scale_norm, NormKind::dyt,
                                NormKind::batch_norm, NormKind::none}) {
      ModelConfig config = config_of(GetParam());
      config.layer.norm = norm;
      config.layer.norm_bias = norm == NormKind::layer_norm;
      config.dropout = 0.1;
      Fixture watched(config), alone(config);
      Probe probe(path.string());
      ASSERT_TRUE(probe.observer()->wants(1));
      const double a =
          run_batch(watched.model, batch_of(0), {.observer = probe.observer(), .recompute = recompute});
      const double b = run_batch(alone.model, batch_of(0), {.recompute = recompute});
      EXPECT_EQ(a, b) << enum_name(norm);
      const auto &w = watched.model.parameters().all(), &n = alone.model.parameters().all();
      for (size_t i = 0; i < w.size(); ++i) {
        const auto x = gradient_of(*w[i]), y = gradient_of(*n[i]);
        EXPECT_TRUE(same_bits(x, y)) << enum_name(norm) << (recompute ? ", recomputed: " : ": ")
                                     << w[i]->name;
      }
    }
  }
}

std::string placement_name(const testing::TestParamInfo<Placement>& info) {
  std::string name = enum_name(info.param);
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}
constexpr Placement kOneStream[] = {
    Placement::post_norm, Placement::pre_norm, Placement::deep_norm,   Placement::sandwich,
    Placement::reordered, Placement::re_zero,  Placement::layer_scale, Placement::layer_norm_scaling,
    Placement::sub_ln,    Placement::plain,    Placement::mix_ln,      Placement::normformer,
    Placement::admin,     Placement::t_fixup,  Placement::resi_dual};
INSTANTIATE_TEST_SUITE_P(OneStream, ProbeOfPlacement, testing::ValuesIn(kOneStream), placement_name);
INSTANTIATE_TEST_SUITE_P(SeveralStreams, ProbeOfPlacement,
                         testing::Values(Placement::hyper_connections, Placement::mhc), placement_name);
INSTANTIATE_TEST_SUITE_P(All, ProbeOfOneStream, testing::ValuesIn(kOneStream), placement_name);

}  // namespace
}  // namespace plumb::probe_test
