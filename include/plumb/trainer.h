// Trains a model on a dataset and leaves a run folder:
//
//   model/         the best model so far as a Hugging Face folder, tokenizer.json included; where an adapter
//                  trains, the adapter alone, in PEFT's layout
//   checkpoints/   step-00000100.safetensors: everything that the run needs to go on, the newest few
//   metrics.jsonl  one JSON object a line
//   recipe.toml, tokenizer.json  what the run was asked to do, where the command `plumb train` made it
//
// metrics.jsonl has a line for each step, and one for each evaluation behind the line of its step:
//
//   {"step":1,"loss":8.3,"nll":8.3,"lr":0.0001,"grad_norm":1.2,"tokens":4096,"seconds":0.31}
//   {"step":100,"validation_loss":6.1,"perplexity":445.9,"bits_per_byte":2.4,"accuracy":0.12,
//    "exact":0.5,"seconds":1.1}
//
// "loss" is what is minimised (label smoothing, z-loss and the experts' balance included), "nll" the plain
// negative log likelihood, both per target; "tokens" counts real input tokens; "seconds" is what the line
// itself took. A step whose loss or gradient is not finite has null there and "skipped":true; "spike":true
// marks a spike; "balance" is the experts' load-balancing loss, where there are experts. "bits_per_byte" is
// there for text, "exact" (the share of sequences that greedy decoding gets entirely right) for
// sequence-to-sequence tasks.
//
// The same binary, seed and thread count give the same losses bit for bit, also across a stop at any point
// (kill -9 included) and a resume.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plumb/adapter.h"
#include "plumb/config.h"
#include "plumb/config_fields.h"
#include "plumb/dataset.h"
#include "plumb/model.h"

namespace plumb {

class RunObserver;  // internal: Probe::observer() is one

enum class OptimizerKind {
  adamw,  // Loshchilov and Hutter 2019, 1711.05101
  sgd,
  muon,  // Jordan et al. 2024, for the matrices of hidden layers; everything else by AdamW
};
enum class ScheduleKind { constant, linear, cosine, inverse_sqrt, wsd };  // wsd: warm up, stay, decay
enum class Precision { f32, bf16 };  // of products; sums, weights and all else are f32
enum class SpikeAction { log, skip };

template <>
struct EnumNames<OptimizerKind> {
  static constexpr std::array names{"adamw", "sgd", "muon"};
};
template <>
struct EnumNames<ScheduleKind> {
  static constexpr std::array names{"constant", "linear", "cosine", "inverse-sqrt", "wsd"};
};
template <>
struct EnumNames<Precision> {
  static constexpr std::array names{"f32", "bf16"};
};
template <>
struct EnumNames<SpikeAction> {
  static constexpr std::array names{"log", "skip"};
};

struct TrainOptions {
  int64_t steps = 1000;
  int64_t batch = 16;        // rows of a micro-batch
  int64_t accumulation = 1;  // micro-batches of a step
  int64_t length = 128;      // tokens of a row

  OptimizerKind optimizer = OptimizerKind::adamw;
  double lr = 1e-3;
  double beta1 = 0.9, beta2 = 0.95, eps = 1e-8;
  double weight_decay = 0.1;  // decoupled for adamw and muon; of matrices and embeddings only
  double momentum = 0.95;     // sgd, muon
  double muon_lr = 0.02;      // of the matrices that muon updates; the schedule scales both

  ScheduleKind schedule = ScheduleKind::cosine;
  int64_t warmup = 0;           // steps; step 1 of warmup 4 runs at lr/4, step 4 at lr
  double min_lr = 0.1;          // where the decay ends, as a share of lr
  double decay_fraction = 0.2;  // of the steps, at the end: wsd

  double clip = 1;  // global norm of the gradient; 0: no clipping
  double label_smoothing = 0;
  double z_loss = 0;
  Precision dtype = Precision::f32;
  bool recompute = false;
  bool plain = false;
  uint64_t seed = 0;

  int64_t eval_every = 100;        // steps; 0: at the end only
  int64_t eval_batches = 20;       // at most; 0: the whole held-out part
  int64_t checkpoint_every = 100;  // steps; 0: at the end only
  int64_t keep_checkpoints = 2;

  int64_t spike_window = 50;  // steps whose losses a new one is compared with; 0: no watch
  double spike_z = 6;         // standard deviations above their mean that make a spike
  SpikeAction spike = SpikeAction::log;
  int64_t most_skips = 10;  // skipped steps in a row that end the run

  std::vector<std::string> freeze;  // prefixes of parameters that stay as they are
  AdapterOptions lora;              // a fresh adapter, which alone trains
  bool allow_unreached = false;

  bool operator==(const TrainOptions&) const = default;
};

// Lists every field once: visitor(name, field, help). Names are snake_case in files, dashed as flags.
template <class Options, class Visitor>
void visit_train(Options& o, Visitor&& v) {
  v("steps", o.steps, "updates to make");
  v("batch", o.batch, "sequences of a micro-batch");
  v("accumulation", o.accumulation, "micro-batches of a step");
  v("length", o.length, "tokens of a sequence");
  v("optimizer", o.optimizer, "how gradients become updates");
  v("lr", o.lr, "highest learning rate");
  v("beta1", o.beta1, "AdamW: memory of the gradient's mean");
  v("beta2", o.beta2, "AdamW: memory of the gradient's square");
  v("eps", o.eps, "AdamW: epsilon beside the root");
  v("weight_decay", o.weight_decay, "decay of matrices and embeddings; never of biases, gains and gates");
  v("momentum", o.momentum, "SGD and Muon: memory of the gradient");
  v("muon_lr", o.muon_lr, "Muon: highest learning rate of the matrices of hidden layers");
  v("schedule", o.schedule, "how the learning rate goes on after warmup");
  v("warmup", o.warmup, "steps over which the learning rate rises: step 1 runs at lr / warmup");
  v("min_lr", o.min_lr, "share of the learning rate that is left at the end");
  v("decay_fraction", o.decay_fraction, "share of the steps, at the end, that wsd decays over");
  v("clip", o.clip, "largest global norm of the gradient (0: no clipping)");
  v("label_smoothing", o.label_smoothing, "probability that the target shares with all tokens");
  v("z_loss", o.z_loss, "weight of the squared log of the softmax's normaliser");
  v("dtype", o.dtype, "what products are computed in; sums and weights are f32");
  v("recompute", o.recompute, "keep only the inputs of layers, and run each again in the backward pass");
  v("plain", o.plain, "the plain composition of ops in place of fused kernels");
  v("seed", o.seed, "of initial weights, order of the data and dropout");
  v("eval_every", o.eval_every, "steps between evaluations (0: at the end only)");
  v("eval_batches", o.eval_batches, "most batches of an evaluation (0: the whole held-out part)");
  v("checkpoint_every", o.checkpoint_every, "steps between checkpoints (0: at the end only)");
  v("keep_checkpoints", o.keep_checkpoints, "newest checkpoints that are kept");
  v("spike_window", o.spike_window,
    "steps whose losses a new loss is compared with (0: no watch for spikes)");
  v("spike_z", o.spike_z, "standard deviations above their mean from which a loss is a spike");
  v("spike", o.spike, "what to do about a spike: log it, or skip its update too");
  v("most_skips", o.most_skips, "skipped steps in a row that end the run");
  v("freeze", o.freeze, "prefixes of the names of parameters that stay as they are");
  v("lora", o.lora.rank, "rank of an adapter (LoRA) that alone trains, beside a model of --from (0: none)");
  v("lora_alpha", o.lora.alpha, "its change is weighed by this / rank (0: the rank)");
  v("lora_dropout", o.lora.dropout, "its dropout");
  v("lora_targets", o.lora.targets,
    "names of its linear maps in the file, or what they end in (q_proj), or one regular expression "
    "for "
    "whole names (default: all-linear, every map of the layers but routers and routed experts)");
  v("dora", o.lora.dora, "it has magnitudes, too (DoRA)");
  v("rslora", o.lora.rslora, "it is weighed by lora_alpha / sqrt(rank)");
  v("allow_unreached", o.allow_unreached, "train although the backward pass reaches not every parameter");
}

// Throws Error(usage) naming the first option that is out of range.
void validate(const TrainOptions& options);

// The learning rate of a step (from 1), as a share of `lr`.
double schedule_factor(const TrainOptions& options, int64_t step);

struct StepMetrics {
  int64_t step = 0;  // from 1
  double loss = 0, nll = 0, balance = 0;
  double learning_rate = 0;
  double gradient_norm = 0;  // before clipping
  int64_t targets = 0, tokens = 0;
  double seconds = 0;
  bool skipped = false, spike = false;
};

struct Evaluation {
  double loss = 0;  // negative log likelihood per target
  double perplexity = 0;
  double accuracy = 0;                  // share of targets that are the likeliest token
  std::optional<double> bits_per_byte;  // text that is read token by token
  std::optional<double> exact;          // sequence-to-sequence, by greedy decoding
  int64_t targets = 0;
  double seconds = 0;
};

struct EvaluationOptions {
  Split split = Split::validation;
  int64_t batch = 16;
  int64_t length = 128;
  int64_t batches = 0;  // at most; 0: all
  Precision dtype = Precision::f32;
  RunObserver* observer = nullptr;  // sees each batch as a pass; null: nobody
};

// How well the model does on a part of the data. Throws Error(input) where that part is empty.
Evaluation evaluate(const Model& model, const Dataset& data, const EvaluationOptions& options);

// Writes the logits (1, T, V) of one sequence, of the decoder's ids where there is an encoder before it, as
// the tensor "logits" of a safetensors file. Throws Error(usage, input, file).
void write_logits(const Model& model, const std::vector<int32_t>& ids,
                  const std::vector<int32_t>& decoder_ids, const std::string& path);

struct TrainCallbacks {
  std::function<void(const StepMetrics&)> step;
  std::function<void(int64_t step, const Evaluation&)> evaluation;
};

struct TrainResult {
  int64_t step = 0;  // that the run ended with
  int64_t skipped = 0, spikes = 0;
  double last_loss = 0;
  std::optional<double> best_validation;  // loss
  int64_t best_step = 0;                  // that model/ is from
  double seconds = 0;                     // of this call
  double tokens_per_second = 0;
  double peak_share = 0;  // of the best matrix product measured at the start
};

// Threads: one at a time, and it wants the model alone. Model and dataset have to outlive it.
class Trainer {
 public:
  // Makes the folder, and locks it while this lives. Throws Error(usage) for options out of range or a folder
  // that another process uses, Error(config) where model and data do not fit together, Error(file).
  Trainer(Model& model, const Dataset& data, const TrainOptions& options, const std::string& folder);
  ~Trainer();
  Trainer(Trainer&&) noexcept;

  void watch(RunObserver* observer);  // null: nobody; lives until run() ends

  // Goes back to the newest whole checkpoint of the folder, and returns its step; 0 where there is none. One
  // that is cut or damaged is passed over with a notice. Throws Error(input) where the data are not those of
  // the run.
  int64_t resume();

  // Trains up to `steps`. A folder that already holds a run is refused unless resume() came before. Throws
  // Error(interrupted) after a stop was asked for (plumb/signal.h), with a checkpoint written; Error(numeric)
  // after too many skipped steps; Error(config) for a parameter that the backward pass never reaches;
  // Error(file).
  TrainResult run(const TrainCallbacks& callbacks = {});

  static bool holds_run(const std::string& folder);  // metrics or checkpoints of an earlier one

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// The recipes that the library carries: their names ("default"), and the text of one. Error(usage) with the
// nearest name for one that is not there.
std::vector<std::string> recipe_names();
std::string recipe_text(const std::string& name);

}  // namespace plumb
