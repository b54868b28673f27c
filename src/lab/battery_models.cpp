// The small models of the battery, and one pass of them.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/check.h"
#include "base/random.h"
#include "kernels/reduce.h"
#include "lab/battery.h"
#include "model/profile.h"

namespace plumb::battery {

ModelConfig small_config(Placement placement, int64_t layers) {
  ModelConfig c;
  c.vocab_size = kVocabulary;
  c.width = kWidth;
  c.max_length = kLength;
  c.decoder_layers = layers;
  c.layer.placement = placement;
  c.layer.norm = NormKind::layer_norm;
  c.layer.norm_eps = 1e-6;
  c.layer.heads = 4;
  c.layer.ffn_width = 4 * kWidth;
  c.layer.activation = Activation::relu;
  c.layer.gated = false;
  c.positions = Positions::learned;
  c.tied_embeddings = false;
  c.init = Init::xavier;
  c.init_std = 1 / std::sqrt(static_cast<double>(kWidth));
  return c;
}

std::unique_ptr<Transformer> started(const ModelConfig& config, const Start& start) {
  auto model = std::make_unique<Transformer>(config);
  model->parameters().initialize(start.seed);
  // Embeddings are drawn with the head's spread, unless they are of a length.
  const auto factor = static_cast<float>(start.embedding_std / config.init_std);
  for (const auto& p : model->parameters().all()) {
    if (p->role != Role::embedding || p->unit != UnitLength::none) continue;
    const float own = p->name.find("position") == std::string::npos ? factor : 0.1f * factor;
    for (int64_t i = 0; i < p->value.numel(); ++i) p->value.f32()[i] *= own;
  }
  if (wants_profile(config)) profile_shortcuts(*model, start.seed);
  return model;
}

Parameter& weight(const Transformer& model, const std::string& name) {
  Parameter* p = model.parameters().find(name);
  PLUMB_CHECK(p != nullptr, "no parameter {}", name);
  return *p;
}

double gradient_norm_of(const Parameter& p) {
  const Tensor g = p.value.grad();
  return g.defined() ? std::sqrt(sum_of_squares(g.numel(), g.f32())) : 0;
}

Rows random_rows(uint64_t seed, int64_t rows, int64_t length) {
  const auto draw = [&](uint64_t stream, const Shape& shape) {
    Tensor t = Tensor::empty(shape, DType::i32);
    for (int64_t i = 0; i < t.numel(); ++i) {
      t.data<int32_t>()[i] =
          static_cast<int32_t>(random_below({seed, stream}, static_cast<uint64_t>(i), kVocabulary));
    }
    return t;
  };
  return {draw(1, {rows, length}), draw(2, {rows * length})};
}

namespace {

Tensor hidden(Context& context, const Transformer& model, const Rows& rows) {
  const Tokens tokens{.ids = rows.ids};
  return model.config().has_encoder() ? model.encode(context, tokens) : model.decode(context, tokens);
}

}  // namespace

double loss_and_gradients(const Transformer& model, const Rows& rows, Observer* observer) {
  for (const auto& p : model.parameters().all()) p->value.clear_grad();
  Tape tape;
  Context context{.tape = &tape, .training = true, .observer = observer};
  const double scale = 1.0 / static_cast<double>(rows.targets.numel());
  const LossSums sums = model.loss(context, hidden(context, model, rows), rows.targets, {.scale = scale});
  tape.backward();
  return sums.loss * scale;
}

Tensor output_of(const Transformer& model, const Rows& rows) {
  Context context;
  return hidden(context, model, rows);
}

void Ends::forward(const Site& site, const Tensor& value) {
  const std::string_view quantity = site.quantity;
  if (quantity == "stream" && !first.defined()) first = value.clone();
  if (quantity == "output") last = value.clone();
}

void Ends::backward(const Site& site, const Tensor&, const Tensor& gradient) {
  const std::string_view quantity = site.quantity;
  const double size = std::sqrt(sum_of_squares(gradient.numel(), gradient.f32()));
  if (quantity == "output") top = size;
  if (quantity == "stream") bottom = size;  // the first layer's comes last
}

double rms(const Tensor& x) {
  return std::sqrt(sum_of_squares(x.numel(), x.f32()) / static_cast<double>(x.numel()));
}

double rms_difference(const Tensor& a, const Tensor& b) {
  double sum = 0;
  for (int64_t i = 0; i < a.numel(); ++i) {
    const double d = static_cast<double>(a.f32()[i]) - b.f32()[i];
    sum += d * d;
  }
  return std::sqrt(sum / static_cast<double>(a.numel()));
}

std::vector<double> stream_rms(const Transformer& model, const Rows& rows) {
  struct Watch : Observer {
    void forward(const Site& site, const Tensor& value) override {
      const std::string_view quantity = site.quantity;
      if (quantity == "stream" || quantity == "output") sizes.push_back(rms(value));
    }
    void backward(const Site&, const Tensor&, const Tensor&) override {}
    std::vector<double> sizes;
  } watch;
  Context context{.observer = &watch};
  hidden(context, model, rows);
  return watch.sizes;
}

std::string machines(const std::vector<BatteryExperiment>& experiments) {
  std::set<std::string> names;
  for (const BatteryExperiment& e : experiments) names.insert(e.machine);
  return fmt::format("{}", fmt::join(names, "; "));
}

void add(BatteryExperiment& e, const std::string& name, double value, std::optional<double> low,
         std::optional<double> high, const std::string& expected) {
  e.figures.push_back({name, value, low, high, expected});
}

}  // namespace plumb::battery
