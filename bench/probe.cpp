// What the probe costs: steps with and without it in turn, its line in the file included.
#include "plumb/probe.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <string>

#include "base/file.h"
#include "bench/bench.h"
#include "model/run_observer.h"
#include "train/optimizer.h"
#include "train/pass.h"

namespace plumb::bench {
namespace {

constexpr int kRuns = 20;
constexpr int64_t kEvery = 50, kBatch = 16, kLength = 128;

double seconds_of_step(TrainingRig& rig, const Batch& batch, RunObserver* observer) {
  const auto start = std::chrono::steady_clock::now();
  const int64_t step = ++rig.steps;
  if (observer && !observer->wants(step)) observer = nullptr;
  const StepSums sums = accumulate(rig.model, {batch}, rig.options, step, observer);
  const double scale = clip_factor(gradient_norm(rig.model.parameters()), rig.options.clip);
  if (observer) observer->gradients(step, rig.model.parameters(), scale);
  const auto& updates = rig.optimizer->step(1, scale);
  if (observer) {
    observer->updates(step, updates);
    observer->finish(step, sums.sums.loss / static_cast<double>(sums.sums.count), rig.options.lr);
  }
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

void bench_probe(const RowSink& row) {
  ModelConfig config;
  config.vocab_size = 2048;
  config.width = 192;
  config.layer.heads = 6;
  TrainingRig rig(config, {});
  const Batch batch = random_batch(kBatch, kLength, config.vocab_size);
  const std::string file = (std::filesystem::temp_directory_path() / "plumb-bench-probe.jsonl").string();
  Probe probe(file, {.every = 1, .adam_eps = 1e-8});
  probe.measure_model(rig.model, random_batch(2, kLength, config.vocab_size));
  rig.step(batch);  // the first one finds its memory
  double plain = 1e30, watched = 1e30;
  for (int i = 0; i < kRuns; ++i) {
    plain = std::min(plain, seconds_of_step(rig, batch, nullptr));
    watched = std::min(watched, seconds_of_step(rig, batch, probe.observer()));
  }
  remove_file(file);
  remove_file(file.substr(0, file.rfind('.')) + ".start.safetensors");
  const std::string shape =
      fmt::format("{} layers, {} wide, {} x {} tokens", config.decoder_layers, config.width, kBatch, kLength);
  const double cost = std::max(0.0, watched - plain);
  for (const int64_t every : {int64_t{1}, kEvery}) {
    const double each = cost / static_cast<double>(every);
    row({.name = every == 1 ? "probe on a sampled step" : fmt::format("probe every {} steps", every),
         .shape = shape,
         .rate = 1e3 * each,
         .unit = "ms/step",
         .peak = 1e3 * plain,
         .share = each / plain});
  }
}

}  // namespace plumb::bench
