#include "plumb/probe.h"

#include <optional>
#include <unordered_map>

#include "kernels/reduce.h"
#include "model/run_observer.h"
#include "plumb/error.h"
#include "probe/record_file.h"
#include "probe/step_record.h"

namespace plumb {

struct Probe::Impl : RunObserver {
  Impl(const std::string& path, const ProbeOptions& o) : file(path), options(o) {}

  bool wants(int64_t step) override;
  void forward(const Site& site, const Tensor& value) override;
  void backward(const Site& site, const Tensor& value, const Tensor& gradient) override;
  void gradients(int64_t step, const ParameterTable& parameters, double clip_scale) override;
  void updates(int64_t step, const std::vector<ParameterUpdate>& updates) override;
  void finish(int64_t step, double loss, double learning_rate) override;

  RecordFile file;
  ProbeOptions options;

  // Of the step that is being sampled.
  std::optional<StepRecord> record;
  double clip = 1;
  std::vector<std::pair<const Parameter*, WeightSums>> weights;
  Tensor before;  // the stream as the last sub-layer received it, until the next site shows what became of it
  std::string before_site;  // that sub-layer
};

bool Probe::Impl::wants(int64_t step) {
  record.reset();
  weights.clear();
  before = Tensor();
  clip = 1;
  if (step != 1 && step % options.every != 0) return false;
  record.emplace();
  return true;
}

void Probe::Impl::forward(const Site& site, const Tensor& value) {
  const std::string_view quantity = site.quantity;
  if (quantity == "stream" || quantity == "output") {
    if (before.defined()) {
      const CosineSum c = row_cosines(before, value);
      CosineSum& sum = record->site(before_site).cosine;
      sum.sum += c.sum;
      sum.rows += c.rows;
    }
    before = quantity == "stream" ? value.without_grad() : Tensor();
    before_site = site.module;
  }
  record->site(site.module)[site.quantity].add(value);
}

void Probe::Impl::backward(const Site& site, const Tensor&, const Tensor& gradient) {
  record->site(site.module)[site.quantity].add_gradient(gradient);
}

void Probe::Impl::gradients(int64_t, const ParameterTable& parameters, double clip_scale) {
  clip = clip_scale;
  for (const auto& p : parameters.all()) {
    if (!p->trainable) continue;
    WeightSums sums{.count = p->value.numel(), .squares = sum_of_squares(p->value.numel(), p->value.f32())};
    if (const Tensor g = p->value.grad(); g.defined()) {
      sums.gradient_count = g.numel();
      sums.gradient_squares = sum_of_squares(g.numel(), g.f32());
    }
    weights.emplace_back(p.get(), sums);
  }
}

void Probe::Impl::updates(int64_t, const std::vector<ParameterUpdate>& updates) {
  std::unordered_map<const Parameter*, double> squares;
  for (const ParameterUpdate& u : updates) squares[u.parameter] = u.sum_of_squares;
  for (auto& [parameter, sums] : weights) {
    const auto found = squares.find(parameter);
    if (found == squares.end()) continue;
    sums.update_count = sums.count;
    sums.update_squares = found->second;
  }
}

void Probe::Impl::finish(int64_t step, double loss, double learning_rate) {
  if (!record) return;
  for (const auto& [parameter, sums] : weights) record->add_parameter(parameter->name, sums);
  file.append(step, record->line({step, loss, learning_rate, clip}));
  record.reset();
}

Probe::Probe(const std::string& path, const ProbeOptions& options) {
  if (options.every < 1) {
    throw Error(ErrorKind::usage,
                "the probe samples every k steps with k at least 1, not " + std::to_string(options.every));
  }
  impl_ = std::make_unique<Impl>(path, options);
}
Probe::~Probe() = default;
Probe::Probe(Probe&&) noexcept = default;
Probe& Probe::operator=(Probe&&) noexcept = default;

RunObserver* Probe::observer() {
  return impl_.get();
}

}  // namespace plumb
