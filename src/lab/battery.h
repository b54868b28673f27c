// What the experiments of the battery share: the calibrated setting of small models, passes, training.
//
// The setting (unless an experiment says otherwise): decoder-only, width 64, 4 heads, feed-forward of 4
// widths with ReLU, LayerNorm with eps 1e-6, no biases, learned positions, Xavier-normal matrices, embeddings
// N(0, 1), an own head N(0, 1/width); 96 characters of text, batches of 16 x 32, Adam(0.9, 0.98) without
// decay or clipping.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "model/transformer.h"
#include "plumb/battery.h"

namespace plumb::battery {

inline constexpr int64_t kWidth = 64, kVocabulary = 96, kLength = 32, kRows = 16;
inline constexpr double kAbove = std::numeric_limits<double>::infinity();

ModelConfig small_config(Placement placement, int64_t layers);

struct Start {
  uint64_t seed = 1;
  double embedding_std = 1;
};
// A model with drawn weights; Admin's shortcuts profiled on drawn ids.
std::unique_ptr<Transformer> started(const ModelConfig& config, const Start& start = {});

Parameter& weight(const Transformer& model, const std::string& name);
double gradient_norm_of(const Parameter& p);  // Frobenius; 0 where none arrived

struct Rows {
  Tensor ids;      // (B, T)
  Tensor targets;  // (B T)
};
Rows random_rows(uint64_t seed, int64_t rows = 4, int64_t length = kLength);

// Forward and backward of the mean loss; gradients are left in the parameters, those of before dropped.
double loss_and_gradients(const Transformer& model, const Rows& rows, Observer* observer = nullptr);
// What leaves the stack, (B, T, C), after the final norm where there is one.
Tensor output_of(const Transformer& model, const Rows& rows);
// RMS of the stream before each sub-layer and behind the last, before the final norm.
std::vector<double> stream_rms(const Transformer& model, const Rows& rows);

// What enters a stack's layers and what leaves them, and the gradients' norms at both ends.
struct Ends : Observer {
  void forward(const Site& site, const Tensor& value) override;
  void backward(const Site& site, const Tensor& value, const Tensor& gradient) override;
  Tensor first, last;
  double top = 0, bottom = 0;
};

double rms(const Tensor& x);
double rms_difference(const Tensor& a, const Tensor& b);

// Characters of a text as ids 0 .. 95: of a made one that is the same everywhere, or of files.
class Characters {
 public:
  explicit Characters(const std::string& text_path);  // empty: the made one
  Rows rows(uint64_t seed, uint64_t step, int64_t count = kRows, int64_t length = kLength) const;
  double unigram_entropy() const { return entropy_; }  // nats: what a model that sees no context reaches

 private:
  std::vector<int32_t> ids_;
  double entropy_ = 0;
};

struct Schedule {
  int64_t steps = 300, warmup = 0;
  double lr = 1e-3;
  double z_loss = 0;
  int64_t rows = kRows;
  uint64_t seed = 1;
  // As 2309.14322 trains: after the warm-up a cosine to 1e-5, beta2 0.95, gradients clipped at 1, and a decay
  // of 1e-4 a step that the learning rate has no part in. Else the rate stays, and nothing clips or decays.
  bool wortsman = false;
};
// What the learning rate is multiplied by in step `number`, from 1.
double rate_factor(const Schedule& schedule, int64_t number);
// What a trained model's attention looks like on a batch of text.
struct AttentionState {
  double largest_logit = 0;  // of |q k| / sqrt(d) over what a query sees
  double entropy = 0;  // mean of H / ln n over queries that see n > 1 keys; of the layer where it is least
};
struct Trained {
  double loss = 0;  // mean of the last 20 steps; a loss that is not finite ends the run and is the loss
  std::vector<double> losses;
  AttentionState attention;
  double log_z = 0;  // mean log of the softmax's normaliser over a batch of text
};
// As a sensitivity counts it (2309.14322): no worse than at the start.
double bounded_loss(const Trained& t);
struct Job {
  ModelConfig config;
  Schedule schedule;
  Start start;
  bool watched = false;                       // whether `attention` and `log_z` are wanted
  std::function<void(Transformer&)> inspect;  // shown the trained model, from any thread
};
// Trains each, Admin's shortcuts profiled on its first batch, side by side on one thread each: the same
// result whatever the number of threads.
std::vector<Trained> train_all(const Characters& text, const std::vector<Job>& jobs);

// What experiments run with.
struct Setting {
  bool quick = false;
  const Characters* text = nullptr;  // only of experiments that train
};

// Experiments: fill in figures, curves and remarks.
void last_gradient(const Setting&, BatteryExperiment&);      // 1
void stream_size(const Setting&, BatteryExperiment&);        // 2
void deep_norm_exact(const Setting&, BatteryExperiment&);    // 3
void model_update(const Setting&, BatteryExperiment&);       // 4
void qk_norm_rates(const Setting&, BatteryExperiment&);      // 5
void deep_training(const Setting&, BatteryExperiment&);      // 6
void warmup_depth(const Setting&, BatteryExperiment&);       // 7
void skip_removal(const Setting&, BatteryExperiment&);       // 8
void perturbation(const Setting&, BatteryExperiment&);       // 9
void identities(const Setting&, BatteryExperiment&);         // 10
void stream_gain(const Setting&, BatteryExperiment&);        // 11
void reordered_qk_norm(const Setting&, BatteryExperiment&);  // 12
void shortcut_scale(const Setting&, BatteryExperiment&);     // 13
void z_loss(const Setting&, BatteryExperiment&);             // 14
void depth_transfer(const Setting&, BatteryExperiment&);     // 15
void degradation(const Setting&, BatteryExperiment&);        // 16
void batch_norm(const Setting&, BatteryExperiment&);         // 17
void every_placement(const Setting&, BatteryExperiment&);    // 18

// Helpers of those that report.
std::string machines(const std::vector<BatteryExperiment>& experiments);  // each once, "; " between
void add(BatteryExperiment& e, const std::string& name, double value, std::optional<double> low,
         std::optional<double> high, const std::string& expected);
inline void note(BatteryExperiment& e, const std::string& name, double value, const std::string& expected) {
  add(e, name, value, std::nullopt, std::nullopt, expected);
}

}  // namespace plumb::battery
