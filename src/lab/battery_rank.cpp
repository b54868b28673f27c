// Why shortcuts exist: what a stack without them does to training, and to the rank of its tokens.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/random.h"
#include "lab/battery.h"

namespace plumb::battery {
namespace {

// Attention alone, in f64: residuals fall below what f32 can tell from rounding within three layers, and no
// model of the engine is without feed-forwards.
struct Rank {
  bool causal = false, shortcut = false, normed = false;
  int64_t length = kLength, width = kWidth, heads = 4;

  using Matrix = std::vector<double>;  // (T, C), (C, C)

  static Matrix drawn(int64_t rows, int64_t columns, double std, RandomKey key) {
    Matrix m(static_cast<size_t>(rows * columns));
    for (size_t i = 0; i < m.size(); ++i) m[i] = std * random_normal(key, i);
    return m;
  }

  Matrix product(const Matrix& x, const Matrix& w) const {
    Matrix y(x.size());
    for (int64_t t = 0; t < length; ++t) {
      for (int64_t i = 0; i < width; ++i) {
        for (int64_t o = 0; o < width; ++o) y[t * width + o] += x[t * width + i] * w[i * width + o];
      }
    }
    return y;
  }

  void normalise(Matrix& x) const {
    for (int64_t t = 0; t < length; ++t) {
      double mean = 0, squares = 0;
      for (int64_t i = 0; i < width; ++i) mean += x[t * width + i] / static_cast<double>(width);
      for (int64_t i = 0; i < width; ++i) squares += std::pow(x[t * width + i] - mean, 2);
      const double scale = 1 / std::sqrt(squares / static_cast<double>(width));
      for (int64_t i = 0; i < width; ++i) x[t * width + i] = (x[t * width + i] - mean) * scale;
    }
  }

  Matrix attention(const Matrix& x, uint64_t seed, uint64_t layer) const {
    const double std = 1 / std::sqrt(static_cast<double>(width));
    Matrix part[4];
    for (uint64_t i = 0; i < 4; ++i) part[i] = drawn(width, width, std, {seed, random_stream(layer, i + 1)});
    const Matrix q = product(x, part[0]), k = product(x, part[1]), v = product(x, part[2]);
    Matrix mixed(x.size());
    const int64_t dim = width / heads;
    for (int64_t h = 0; h < heads; ++h) {
      for (int64_t t = 0; t < length; ++t) {
        const int64_t seen = causal ? t + 1 : length;
        std::vector<double> weights(static_cast<size_t>(seen));
        double most = -kAbove, sum = 0;
        for (int64_t s = 0; s < seen; ++s) {
          double logit = 0;
          for (int64_t i = h * dim; i < (h + 1) * dim; ++i) logit += q[t * width + i] * k[s * width + i];
          weights[s] = logit / std::sqrt(static_cast<double>(dim));
          most = std::max(most, weights[s]);
        }
        for (double& w : weights) sum += w = std::exp(w - most);
        for (int64_t s = 0; s < seen; ++s) {
          for (int64_t i = h * dim; i < (h + 1) * dim; ++i)
            mixed[t * width + i] += weights[s] / sum * v[s * width + i];
        }
      }
    }
    return product(mixed, part[3]);
  }

  // log10 of |X - 1 mean| / |X| before each layer and behind the last.
  std::vector<double> residuals(int64_t layers, uint64_t seed) const {
    Matrix x = drawn(length, width, 1, {seed, 0});
    std::vector<double> logs{residual(x)};
    for (int64_t l = 0; l < layers; ++l) {
      Matrix in = x;
      if (normed) normalise(in);
      Matrix y = attention(in, seed, static_cast<uint64_t>(l));
      for (size_t i = 0; shortcut && i < y.size(); ++i) y[i] += x[i];
      x = std::move(y);
      logs.push_back(residual(x));
    }
    return logs;
  }

  double residual(const Matrix& x) const {
    double off = 0, all = 0;
    for (int64_t i = 0; i < width; ++i) {
      double mean = 0;
      for (int64_t t = 0; t < length; ++t) mean += x[t * width + i] / static_cast<double>(length);
      for (int64_t t = 0; t < length; ++t) {
        off += std::pow(x[t * width + i] - mean, 2);
        all += std::pow(x[t * width + i], 2);
      }
    }
    return 0.5 * std::log10(std::max(off, 1e-300) / all);
  }
};

// Of the tokens of a whole pre-norm model of the engine, behind its last layer.
double token_residual(const ModelConfig& config, uint64_t seed) {
  struct Watch : Observer {
    void forward(const Site& site, const Tensor& value) override {
      if (std::string_view(site.quantity) == "output") last = value;
    }
    void backward(const Site&, const Tensor&, const Tensor&) override {}
    Tensor last;
  } watch;
  const auto model = started(config, {.seed = seed});
  Context context{.observer = &watch};
  model->encode(context, {.ids = random_rows(seed, 1).ids});
  const Tensor& x = watch.last;
  const Rank shape;
  Rank::Matrix values(x.f32(), x.f32() + x.numel());
  return std::pow(10, shape.residual(values));
}

}  // namespace

void skip_removal(const Setting& setting, BatteryExperiment& e) {
  e.x_name = "layer";
  e.y_name = "log10 of the tokens' relative residual";
  const auto draw = [&](const std::string& name, const Rank& rank, int64_t layers) {
    BatteryCurve curve{.name = name, .y = rank.residuals(layers, 1)};
    for (size_t i = 0; i < curve.y.size(); ++i) curve.x.push_back(static_cast<double>(i));
    e.curves.push_back(curve);
    return curve.y;
  };
  const auto normed = draw("attention with LayerNorm", {.normed = true}, 4);
  draw("attention alone", {}, 4);
  draw("attention with shortcut", {.shortcut = true, .normed = true}, 4);
  const auto causal = draw("causal attention with LayerNorm", {.causal = true, .normed = true}, 4);
  double least = kAbove, causal_most = 0;
  for (size_t i = 0; i + 1 < normed.size(); ++i) {
    if (normed[i] < -0.5 && normed[i + 1] > -14) least = std::min(least, normed[i + 1] / normed[i]);
  }
  for (size_t i = 0; i + 1 < causal.size(); ++i)
    causal_most = std::max(causal_most, causal[i] - causal[i + 1]);
  add(e, "attention with LayerNorm: least ratio of one layer's log residual to the one before", least, 2.8,
      {}, "cubic (Dong 2021); calibrated 3.6, 3.1");
  add(e, "causal: largest fall of a layer, in powers of ten", causal_most, {}, 1,
      "no collapse; calibrated 0.2 a layer");
  ModelConfig deep = small_config(Placement::pre_norm, 0);
  deep.encoder_layers = 24;
  add(e, "pre-norm with shortcuts, 24 layers: relative residual", token_residual(deep, 1), 0.3, {},
      "calibrated 10^-0.33");

  std::vector<Job> jobs;
  for (const Placement p : {Placement::plain, Placement::pre_norm}) {
    for (const int64_t layers : {2, 6, 12}) jobs.push_back({.config = small_config(p, layers)});
  }
  const auto trained = train_all(*setting.text, jobs);
  const double plateau = setting.text->unigram_entropy();
  note(e, "loss without context", plateau, "calibrated 3.39");
  for (size_t i = 0; i < 3; ++i) {
    const int64_t layers = jobs[i].config.decoder_layers;
    note(e, fmt::format("plain (no shortcuts), {} layers: loss", layers), trained[i].loss,
         "calibrated 2.16, 3.36, 3.39");
    note(e, fmt::format("pre-norm, {} layers: loss", layers), trained[3 + i].loss,
         "calibrated 1.87, 1.77, 1.74");
  }
  add(e, "plain (no shortcuts): loss of 12 layers less that of 2", trained[2].loss - trained[0].loss, 0.1, {},
      "rises");
  add(e, "plain (no shortcuts), 12 layers: loss less that without context", trained[2].loss - plateau, -0.1,
      {}, "stuck");
  add(e, "pre-norm: loss of 12 layers less that of 2", trained[5].loss - trained[3].loss, {}, 0, "falls");
}

}  // namespace plumb::battery
