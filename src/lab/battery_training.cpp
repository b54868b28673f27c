// Experiments that train: depth, warm-up, learning rates, attention's logits.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "lab/battery.h"
#include "plumb/config_fields.h"

namespace plumb::battery {
namespace {

double mean_loss(const std::vector<double>& losses, size_t first, size_t end) {
  double sum = 0;
  for (size_t i = first; i < std::min(end, losses.size()); ++i) sum += losses[i];
  return sum / static_cast<double>(end - first);
}

BatteryCurve curve_of(const std::string& name, const std::vector<double>& losses) {
  BatteryCurve curve{.name = name};
  constexpr size_t kEach = 10;  // a point is the mean of so many steps
  for (size_t first = 0; first + kEach <= losses.size(); first += kEach) {
    curve.x.push_back(static_cast<double>(first + kEach));
    curve.y.push_back(mean_loss(losses, first, first + kEach));
  }
  return curve;
}

// How far a loss is from what a model reaches that sees no context: at 0.1 and above it is stuck.
constexpr double kStuck = 0.1;

constexpr size_t kSeeds = 3;
using BySeed = std::array<double, kSeeds>;
BySeed by_seed(const std::function<double(size_t)>& value) {
  BySeed values;
  for (size_t s = 0; s < kSeeds; ++s) values[s] = value(s);
  return values;
}
double mean(const BySeed& v) {
  return std::accumulate(v.begin(), v.end(), 0.0) / kSeeds;
}
double least(const BySeed& v) {
  return *std::min_element(v.begin(), v.end());
}
double most(const BySeed& v) {
  return *std::max_element(v.begin(), v.end());
}
std::string listed(const std::string& name, const BySeed& v) {
  return fmt::format("{}, by seed: {:.3f}.", name, fmt::join(v, ", "));
}

std::string rate_name(double lr) {
  return fmt::format("{:g}", lr);
}

}  // namespace

void qk_norm_rates(const Setting& setting, BatteryExperiment& e) {
  e.x_name = "learning rate";
  e.y_name = "loss";
  const std::vector<double> rates{1e-3, 3e-3, 1e-2, 3e-2, 1e-1, 3e-1};
  std::vector<Job> jobs;
  for (const QkNorm norm : {QkNorm::none, QkNorm::per_head}) {
    for (const double lr : rates) {
      Job job{.config = small_config(Placement::pre_norm, 4),
              .schedule = {.steps = 400, .warmup = 20, .lr = lr, .z_loss = 1e-4, .wortsman = true},
              .watched = true};
      job.config.layer.qk_norm = norm;
      jobs.push_back(job);
    }
  }
  const auto trained = train_all(*setting.text, jobs);
  const auto sensitivity = [&](size_t first, const char* name) {
    BatteryCurve curve{.name = name, .x = rates};
    double sum = 0, least = kAbove;
    for (size_t i = first; i < first + rates.size(); ++i) {
      const double loss = bounded_loss(trained[i]);
      curve.y.push_back(loss);
      sum += loss;
      least = std::min(least, loss);
    }
    e.curves.push_back(curve);
    return sum / static_cast<double>(rates.size()) - least;
  };
  const double without = sensitivity(0, "without"), with = sensitivity(rates.size(), "with QK-norm");
  double largest = 0;
  for (size_t i = rates.size(); i < trained.size(); ++i)
    largest = std::max(largest, trained[i].attention.largest_logit);
  add(e, "without QK-norm: largest logit at 0.1", trained[4].attention.largest_logit, 3e3, {},
      "calibrated 1.0e4 to 1.6e4; in the paper all runs beyond 1e4 diverged");
  add(e, "without QK-norm: least entropy / ln t at 0.3", trained[5].attention.entropy, {}, 0.05,
      "calibrated 0.001 to 0.004");
  add(e, "with QK-norm: largest logit of all rates", largest, {}, 100, "calibrated 4.1 to 34");
  note(e, "without QK-norm: sensitivity to the learning rate", without, "calibrated 0.405, 0.500, 0.491");
  note(e, "with QK-norm: sensitivity to the learning rate", with, "calibrated 0.116, 0.134, 0.112");
  add(e, "sensitivity, without over with", without / with, 2, {}, "calibrated 3.5, 3.7, 4.4");
}

void deep_training(const Setting& setting, BatteryExperiment& e) {
  e.x_name = "step";
  e.y_name = "loss at learning rate 0.001";
  const Placement placements[] = {Placement::post_norm, Placement::pre_norm, Placement::deep_norm,
                                  Placement::sandwich, Placement::admin};
  std::vector<Job> jobs;
  for (const Placement p : placements) {
    for (const double lr : {1e-3, 3e-3})
      jobs.push_back({.config = small_config(p, 18), .schedule = {.lr = lr}});
  }
  // Admin without its profile: every shortcut starts from one value, by the number n of sub-layers.
  const double n = 2 * 18, start = std::sqrt((n + 1) / std::log(n + 1) - 1);
  jobs.push_back({.config = small_config(Placement::admin, 18), .schedule = {.lr = 3e-3}});
  jobs.back().config.layer.alpha = start;
  const auto trained = train_all(*setting.text, jobs);
  const double plateau = setting.text->unigram_entropy();
  for (size_t i = 0; i < jobs.size(); ++i) {
    const std::string name = i < 2 * std::size(placements)
                                 ? enum_name(placements[i / 2])
                                 : fmt::format("admin from {:.2f} everywhere", start),
                      at = rate_name(jobs[i].schedule.lr);
    if (i < 2) {
      add(e, fmt::format("{} at {}: loss less that without context", name, at), trained[i].loss - plateau,
          -kStuck, {}, "stuck at the plateau; calibrated 3.37 to 3.42 against 3.39");
    } else {
      add(e, fmt::format("{} at {}: loss", name, at), trained[i].loss, {}, 1.95,
          "below 1.95; calibrated 1.47 to 1.89");
    }
    if (i % 2 == 0) e.curves.push_back(curve_of(name, trained[i].losses));
  }
  add(e, "deep-norm less pre-norm at 0.003", trained[5].loss - trained[3].loss, {}, 0.05,
      "at most 0.05 above; calibrated -0.07, -0.13, -0.07");
  if (trained[9].loss > 1.95 && trained[10].loss < 1.95) {
    e.remarks.emplace_back(
        "Admin's profile leaves the first shortcuts near 1, as post-norm has them, and without warm-up that "
        "bears no rate much above 0.001 here: at 0.0015 it left the plateau after 120 steps, at 0.002 it did "
        "not in 140. The recurrence is the published code's, and a profile of the text in place of drawn "
        "ids, "
        "norms without gains and smaller embeddings change nothing. From one value for all, sqrt((n + 1) / "
        "ln(n + 1) - 1) with n sub-layers, as its authors' later package admin-torch starts, the same model "
        "trains.");
  }
}

void warmup_depth(const Setting& setting, BatteryExperiment& e) {
  e.x_name = "step";
  e.y_name = "loss of 12 layers, seed 1";
  std::vector<Job> jobs;
  const auto job = [&](Placement p, int64_t layers, int64_t warmup, uint64_t seed) {
    jobs.push_back({.config = small_config(p, layers),
                    .schedule = {.steps = 400, .warmup = warmup, .seed = seed},
                    .start = {.seed = seed}});
  };
  for (const Placement p : {Placement::post_norm, Placement::pre_norm}) {
    for (const int64_t warmup : {0, 200}) {
      for (uint64_t seed = 1; seed <= 3; ++seed) job(p, 12, warmup, seed);
    }
  }
  job(Placement::post_norm, 6, 0, 1);
  const auto trained = train_all(*setting.text, jobs);
  double gain = 0, pre_gain = 0, late = 0, least = kAbove;
  for (size_t s = 0; s < 3; ++s) {
    const double won = trained[s].loss - trained[3 + s].loss;
    gain += won / 3;
    least = std::min(least, won);
    pre_gain += (trained[6 + s].loss - trained[9 + s].loss) / 3;
    late += (mean_loss(trained[6 + s].losses, 280, 300) - trained[6 + s].loss) / 3;
  }
  add(e, "post-norm, 12 layers: least of three seeds' gain by 200 steps of warm-up", least, 0.2, {},
      "calibrated 0.84, 0.80, 0.32");
  add(e, "post-norm, 12 layers: mean gain", gain, 0.4, {}, "calibrated 0.65");
  add(e, "pre-norm, 12 layers: mean gain", pre_gain, -0.15, 0.15, "calibrated -0.14 to 0.0");
  note(e, "pre-norm, 12 layers, without warm-up: mean gain of steps 300 to 400", late,
       "what the 100 full steps that the warm-up leaves out are worth; calibrated 0.08 with 6 layers");
  add(e, "post-norm, 6 layers, without warm-up: loss", trained[12].loss, {}, 1.95, "calibrated 1.72 to 1.82");
  const char* names[] = {"post-norm", "post-norm, warm-up 200", "pre-norm", "pre-norm, warm-up 200"};
  for (size_t i = 0; i < 4; ++i) e.curves.push_back(curve_of(names[i], trained[3 * i].losses));
}

void reordered_qk_norm(const Setting& setting, BatteryExperiment& e) {
  e.x_name = "step";
  e.y_name = "loss, seed 1";
  std::vector<Job> jobs;
  const auto job = [&](Placement p, QkNorm norm, uint64_t seed) {
    jobs.push_back({.config = small_config(p, 16),
                    .schedule = {.steps = 400, .lr = 2e-3, .seed = seed},
                    .start = {.seed = seed},
                    .watched = true});
    jobs.back().config.layer.qk_norm = norm;
  };
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    job(Placement::reordered, QkNorm::none, seed);
    job(Placement::reordered, QkNorm::whole, seed);
    job(Placement::pre_norm, QkNorm::none, seed);
  }
  const auto trained = train_all(*setting.text, jobs);
  const auto without = [&](size_t s) -> const Trained& { return trained[3 * s]; };
  const auto with = [&](size_t s) -> const Trained& { return trained[3 * s + 1]; };
  const auto logit = by_seed([&](size_t s) { return without(s).attention.largest_logit; }),
             entropy = by_seed([&](size_t s) { return without(s).attention.entropy; }),
             cost = by_seed([&](size_t s) { return without(s).loss - with(s).loss; }),
             normed_logit = by_seed([&](size_t s) { return with(s).attention.largest_logit; }),
             behind = by_seed([&](size_t s) { return with(s).loss - trained[3 * s + 2].loss; });
  add(e, "reordered, no QK-norm: largest logit, least of three seeds", least(logit), 200, {},
      "calibrated 788 to 990");
  add(e, "reordered, no QK-norm: least entropy / ln t, most of three seeds", most(entropy), {}, 0.3,
      "calibrated 0.10");
  add(e, "reordered, no QK-norm: loss less that with it, least of three seeds", least(cost), 0.2, {},
      "calibrated 0.43, 0.40, 0.34");
  add(e, "reordered, QK-norm: largest logit of three seeds", most(normed_logit), {}, 20, "calibrated 5");
  add(e, "reordered, QK-norm: loss less pre-norm's, mean of three seeds", mean(behind), {}, 0.06,
      "within 0.06; calibrated 0.01, 0.00, 0.01");
  e.remarks.push_back(listed("Loss with QK-norm less pre-norm's", behind));
  if (mean(behind) > 0.03) e.remarks.back() += " That is further behind than in the calibrated runs.";
  const char* names[] = {"reordered", "reordered, QK-norm", "pre-norm"};
  for (size_t i = 0; i < 3; ++i) e.curves.push_back(curve_of(names[i], trained[i].losses));
}

void z_loss(const Setting& setting, BatteryExperiment& e) {
  e.x_name = "step";
  e.y_name = "loss, seed 1";
  std::vector<Job> jobs;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    for (const double z : {0.0, 1e-3}) {
      jobs.push_back({.config = small_config(Placement::pre_norm, 4),
                      .schedule = {.steps = 400, .lr = 0.1, .z_loss = z, .seed = seed},
                      .start = {.seed = seed},
                      .watched = true});
      jobs.back().config.layer.qk_norm = QkNorm::per_head;
    }
  }
  const auto trained = train_all(*setting.text, jobs);
  const auto without = by_seed([&](size_t s) { return trained[2 * s].log_z; }),
             with = by_seed([&](size_t s) { return trained[2 * s + 1].log_z; }),
             cost = by_seed([&](size_t s) { return trained[2 * s + 1].loss - trained[2 * s].loss; });
  note(e, "log Z without, mean of three seeds", mean(without), "calibrated 8.7");
  note(e, "log Z with coefficient 0.001, mean of three seeds", mean(with), "calibrated 3.0");
  add(e, "|log Z|, with over without", std::abs(mean(with) / mean(without)), {}, 0.5,
      "at least halved; calibrated 0.34");
  add(e, "loss with less that without, mean of three seeds", mean(cost), -0.05, 0.05,
      "unchanged within 0.05; calibrated within 0.03");
  e.remarks.push_back(listed("log Z without", without) + " " + listed("With", with) + " " +
                      listed("Loss with less that without", cost));
  e.curves = {curve_of("without", trained[0].losses), curve_of("z-loss 0.001", trained[1].losses)};
}

void degradation(const Setting& setting, BatteryExperiment& e) {
  e.x_name = "layers";
  e.y_name = "loss after 200 steps";
  const std::vector<double> depths{1, 2, 4, 8, 16};
  std::vector<Job> jobs;
  for (const Placement p : {Placement::pre_norm, Placement::plain}) {
    for (const double layers : depths)
      jobs.push_back({.config = small_config(p, static_cast<int64_t>(layers)), .schedule = {.steps = 200}});
  }
  const auto trained = train_all(*setting.text, jobs);
  for (size_t side = 0; side < 2; ++side) {
    BatteryCurve curve{.name = side == 0 ? "with shortcuts" : "without", .x = depths};
    for (size_t i = 0; i < depths.size(); ++i) curve.y.push_back(trained[side * depths.size() + i].loss);
    e.curves.push_back(curve);
  }
  const auto &with = e.curves[0].y, &without = e.curves[1].y;
  add(e, "pre-norm: loss of 16 layers less that of 2", with[4] - with[1], {}, 0,
      "deeper is no worse (He 2015: ResNet-34 25.03 % against 27.88 % of ResNet-18)");
  add(e, "plain (no shortcuts): loss of 16 layers less that of 2", without[4] - without[1], 0.5, {},
      "deeper is worse in training already (He 2015: plain-34 28.54 % against 27.94 % of plain-18)");
  add(e, "plain (no shortcuts), 16 layers: loss less that without context",
      without[4] - setting.text->unigram_entropy(), -kStuck, {}, "stuck at the plateau");
}

}  // namespace plumb::battery
