#include "plumb/probe.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <unordered_map>

#include "base/file.h"
#include "kernels/reduce.h"
#include "model/run_observer.h"
#include "model/safetensors.h"
#include "plumb/error.h"
#include "probe/model_measures.h"
#include "probe/record_file.h"
#include "probe/step_record.h"

namespace plumb {

struct Probe::Impl : RunObserver {
  Impl(const std::string& p, const ProbeOptions& o) : path(p), file(p), options(o) {}

  bool wants(int64_t step) override;
  void sequence(const std::string& stack, const Tensor& mask) override;
  void streams(const std::string& module, const Tensor& x, const Tensor& res) override;
  void attention(const std::string& module, const ops::AttentionInput& input) override;
  void logits(const Tensor& logits) override;
  void forward(const Site& site, const Tensor& value) override;
  void backward(const Site& site, const Tensor& value, const Tensor& gradient) override;
  void gradients(int64_t step, const ParameterTable& parameters, double clip_scale) override;
  void updates(int64_t step, const std::vector<ParameterUpdate>& updates) override;
  void finish(int64_t step, double loss, double learning_rate) override;
  bool wants_pass() override;
  void finish_pass(std::optional<double> loss) override;

  void write(const StepRecord::Outcome& outcome);
  void measure_model(int64_t step);
  void measure_move();
  void keep_start(int64_t step, const Tensor& output);
  void add_scales();
  std::string start_path() const;

  std::string path;
  RecordFile file;
  ProbeOptions options;
  int64_t passes = 0;

  const Transformer* model = nullptr;  // with the fixed batch, where there is one
  std::optional<ModelMeasures> fixed;
  std::optional<ModelMeasures::Function> at;  // F before the step that is being sampled
  Tensor start;                               // F at the run's first step

  // Of the step that is being sampled.
  std::optional<StepRecord> record;
  double clip = 1;
  std::vector<ParameterRecord> weights;
  Tensor mask;              // of the stack that runs
  StreamProducts products;  // of its maps so far
  Tensor before;  // the stream as the last sub-layer received it, until the next site shows what became of it
  std::string before_site;  // that sub-layer
};

bool Probe::Impl::wants(int64_t step) {
  record.reset();
  weights.clear();
  mask = before = Tensor();
  at.reset();
  clip = 1;
  if (step != 1 && step % options.every != 0) return false;
  record.emplace();
  if (fixed) measure_model(step);
  return true;
}

void Probe::Impl::sequence(const std::string&, const Tensor& real) {
  mask = real;
  products = {};
  before = Tensor();
}

void Probe::Impl::streams(const std::string& module, const Tensor& x, const Tensor& res) {
  products.apply(res, mask);
  record->site(module).streams.add(products, x, res.width());
}

void Probe::Impl::attention(const std::string& module, const ops::AttentionInput& input) {
  record->site(module).attention.add(input, mask);
}

void Probe::Impl::logits(const Tensor& logits) {
  record->site("head").logits.add(logits);
}

void Probe::Impl::forward(const Site& site, const Tensor& value) {
  const std::string_view quantity = site.quantity;
  SiteRecord& here = record->site(site.module);
  here[site.quantity].add(value);
  if (quantity != "stream" && quantity != "output") return;
  here.geometry += token_geometry(value, mask);
  if (before.defined()) record->site(before_site).cosine += row_cosines(before, value);
  before = quantity == "stream" ? value.without_grad() : Tensor();
  before_site = site.module;
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
    weights.push_back({p.get(), sums, extent_of(*p)});
  }
}

void Probe::Impl::updates(int64_t, const std::vector<ParameterUpdate>& updates) {
  std::unordered_map<const Parameter*, double> squares;
  for (const ParameterUpdate& u : updates) squares[u.parameter] = u.sum_of_squares;
  for (ParameterRecord& p : weights) {
    const auto found = squares.find(p.parameter);
    if (found == squares.end()) continue;
    p.sums.update_count = p.sums.count;
    p.sums.update_squares = found->second;
  }
}

void Probe::Impl::finish(int64_t step, double loss, double learning_rate) {
  if (!record) return;
  for (const ParameterRecord& p : weights) record->add_parameter(p);
  if (fixed) {
    add_scales();
    measure_move();
  }
  write({.step = step,
         .loss = loss,
         .training = StepRecord::Training{
             .learning_rate = learning_rate, .clip_scale = clip, .adam_eps = options.adam_eps}});
}

bool Probe::Impl::wants_pass() {
  return wants(++passes);
}

void Probe::Impl::finish_pass(std::optional<double> loss) {
  if (record) write({.step = passes, .loss = loss});
}

void Probe::Impl::write(const StepRecord::Outcome& outcome) {
  file.append(outcome.step, record->line(outcome));
  record.reset();
}

// On the weights before the step, so that the first record is of the run's start.
void Probe::Impl::measure_model(int64_t step) {
  at = fixed->run();
  keep_start(step, at->output);
  const double loss = at->loss;
  auto& function = record->site("model").numbers["function"];
  function["loss"] = loss;
  function["rms"] = std::sqrt(sum_of_squares(at->output.numel(), at->output.f32()) /
                              static_cast<double>(at->output.numel()));
  if (start.defined()) function["drift"] = rms_of_difference(at->output, start);
  if (const auto p = fixed->perturbation(*at)) function["perturbation"] = *p;
  for (const DropLoss& d : fixed->drop_losses(loss))
    record->site(d.layer).numbers["layer"]["drop_loss"] = d.loss;
}

void Probe::Impl::measure_move() {
  record->site("model").numbers["function"]["update"] = rms_of_difference(fixed->run().output, at->output);
}

std::string Probe::Impl::start_path() const {
  const bool lines = path.ends_with(".jsonl");
  return path.substr(0, path.size() - (lines ? 6 : 0)) + ".start.safetensors";
}

// F at the first step, which a run that goes on finds in the file beside its records.
void Probe::Impl::keep_start(int64_t step, const Tensor& output) {
  if (step == 1) {
    start = output.clone();
    write_safetensors(start_path(), {{.name = "output", .value = start}});
  } else if (!start.defined() && path_exists(start_path())) {
    const Tensor kept = SafetensorsFile(start_path()).tensor("output", DType::f32);
    if (kept.shape() == output.shape()) start = kept;
  }
}

// The constants of each sub-layer's formula; what is learned stands with the parameters.
void Probe::Impl::add_scales() {
  const ModelConfig& c = model->config();
  const auto add = [&](Side side, const char* stack, int64_t layers, bool memory) {
    const auto shared = [&](int64_t i) { return layer_config(c, side, i).parallel != Parallel::no; };
    for (int64_t i = 0; i < layers; ++i) {
      const SublayerFormula f = sublayer_formula(c, side, i);
      for (const char* part : {"attention", "cross_attention", "feed_forward"}) {
        if (!memory && std::string_view(part) == "cross_attention") continue;
        if (shared(i) && std::string_view(part) == "feed_forward") continue;
        auto& scale =
            record->site(std::string(stack) + "." + std::to_string(i) + "." + part).numbers["scale"];
        if (!f.unit && f.streams == 1 && f.shortcut == GateKind::constant) scale["alpha"] = f.alpha;
        scale["input"] = f.s;
        if (f.gate == GateKind::constant) scale["gate"] = f.gate_value;
      }
    }
  };
  add(Side::encoder, "encoder", c.encoder_layers, false);
  add(Side::decoder, "decoder", c.decoder_layers, c.has_encoder());
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

void Probe::measure_model(const Model& model, const Batch& batch) {
  measure_model(model.transformer(), batch);
}

void Probe::measure_model(const Transformer& model, const Batch& batch) {
  if (batch.target_count == 0) return;
  impl_->model = &model;
  impl_->fixed.emplace(model, batch);
}

RunObserver* Probe::observer() {
  return impl_.get();
}

Batch probe_batch(const Dataset& data, const StepShape& step) {
  constexpr int64_t kLeast = 64, kMost = 256;
  const int64_t tokens = std::clamp(step.tokens / 8, kLeast, kMost), length = std::min(step.length, tokens);
  const int64_t rows = std::max<int64_t>(1, tokens / length);
  if (data.evaluation_batches(Split::validation, rows, length, 1) > 0) {
    return data.evaluation_batch(Split::validation, 0, rows, length);
  }
  return data.batch(1, 0, rows, length);
}

}  // namespace plumb
