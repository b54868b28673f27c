// Cost against length and depth: time and memory per token must not grow with the square of either.
#include <fmt/format.h>

#include "bench/bench.h"
#include "tensor/memory.h"

namespace plumb::bench {
namespace {

ModelConfig small(int64_t layers, int64_t width) {
  ModelConfig c;
  c.vocab_size = 512;
  c.width = width;
  c.max_length = 8192;
  c.decoder_layers = layers;
  c.layer.heads = 4;
  return c;
}

// Time per token of a training step, and the bytes that its tensors held at once.
std::vector<BenchRow> cost(const ModelConfig& config, int64_t batch, int64_t length) {
  TrainOptions options;
  TrainingRig rig(config, options);
  reset_peak_memory();
  const double seconds = rig.best_seconds(random_batch(batch, length, config.vocab_size), 2);
  const auto tokens = static_cast<double>(batch * length);
  const std::string shape =
      fmt::format("{} layers, {} wide, {} x {} tokens", config.decoder_layers, config.width, batch, length);
  return {{.name = "time per token", .shape = shape, .rate = seconds / tokens * 1e6, .unit = "us/token"},
          {.name = "memory per token",
           .shape = shape,
           .rate = static_cast<double>(peak_memory() - live_memory()) / tokens / 1024,
           .unit = "KiB/token"}};
}

}  // namespace

void bench_length(const RowSink& row) {
  for (const int64_t length : {128, 512, 2048, 8192}) {
    for (const BenchRow& r : cost(small(2, 256), 8192 / length, length)) row(r);
  }
}

void bench_depth(const RowSink& row) {
  for (const int64_t layers : {2, 8, 32, 96}) {
    for (const BenchRow& r : cost(small(layers, 128), 4, 128)) row(r);
  }
}

// A thousand layers under DeepNorm: 2,000 sub-layers that train from the first step.
void bench_deep(const RowSink& row) {
  ModelConfig config = small(1000, 64);
  config.layer.placement = Placement::deep_norm;
  TrainOptions options;
  options.lr = 1e-3;
  TrainingRig rig(config, options);
  const Batch batch = random_batch(2, 32, 64);
  for (int step = 1; step <= 50; ++step) {
    const double loss = rig.step(batch);
    if (step == 1 || step % 10 == 0) {
      row({.name = fmt::format("loss at step {}", step),
           .shape = "1000 layers, DeepNorm, 64 wide, 2 x 32 tokens",
           .rate = loss,
           .unit = "nats"});
    }
  }
}

}  // namespace plumb::bench
