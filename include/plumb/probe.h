// Watches a training run from inside: the residual stream and the branch of every sub-layer, their gradients,
// and what each update does to the weights. Written as probe.jsonl; `plumb report` draws it.
//
// The file has one JSON object a line, for each sampled step. Numbers have six significant digits; one that
// is not finite is null; a measure that does not apply is left out. A reader ignores keys it does not know.
//
//   {"step": 100, "loss": 2.31, "lr": 0.001, "grad_norm": 0.84, "clip": 1,
//    "sites": [{"at": "decoder.0.attention",
//               "stream":  {"rms": 1.0, "mean": 0.01, "max": 4.1, "median": 0.67, "kurtosis": 3.2,
//                           "grad_norm": 0.02, "grad_rms": 1.1e-5},
//               "branch":  {the same measures},
//               "step":    {"ratio": 0.31, "cosine": 0.95},
//               "weights": {"grad_norm": 0.2, "rms": 0.02, "update_rms": 2e-5, "update_ratio": 0.001}}, ...],
//    "parameters": [{"at": "decoder.0.attention.query.weight",
//                    "grad_norm": 0.1, "rms": 0.02, "update_rms": 2e-5, "update_ratio": 0.001}, ...]}
//
// "step", "loss", "lr" are those of metrics.jsonl. "grad_norm" is over all parameters before clipping; "clip"
// is the factor on the gradients in the update (1: not clipped).
//
// "sites" come in the order of the forward pass: one for each sub-layer ("decoder.0.attention") and one for
// each stack ("decoder"); then one for each other place that has weights ("token_embedding"). A site holds
// quantities, a quantity holds measures:
//
// - "stream" is the residual stream as the sub-layer receives it; "branch" is F with its N_in and N_branch,
//   after dropout and before the factor g; "output", of a stack, is the stream that leaves its last layer.
//   Over all elements, padding included, of the micro-batches that are shown (of a step's, the trainer shows
//   the first): rms, mean, max of |x|, median of |x| (by sampling), kurtosis (mean(x^4) / mean(x^2)^2: 3 for
//   a normal, large where few elements hold most), not_finite (how many, where there are any), and of the
//   loss's gradient with respect to it: grad_norm and grad_rms.
// - "step" is what a sub-layer does to its stream. ratio: rms(branch) / rms(stream), without alpha and g.
//   cosine: of the stream before and after, mean over a sample of at most 256 tokens of each micro-batch.
// - "weights" are the site's own parameters together. grad_norm before clipping; rms of the values before the
//   update; update_rms of (after - before); update_ratio: update_rms / rms.
//
// "parameters" are the same for each trainable tensor, in the order of the parameter table.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace plumb {

class RunObserver;  // internal: what a trainer shows its steps to

struct ProbeOptions {
  int64_t every = 10;  // steps between samples; the first step is always sampled
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

  // Give this to the trainer; it lives as long as the probe.
  RunObserver* observer();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace plumb
