// The cases of `plumb bench`: each measures one thing and returns its rate beside the roof measured in the
// same run. Weights are random.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "kernels/norm.h"
#include "model/transformer.h"
#include "plumb/bench.h"
#include "plumb/dataset.h"
#include "train/optimizer.h"

namespace plumb::bench {

using RowSink = std::function<void(const BenchRow&)>;

// A rate beside its roof. The roof is measured before and after each round, and the round with the median
// share counts: a machine that others use too is now faster, now slower, and the two must be of one moment.
struct Round {
  double rate = 0, roof = 0;  // in one unit
  double share() const { return rate / roof; }
};
Round median_round(int rounds, const std::function<double()>& roof, const std::function<double()>& rate);

ModelConfig gpt2_124m();  // GPT-2's smallest shape, 50257 tokens, tied

// A batch of one behind a prompt of 64. The first row is the rate of the weights' bytes, each multiplied
// weight once a token, against the memory's read bandwidth; the second is tokens/s.
std::vector<BenchRow> bench_decode(const ModelConfig& config, DType weights);

// One prompt read at once, logits of its last position alone; products of layers and attention's visible
// half, against gemm_peak().
BenchRow bench_prefill(const ModelConfig& config, DType weights, int64_t length);

// A model with its optimizer, and steps of it as the trainer makes them.
struct TrainingRig {
  TrainingRig(const ModelConfig& config, const TrainOptions& options);

  double step(const Batch& batch);  // forward, backward, clipping, AdamW; the mean loss before the update
  double best_seconds(const Batch& batch, int runs);
  // 6 N + 12 L C T, N without position tables.
  double flops_per_token(int64_t length) const;

  TrainOptions options;
  Transformer model;
  std::optional<Optimizer> optimizer;
  int64_t steps = 0;
};
Batch random_batch(int64_t rows, int64_t length, int64_t vocabulary);

BenchRow bench_train_step(const ModelConfig& config, Precision dtype, int64_t batch, int64_t length);

// Residual add and norm in one pass: {forward, backward} against the bandwidth of a copy.
std::vector<BenchRow> bench_residual_norm(RowNorm kind);

// Time that the probe adds to a step of a small decoder, beside the step's own.
void bench_probe(const RowSink& row);

void bench_tokenizers(const BenchFiles& files, const RowSink& row);

void bench_length(const RowSink& row);
void bench_depth(const RowSink& row);
void bench_deep(const RowSink& row);

}  // namespace plumb::bench
