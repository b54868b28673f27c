// Watches a model from inside, while it trains or runs: the residual stream and the branch of every
// sub-layer, where attention goes, the logits, gradients, what each update does to the weights, and how far
// the model's function has moved. Written as JSON lines, RUN/probe.jsonl of `plumb train`; `plumb report`
// draws them and `plumb diagnose` reads them. docs/probe.md has the formula, unit and place of every measure.
//
// One object a line, for each sampled step. Numbers have six significant digits; one that is not finite is
// null; a measure that does not apply is left out. A reader ignores keys it does not know.
//
//   {"step": 100, "loss": 2.31, "lr": 0.001, "grad_norm": 0.84, "clip": 1,
//    "sites": [{"at": "decoder.0.attention",
//               "stream":    {"rms": 1.0, "mean": 0.01, "mean_over_rms": 0.01, "max": 4.1, "median": 0.67,
//                             "kurtosis": 3.2, "grad_norm": 0.02, "grad_rms": 1.1e-5, "token_cosine": 0.1,
//                             "residual": 0.9, "effective_rank": 31.5},
//               "branch":    {the first eight of these},
//               "step":      {"ratio": 0.31, "cosine": 0.95, "angle": 0.1},
//               "streams":   {"cosine": 0.9, "amax": 1.2, "row_sum": 1.2, "least_row_sum": 0.9,
//                             "column_sum": 1.1, "least_column_sum": 0.9},
//               "attention": {"max_logit": 4.1, "entropy": 0.8, "least_entropy": 0.7, "first_mass": 0.04,
//                             "query_norm": 5.1, "key_norm": 5.2},
//               "scale":     {"alpha": 1, "gate": 1, "input": 1},
//               "weights":   {"grad_norm": 0.2, "grad_rms": 1e-4, "rms": 0.02, "update_rms": 2e-5,
//                             "update_ratio": 0.001}},
//              {"at": "decoder", "output": {as stream}, "layers": {"grad_first_over_last": 1.3, "grad_cv":
//              0.2,
//               "stream_grad_first_over_last": 1.1}},
//              {"at": "decoder.0", "layer": {"grad_norm": 0.3, "drop_loss": 0.2}},
//              {"at": "head", "logits": {"log_z": 8.1, "max": 9.2, "mean": -0.1, "rms": 1.2}},
//              {"at": "model", "function": {"loss": 2.3, "rms": 1.0, "drift": 0.4, "update": 0.01,
//               "perturbation": 0.3}}, ...],
//    "parameters": [{"at": "decoder.0.attention.query.weight", "grad_norm": 0.1, "grad_rms": 1e-4, "rms":
//    0.02,
//                    "update_rms": 2e-5, "update_ratio": 0.001, "grad_over_eps": 1e4}, ...]}
//
// Of a model that only runs, "step" is the number of the pass, from 1; "loss" is there where there is one;
// what belongs to training is not. Sites come in the order of the forward pass, after those that the fixed
// batch made; then one for each other place that has weights.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "plumb/dataset.h"
#include "plumb/model.h"

namespace plumb {

class RunObserver;  // internal: what trainer, evaluation and generator show their passes to

struct ProbeOptions {
  int64_t every = 10;   // steps (passes of a model that runs) between samples; the first is always sampled
  double adam_eps = 0;  // AdamW's epsilon, that gradients are set against; 0: they are not
};

class Probe {
 public:
  // Writes to `path` from the first sampled step on. Records that an earlier run left there are kept up to
  // that step and dropped from it on, so a resumed run continues its file. Throws Error(usage) for `every`
  // below 1; Error(file) comes from the step that cannot write.
  explicit Probe(const std::string& path, const ProbeOptions& options = {});
  ~Probe();
  Probe(Probe&&) noexcept;
  Probe& operator=(Probe&&) noexcept;

  // Also measures the model itself, on this batch, at every sampled step of its training: "model", "scale"
  // and the layers' "drop_loss". What it said at step 1 is kept beside the records, in
  // NAME.start.safetensors, for a run that goes on. The model has to outlive the probe; while it is measured,
  // no one else may use it.
  void measure_model(const Model& model, const Batch& batch);
  void measure_model(const Transformer& model, const Batch& batch);  // internal

  // Give this to Trainer::watch(), Generator::watch() or EvaluationOptions; it lives as long as the probe.
  RunObserver* observer();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// The batch for measure_model(): held-out rows (training rows where nothing is held out), of an eighth of a
// step's tokens, 64 to 256 of them. The same for every run on these data.
struct StepShape {
  int64_t tokens = 0;  // of a step, over all rows and micro-batches
  int64_t length = 0;  // of a row
};
Batch probe_batch(const Dataset& data, const StepShape& step);

}  // namespace plumb
