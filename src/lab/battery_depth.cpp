// Which learning rate is best at which depth, and how depth-muP and CompleteP carry it over.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "lab/battery.h"
#include "train/optimizer.h"

namespace plumb::battery {
namespace {

// A model whose best learning rate is looked for on a grid: losses by place on it.
struct RateSearch {
  std::string name;
  ModelConfig config;
  std::map<size_t, double> losses;

  std::pair<size_t, double> best() const {
    return *std::min_element(losses.begin(), losses.end(),
                             [](const auto& a, const auto& b) { return a.second < b.second; });
  }
};

// Trains each at three rates in the middle of the grid, and further out until both neighbours of the best are
// known. Losses have one valley over the learning rate, so that this finds the grid's best.
void search_rates(const Characters& text, const std::vector<double>& rates,
                  std::vector<RateSearch>& searches) {
  const size_t middle = rates.size() / 2;
  for (bool all_known = false; !all_known;) {
    std::vector<Job> jobs;
    std::vector<std::pair<RateSearch*, size_t>> of;
    for (RateSearch& s : searches) {
      const size_t at = s.losses.empty() ? middle : s.best().first;
      for (size_t place = at == 0 ? 0 : at - 1; place < std::min(rates.size(), at + 2); ++place) {
        if (s.losses.count(place) > 0) continue;
        jobs.push_back({.config = s.config, .schedule = {.steps = 200, .warmup = 20, .lr = rates[place]}});
        of.emplace_back(&s, place);
      }
    }
    const auto trained = train_all(text, jobs);
    for (size_t i = 0; i < of.size(); ++i) of[i].first->losses[of[i].second] = bounded_loss(trained[i]);
    all_known = jobs.empty();
  }
}

// How far one step at rate `lr` moves what leaves the layers of a new model, over its size before, RMS.
double moved_by_a_step(const Characters& text, const ModelConfig& config, double lr) {
  const auto model = started(config);
  const Rows seen = text.rows(1000, 0, 4);
  const auto leaves = [&] {
    Ends ends;
    Context context{.observer = &ends};
    model->decode(context, {.ids = seen.ids});
    return ends.last;
  };
  const Tensor before = leaves();
  Optimizer optimizer(model->parameters(), {.lr = lr, .beta2 = 0.98, .weight_decay = 0});
  loss_and_gradients(*model, text.rows(1, 1));
  optimizer.step(1, 1);
  return rms_difference(before, leaves()) / rms(before);
}

struct Arm {
  const char* name;
  std::optional<double> depth_alpha;
};
const Arm kArms[] = {{"standard", {}}, {"depth-muP", 0.5}, {"CompleteP", 1}};
const std::vector<int64_t> kDepths{4, 8, 16, 32};
const std::vector<double> kRates{1e-3, 2e-3, 4e-3, 8e-3, 1.6e-2, 3.2e-2};

// By arm and depth; the base once and first, for it is the same model under all of them.
std::vector<RateSearch> searches() {
  std::vector<RateSearch> all;
  for (const Arm& arm : kArms) {
    for (const int64_t layers : kDepths) {
      if (layers == kDepths[0] && !all.empty()) continue;
      RateSearch s{.name = fmt::format("{}, {} layers", arm.name, layers),
                   .config = small_config(Placement::pre_norm, layers)};
      if (arm.depth_alpha) {
        s.config.base_layers = kDepths[0];
        s.config.depth_alpha = *arm.depth_alpha;
      }
      all.push_back(std::move(s));
    }
  }
  return all;
}

// The searches of one arm, from the base on.
std::vector<const RateSearch*> of_arm(const std::vector<RateSearch>& all, size_t arm) {
  std::vector<const RateSearch*> its{&all[0]};
  for (size_t d = 1; d < kDepths.size(); ++d) its.push_back(&all[arm * (kDepths.size() - 1) + d]);
  return its;
}

double place_of(const RateSearch* s) {
  return static_cast<double>(s->best().first);
}

void judge_scaled(BatteryExperiment& e, size_t arm, const std::vector<const RateSearch*>& its) {
  double moved = 0, rise = -kAbove;
  for (size_t d = 1; d < its.size(); ++d) {
    moved = std::max(moved, std::abs(place_of(its[d]) - place_of(its[0])));
    rise = std::max(rise, its[d]->best().second - its[d - 1]->best().second);
  }
  const std::string name = kArms[arm].name,
                    moves = name + ": doublings by which the best learning rate moves at most",
                    rises = name + ": most that the best loss rises with a doubling of depth";
  if (arm == 1) {
    add(e, moves, moved, {}, 1, "1 or less; calibrated 0.008, 0.008, 0.016, 0.016");
    add(e, rises, rise, {}, 0,
        "below 0; calibrated 1.79, 1.74, 1.73, 1.70 (standard: 1.79, 1.76, 1.80, 1.81)");
  } else {
    note(e, moves, moved, "");
    note(e, rises, rise, "");
  }
}

}  // namespace

void depth_transfer(const Setting& setting, BatteryExperiment& e) {
  e.x_name = "learning rate";
  e.y_name = "loss after 200 steps";
  std::vector<RateSearch> all = searches();
  search_rates(*setting.text, kRates, all);
  for (const RateSearch& s : all) {
    note(e, s.name + ": best learning rate", kRates[s.best().first], "");
    note(e, s.name + ": best loss", s.best().second, "");
    BatteryCurve curve{.name = s.name};
    for (const auto& [at, loss] : s.losses) {
      curve.x.push_back(kRates[at]);
      curve.y.push_back(loss);
    }
    e.curves.push_back(std::move(curve));
  }
  const auto standard = of_arm(all, 0);
  add(e, "standard: doublings by which the best learning rate of 32 layers is below that of 4",
      place_of(standard.front()) - place_of(standard.back()), 1, {}, "1 or more; calibrated 0.008 to 0.004");
  for (const size_t arm : {1, 2}) judge_scaled(e, arm, of_arm(all, arm));
  constexpr double kRate = 8e-3;
  const double base = moved_by_a_step(*setting.text, all[0].config, kRate);
  for (size_t arm = 0; arm < std::size(kArms); ++arm) {
    note(e,
         fmt::format("{}: how far a first step at 0.008 moves the stream, 32 layers over 4", kArms[arm].name),
         moved_by_a_step(*setting.text, of_arm(all, arm).back()->config, kRate) / base,
         arm == 0 ? "grows with depth" : "near 1: the parametrisation holds updates");
  }
}

}  // namespace plumb::battery
