// A training step as the trainer makes it: batch to gradients, clipping by global norm, AdamW.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "base/machine.h"
#include "bench/bench.h"
#include "kernels/gemm.h"
#include "plumb/config_fields.h"
#include "train/optimizer.h"
#include "train/pass.h"

namespace plumb::bench {
namespace {

using Clock = std::chrono::steady_clock;

}  // namespace

Batch random_batch(int64_t rows, int64_t length, int64_t vocabulary) {
  Batch b{.rows = rows, .length = length};
  const RandomKey key{1, 1};
  for (int64_t i = 0; i < rows * length; ++i) {
    b.ids.push_back(static_cast<int32_t>(random_below(key, 2 * i, vocabulary)));
    b.targets.push_back(static_cast<int32_t>(random_below(key, 2 * i + 1, vocabulary)));
  }
  b.mask.assign(b.ids.size(), 1);
  b.target_count = rows * length;
  return b;
}

TrainingRig::TrainingRig(const ModelConfig& config, const TrainOptions& o) : options(o), model(config) {
  model.parameters().initialize(1);
  optimizer.emplace(model.parameters(), options);
}

double TrainingRig::step(const Batch& batch) {
  const StepSums sums = accumulate(model, {batch}, options, ++steps, nullptr);
  const double scale = clip_factor(gradient_norm(model.parameters()), options.clip);
  optimizer->step(1, scale);
  return sums.sums.loss / static_cast<double>(sums.sums.count);
}

double TrainingRig::best_seconds(const Batch& batch, int runs) {
  step(batch);  // the first one finds its memory
  double best = 1e30;
  for (int i = 0; i < runs; ++i) {
    const auto start = Clock::now();
    step(batch);
    best = std::min(best, std::chrono::duration<double>(Clock::now() - start).count());
  }
  return best;
}

double TrainingRig::flops_per_token(int64_t length) const {
  const ModelConfig& c = model.config();
  double n = 0;
  for (const auto& p : model.parameters().all()) {
    if (!p->name.ends_with("position_embedding.weight")) n += static_cast<double>(p->shape.numel());
  }
  return 6 * n + 12.0 * static_cast<double>(c.encoder_layers + c.decoder_layers) *
                     static_cast<double>(c.width * length);
}

BenchRow bench_train_step(const ModelConfig& config, Precision dtype, int64_t batch, int64_t length) {
  const DType compute = dtype == Precision::bf16 ? DType::bf16 : DType::f32;
  TrainOptions options;
  options.lr = 1e-4;
  options.dtype = dtype;
  TrainingRig rig(config, options);
  const Batch tokens = random_batch(batch, length, config.vocab_size);
  const double flops = rig.flops_per_token(length) * static_cast<double>(batch * length);
  rig.step(tokens);  // the first one finds its memory
  const Round round = median_round(
      5, [&] { return gemm_peak(compute); },
      [&] {
        const auto start = Clock::now();
        rig.step(tokens);
        return 1e-9 * flops / std::chrono::duration<double>(Clock::now() - start).count();
      });
  return {.name = fmt::format("train step {}", enum_name(dtype)),
          .shape = fmt::format("{} layers, {} wide, {:.0f} M parameters, {} x {} tokens",
                               config.encoder_layers + config.decoder_layers, config.width,
                               static_cast<double>(rig.model.parameters().count()) * 1e-6, batch, length),
          .rate = round.rate,
          .unit = "GF/s",
          .peak = round.roof,
          .share = round.share(),
          .resident_gb = static_cast<double>(peak_resident_bytes()) * 1e-9};
}

}  // namespace plumb::bench
