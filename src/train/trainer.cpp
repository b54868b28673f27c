#include "plumb/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/machine.h"
#include "base/progress.h"
#include "kernels/gemm.h"
#include "kernels/reduce.h"
#include "model/profile.h"
#include "plumb/error.h"
#include "plumb/signal.h"
#include "plumb/suggest.h"
#include "train/checkpoint.h"
#include "train/coverage.h"
#include "train/metrics.h"
#include "train/pass.h"

namespace plumb {
namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

bool due(int64_t step, int64_t every, int64_t last) {
  return step == last || (every > 0 && step % every == 0);
}

// The best product's rate on this machine, measured once in a process; 0 where nobody would see it.
double peak_rate(DType compute) {
  if (log_level() > LogLevel::info) return 0;
  static double f32 = 0, bf16 = 0;
  double& rate = compute == DType::bf16 ? bf16 : f32;
  if (rate == 0) rate = gemm_peak(compute);
  return rate;
}

void check_fit(const ModelConfig& config, const Dataset& data, const TrainOptions& options) {
  const auto refuse = [](const std::string& what) { throw Error(ErrorKind::config, what); };
  const DatasetKind kind = data.kind();
  const bool encoder = kind != DatasetKind::language_model, decoder = kind != DatasetKind::masked;
  if (config.has_encoder() != encoder || config.has_decoder() != decoder) {
    refuse(fmt::format("the data ({}) are for {}, but the model has {} encoder and {} decoder layers",
                       data.describe(),
                       encoder && decoder ? "an encoder-decoder"
                       : encoder          ? "an encoder"
                                          : "a decoder",
                       config.encoder_layers, config.decoder_layers));
  }
  if (config.head != Head::language_model)
    refuse("a model is trained through its head: --head language-model");
  if (data.vocab_size() > config.vocab_size) {
    refuse(fmt::format("the tokenizer has {} tokens, more than the model's vocabulary of {}",
                       data.vocab_size(), config.vocab_size));
  }
  if (options.length > config.max_length) {
    throw Error(ErrorKind::usage,
                fmt::format("--length is {}: the model takes at most {} tokens (--max-length)",
                            options.length, config.max_length));
  }
}

std::string data_fingerprint(const Dataset& data) {
  return fmt::format("{} {} {} {}", static_cast<int>(data.kind()), hash_hex(data.tokenizer().fingerprint()),
                     data.token_count(Split::train), data.token_count(Split::validation));
}

// Of the weights that an adapter is beside; "" where all are a checkpoint's.
std::string base_fingerprint(const ParameterTable& table) {
  if (!table.adapted()) return "";
  Hash hash;
  for (const auto& p : table.all()) {
    if (!p->adapts) hash.add(hash_bytes({static_cast<const char*>(p->value.raw()), p->value.bytes()}));
  }
  return hash_hex(hash.value());
}

// Stops where a prefix names nothing; a mistyped one would train what was to stay.
void freeze(Model& model, const std::vector<std::string>& prefixes) {
  if (prefixes.empty()) return;
  std::vector<std::string> names;
  for (const ParameterInfo& p : model.parameters()) names.push_back(p.name);
  for (const std::string& prefix : prefixes) {
    const auto matches = [&](const std::string& name) { return name.starts_with(prefix); };
    if (std::none_of(names.begin(), names.end(), matches)) {
      throw Error(ErrorKind::usage,
                  fmt::format("--freeze {}: no parameter's name begins so{}; plumb info lists them", prefix,
                              did_you_mean(prefix, names)));
    }
  }
  model.freeze([&](const std::string& name) {
    return std::any_of(prefixes.begin(), prefixes.end(), [&](const auto& p) { return name.starts_with(p); });
  });
}

Model& prepared(Model& model, const Dataset& data, const TrainOptions& options) {
  validate(options);
  check_fit(model.config(), data, options);
  if (!options.recompute) {
    const ModelCost cost = model.cost(options.length);
    const auto tokens = static_cast<double>(options.batch * options.length);
    expect_memory(static_cast<double>(cost.weight_bytes) +
                      static_cast<double>(cost.activation_bytes_per_token) * tokens,
                  fmt::format("a micro-batch of {} sequences (--batch) of {} tokens (--length)",
                              options.batch, options.length));
  }
  data.batch(1, 0, 1, options.length);  // throws where the text is too short for one window
  if (options.lora.rank > 0) model.adapt(options.lora, options.seed);
  model.make_trainable();
  freeze(model, options.freeze);
  return model;
}

}  // namespace

struct Trainer::Impl {
  Impl(Model& m, const Dataset& d, const TrainOptions& o, const std::string& f);

  int64_t resume();
  TrainResult run(const TrainCallbacks& callbacks);

  StepMetrics step();
  void profile();
  void reach(const StepSums& sums, StepMetrics& m);
  void update(const StepMetrics& m, double scale, bool watched);
  void explain_skip(const StepMetrics& m, const Verdict& verdict);
  void keep_statistics();
  void restore_statistics();
  void evaluate_now(const TrainCallbacks& callbacks);
  void save_model(int64_t step);
  void save_checkpoint();
  [[noreturn]] void give_up();
  void report(bool keep = false);  // the progress line; `keep`: it stays
  TrainResult result() const;

  ParameterTable& table() { return model.transformer().parameters(); }
  std::string in_folder(const std::string& name) const { return join_path(folder, name); }
  std::string checkpoints() const { return in_folder("checkpoints"); }

  Model& model;
  const Dataset& data;
  TrainOptions options;
  std::string folder;
  std::unique_ptr<FileLock> lock;
  RunIdentity identity;
  Optimizer optimizer;
  Guard guard;
  FirstStepCheck first_step;
  MetricsFile metrics;
  RunObserver* observer = nullptr;
  RunState state;
  bool resumed = false;
  std::vector<std::pair<Parameter*, Tensor>> statistics;  // buffers, and what they were before the step

  // Of this call of run().
  std::unique_ptr<Progress> progress;
  std::optional<Evaluation> last_evaluation;
  double start = 0, step_seconds = 0, peak = 0, flops = 0;
  int64_t first = 0, first_tokens = 0;
};

Trainer::Impl::Impl(Model& m, const Dataset& d, const TrainOptions& o, const std::string& f)
    : model(prepared(m, d, o)),
      data(d),
      options(o),
      folder(f),
      identity{m.config(), o, data_fingerprint(d), base_fingerprint(m.transformer().parameters())},
      optimizer(m.transformer().parameters(), o),
      guard(o),
      metrics(join_path(f, "metrics.jsonl")) {
  make_folder(folder);
  lock = FileLock::try_lock(in_folder(".lock"));
  if (!lock)
    throw Error(ErrorKind::usage, folder + " is in use by another run; name another folder, or wait for it");
  for (const std::string& inside : {folder, checkpoints(), in_folder("model")}) remove_unfinished(inside);
  for (const auto& p : table().all()) {
    p->value.clear_grad();
    if (p->role == Role::statistic) statistics.emplace_back(p.get(), Tensor::empty(p->shape));
  }
}

int64_t Trainer::Impl::resume() {
  resumed = true;
  std::vector<int64_t> steps = checkpoint_steps(checkpoints());
  for (; !steps.empty(); steps.pop_back()) {
    const std::string path = checkpoint_path(checkpoints(), steps.back());
    try {
      state = read_checkpoint(path, identity, table(), optimizer);
      guard.restore(state.guard);
      break;
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::file && error.kind() != ErrorKind::unsupported) throw;
      log_warning(fmt::format("passed over a checkpoint: {}", error.what()));
    }
  }
  metrics.truncate(state.step);
  return state.step;
}

void Trainer::Impl::keep_statistics() {
  for (auto& [p, kept] : statistics) std::copy_n(p->value.f32(), kept.numel(), kept.f32());
}

void Trainer::Impl::restore_statistics() {
  for (auto& [p, kept] : statistics) std::copy_n(kept.f32(), kept.numel(), p->value.f32());
}

// One step: passes, verdict, update. Its data and random numbers follow from its number alone.
StepMetrics Trainer::Impl::step() {
  const double begin = now();
  StepMetrics m{.step = state.step + 1};
  m.learning_rate = options.lr * schedule_factor(options, m.step);
  std::vector<Batch> batches;
  for (int64_t micro = 0; micro < options.accumulation; ++micro) {
    batches.push_back(data.batch(m.step, micro, options.batch, options.length));
  }
  const bool watched = observer && observer->wants(m.step);
  keep_statistics();
  const StepSums sums =
      accumulate(model.transformer(), batches, options, m.step, watched ? observer : nullptr);
  m.targets = sums.sums.count;
  m.tokens = sums.tokens;
  if (m.targets == 0) {
    log_warning(fmt::format("step {} has no target in any batch: nothing was learnt from it", m.step));
    m.skipped = true;
  } else {
    reach(sums, m);
    const double scale = clip_factor(m.gradient_norm, options.clip);
    if (watched) observer->gradients(m.step, table(), scale);
    const Verdict verdict = guard.judge(m.loss, m.gradient_norm);
    m.skipped = verdict.skip;
    m.spike = verdict.spike;
    if (verdict.skip || verdict.spike) explain_skip(m, verdict);
    if (!verdict.skip) update(m, scale, watched);
  }
  if (m.skipped) {
    restore_statistics();
    for (const auto& p : table().all()) p->value.clear_grad();
  }
  if (watched) observer->finish(m.step, m.loss, m.learning_rate);
  state.step = m.step;
  state.tokens += m.tokens;
  state.last_loss = m.loss;
  m.seconds = now() - begin;
  return m;
}

// Admin's init, on the first batch.
void Trainer::Impl::profile() {
  const Batch batch = data.batch(1, 0, options.batch, options.length);
  profile_shortcuts(model.transformer(),
                    [&](Context& context) { batch_hidden(context, model.transformer(), batch); });
}

// The step's figures, and on the first one whether the backward pass reached everything.
void Trainer::Impl::reach(const StepSums& sums, StepMetrics& m) {
  const auto targets = static_cast<double>(m.targets);
  m.balance = sums.balance;
  m.nll = sums.sums.nll / targets;
  m.loss = sums.sums.loss / targets + model.config().router_aux * sums.balance;
  m.gradient_norm = gradient_norm(table());
  if (m.step != 1) return;
  const std::vector<std::string> names = unreached(table());
  if (!names.empty() && !options.allow_unreached) throw_unreached(names);
  first_step.before_update(table(), m.gradient_norm);
}

void Trainer::Impl::update(const StepMetrics& m, double scale, bool watched) {
  const std::vector<ParameterUpdate>& updates = optimizer.step(schedule_factor(options, m.step), scale);
  if (watched) observer->updates(m.step, updates);
  if (m.step != 1) return;
  for (const std::string& line : first_step.lines(updates)) log_warning(line);
}

void Trainer::Impl::explain_skip(const StepMetrics& m, const Verdict& verdict) {
  if (verdict.spike) {
    log_warning(fmt::format(
        "step {}: the loss of {:.4g} is a spike, {:.1f} standard deviations above the last {}{}", m.step,
        m.loss, verdict.z, options.spike_window, verdict.skip ? "; its update was skipped" : ""));
    return;
  }
  std::string what = fmt::format("the loss is {}", m.loss);
  for (const auto& p : table().all()) {
    const Tensor g = p->value.grad();
    if (!std::isfinite(m.loss) || !g.defined() || std::isfinite(sum_of_squares(g.numel(), g.f32()))) continue;
    what = "the gradient of " + p->name + " is not finite";
    break;
  }
  log_warning(fmt::format("step {}: {}; its update was skipped", m.step, what));
}

void Trainer::Impl::give_up() {
  const std::vector<int64_t> steps = checkpoint_steps(checkpoints());
  throw Error(
      ErrorKind::numeric,
      fmt::format(
          "{} steps in a row, up to step {}, had to be skipped; {}; try a lower --lr, a longer --warmup "
          "or another --placement",
          guard.state().skips_in_row, state.step,
          steps.empty() ? "there is no checkpoint yet"
                        : "the last good checkpoint is " + checkpoint_path(checkpoints(), steps.back())));
}

void Trainer::Impl::save_model(int64_t step) {
  model.save(in_folder("model"));
  data.tokenizer().save(in_folder("model"));
  state.best_step = step;
}

void Trainer::Impl::evaluate_now(const TrainCallbacks& callbacks) {
  const EvaluationOptions what{.batch = options.batch,
                               .length = options.length,
                               .batches = options.eval_batches,
                               .dtype = options.dtype};
  if (data.evaluation_batches(what.split, what.batch, what.length, what.batches) == 0) {
    if (state.step == options.steps) save_model(state.step);  // nothing to choose by: the last one
    return;
  }
  last_evaluation = evaluate(model, data, what);
  metrics.add(state.step, *last_evaluation);
  if (std::isfinite(last_evaluation->loss) &&
      !(state.best_validation && *state.best_validation <= last_evaluation->loss)) {
    state.best_validation = last_evaluation->loss;
    save_model(state.step);
  }
  if (callbacks.evaluation) callbacks.evaluation(state.step, *last_evaluation);
  report(true);
}

void Trainer::Impl::save_checkpoint() {
  state.guard = guard.state();
  write_checkpoint(checkpoint_path(checkpoints(), state.step), state, identity, table(), optimizer);
  prune_checkpoints(checkpoints(), options.keep_checkpoints);
}

void Trainer::Impl::report(bool keep) {
  if (!keep && !progress->due()) return;
  const TrainResult r = result();
  std::string line = fmt::format("step {}/{}, loss {:.4f}", state.step, options.steps, state.last_loss);
  if (last_evaluation) {
    line += fmt::format(", validation {:.4f}", last_evaluation->loss);
    if (last_evaluation->exact) line += fmt::format(" ({} exact)", format_percent(*last_evaluation->exact));
  }
  line += fmt::format(", {} tokens/s", format_count(r.tokens_per_second));
  if (peak > 0) line += fmt::format(", {:.0f} % of peak", 100 * r.peak_share);
  if (state.step < options.steps && state.step > first) {
    const double each = (now() - start) / static_cast<double>(state.step - first);
    line += fmt::format(", {} left", format_duration(each * static_cast<double>(options.steps - state.step)));
  }
  keep ? progress->finish(line) : progress->show(line);
}

TrainResult Trainer::Impl::result() const {
  TrainResult r{.step = state.step,
                .skipped = guard.state().skipped,
                .spikes = guard.state().spikes,
                .last_loss = state.last_loss,
                .best_validation = state.best_validation,
                .best_step = state.best_step,
                .seconds = now() - start};
  if (step_seconds > 0) r.tokens_per_second = static_cast<double>(state.tokens - first_tokens) / step_seconds;
  if (peak > 0 && step_seconds > 0) r.peak_share = flops / step_seconds / (peak * 1e9);
  return r;
}

TrainResult Trainer::Impl::run(const TrainCallbacks& callbacks) {
  if (!resumed && holds_run(folder)) {
    throw Error(ErrorKind::usage, folder + " already holds a run: --resume " + folder +
                                      " goes on with it, --out names another folder for a new one");
  }
  resumed = true;
  peak = peak_rate(options.dtype == Precision::bf16 ? DType::bf16 : DType::f32);
  progress = std::make_unique<Progress>();
  start = now();
  step_seconds = flops = 0;
  const ModelCost cost = model.cost(options.length);
  const bool both = model.config().has_encoder() && model.config().has_decoder();
  if (model.fresh() && state.step == 0 && wants_profile(model.config())) profile();
  model.no_longer_fresh();
  first = state.step;
  first_tokens = state.tokens;
  while (state.step < options.steps) {
    const StepMetrics m = step();
    step_seconds += m.seconds;
    // A token passes one of two stacks; a target passes the head.
    flops += (cost.training_flops_per_token - cost.head_training_flops_per_token) / (both ? 2 : 1) *
                 static_cast<double>(m.tokens) +
             cost.head_training_flops_per_token * static_cast<double>(m.targets);
    metrics.add(m);
    if (callbacks.step) callbacks.step(m);
    if (guard.state().skips_in_row >= options.most_skips) give_up();
    if (due(m.step, options.eval_every, options.steps)) {
      evaluate_now(callbacks);
    } else {
      report();
    }
    const bool stop = stop_requested() && m.step < options.steps;
    if (stop && state.best_step == 0) save_model(m.step);
    if (stop || due(m.step, options.checkpoint_every, options.steps)) save_checkpoint();
    if (stop) {
      throw Error(
          ErrorKind::interrupted,
          fmt::format("stopped after step {} of {}, with everything saved; plumb train --resume {} goes on",
                      m.step, options.steps, folder));
    }
  }
  progress.reset();
  // A run too short for most_skips, which never had a model to keep.
  if (state.best_step == 0 && guard.state().skips_in_row > 0) give_up();
  return result();
}

Trainer::Trainer(Model& model, const Dataset& data, const TrainOptions& options, const std::string& folder)
    : impl_(std::make_unique<Impl>(model, data, options, folder)) {}
Trainer::~Trainer() = default;
Trainer::Trainer(Trainer&&) noexcept = default;

void Trainer::watch(RunObserver* observer) {
  impl_->observer = observer;
}
int64_t Trainer::resume() {
  return impl_->resume();
}
TrainResult Trainer::run(const TrainCallbacks& callbacks) {
  return impl_->run(callbacks);
}

bool Trainer::holds_run(const std::string& folder) {
  return path_exists(join_path(folder, "metrics.jsonl")) ||
         !checkpoint_steps(join_path(folder, "checkpoints")).empty();
}

}  // namespace plumb
