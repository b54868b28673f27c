#include "plumb/battery.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>

#include "base/machine.h"
#include "base/progress.h"
#include "lab/battery.h"
#include "plumb/config_fields.h"
#include "plumb/error.h"
#include "plumb/signal.h"

namespace plumb {
namespace {

using battery::Setting;

struct Entry {
  int number = 0;
  bool quick = false, trains = false;
  void (*measure)(const Setting&, BatteryExperiment&) = nullptr;
  const char *title = nullptr, *source = nullptr, *setting = nullptr;
  std::vector<Placement> placements;
};

using P = Placement;

const std::vector<Entry> kEntries{
    {1,
     true,
     false,
     battery::last_gradient,
     "Gradient of the last feed-forward by depth",
     "Xiong 2020, arXiv 2002.04745, theorem 1",
     "one head, queries and keys 0 (uniform attention), matrices 64 x 64, 8 to 64 layers, 3 seeds",
     {P::pre_norm, P::post_norm, P::deep_norm, P::sandwich, P::reordered}},
    {2,
     true,
     false,
     battery::stream_size,
     "Size of the residual stream by depth",
     "Xiong 2020, lemma 2; Sun 2025, 2502.05795; Kim 2025, 2502.02732; GPT-2",
     "8, 32 and 128 layers at init, 3 seeds",
     {P::pre_norm, P::post_norm, P::deep_norm, P::sandwich, P::layer_norm_scaling}},
    {3,
     true,
     false,
     battery::deep_norm_exact,
     "DeepNorm to the letter",
     "Wang 2022, 2203.00555, table 1 and theorem 4.2",
     "6 to 48 layers at init, 3 seeds",
     {P::deep_norm}},
    {4,
     true,
     false,
     battery::model_update,
     "One update's effect on the model by depth",
     "Wang 2022, figure 5",
     "width 64, feed-forward 128, 2 heads, 6 to 100 layers, 3 seeds",
     {P::deep_norm, P::post_norm, P::pre_norm}},
    {5,
     false,
     true,
     battery::qk_norm_rates,
     "QK-norm and the learning rate",
     "Wortsman 2023, 2309.14322",
     "pre-norm, 4 layers, 400 steps, six learning rates; as the paper trains: 20 steps of warm-up, a cosine "
     "to 1e-5, AdamW(0.9, 0.95), gradients clipped at 1, a decay of 1e-4 at any rate, z-loss 1e-4",
     {P::pre_norm}},
    {6,
     false,
     true,
     battery::deep_training,
     "Deep training without warm-up",
     "Xiong 2020; Wang 2022; Liu 2020, 2004.08249",
     "18 layers, 300 steps, learning rates 0.001 and 0.003",
     {P::post_norm, P::pre_norm, P::deep_norm, P::sandwich, P::admin}},
    {7,
     false,
     true,
     battery::warmup_depth,
     "Warm-up and depth under post-norm",
     "Xiong 2020, section 3",
     "learning rate 0.001, 400 steps, 3 seeds",
     {P::post_norm, P::pre_norm}},
    {8,
     true,
     true,
     battery::skip_removal,
     "Shortcuts removed: training and rank",
     "He 2015, 1512.03385; Dong 2021, 2103.03404",
     "300 steps at 2, 6 and 12 layers; attention alone in f64",
     {P::plain, P::pre_norm}},
    {9,
     true,
     false,
     battery::perturbation,
     "Sensitivity to perturbed weights",
     "Liu 2020, 2004.08249",
     "encoders of 4 to 128 layers, 2 heads, feed-forward 64, weights moved by a thousandth of their "
     "spread, 4 seeds",
     {P::pre_norm, P::post_norm, P::deep_norm, P::admin}},
    {10,
     true,
     false,
     battery::identities,
     "Identities and equivalences",
     "He 2016, 1603.05027; Ba 2016; Zhang 2019, 1910.07467; Nguyen 2019; Bachlechner 2020; Noci 2022; "
     "Dehghani 2023; Kim 2025",
     "models of 4 to 12 layers at init; differences are RMS, over the RMS of what they are differences of",
     {P::re_zero, P::sandwich, P::sub_ln, P::pre_norm, P::hyper_connections, P::mhc, P::ngpt}},
    {11,
     true,
     false,
     battery::stream_gain,
     "Composite gain of maps between streams",
     "Zhu 2024, 2409.19606 (hyper-connections); Xie 2025, 2512.24880 (mHC)",
     "4 streams, 60 maps of 1 + spread x N(0, 1), 50 draws, f64",
     {P::hyper_connections, P::mhc}},
    {12,
     false,
     true,
     battery::reordered_qk_norm,
     "Output norms need QK-norm",
     "OLMo 2, 2501.00656",
     "16 layers, learning rate 0.002, 400 steps, 3 seeds",
     {P::reordered, P::pre_norm}},
    {13,
     true,
     false,
     battery::shortcut_scale,
     "Size of the embeddings",
     "Takase 2023, 2312.16903",
     "pre-norm, 24 layers, matrices N(0, 2/(5 x 64)), output projections / sqrt(48), 3 seeds",
     {P::pre_norm}},
    {14,
     true,
     true,
     battery::z_loss,
     "z-loss",
     "Wortsman 2023, section 3.2",
     "4 layers with QK-norm, learning rate 0.1, 400 steps, 3 seeds",
     {P::pre_norm}},
    {15,
     false,
     true,
     battery::depth_transfer,
     "Learning rates that carry over to other depths",
     "Yang 2023, 2310.02244 (depth-muP); Dey 2025, 2505.01618 (CompleteP)",
     "pre-norm, 4 to 32 layers, base of 4 layers, six learning rates, searched from the middle outwards; 200 "
     "steps, 20 of them warm-up",
     {P::pre_norm}},
    {16,
     false,
     true,
     battery::degradation,
     "Degradation: the same block with and without shortcuts",
     "He 2015, 1512.03385",
     "pre-norm blocks, 200 steps",
     {P::plain, P::pre_norm}},
    {17,
     false,
     true,
     battery::batch_norm,
     "BatchNorm in a Transformer",
     "Ioffe and Szegedy 2015, 1502.03167; Shen 2020, 2003.07845",
     "pre-norm, 4 layers; 300 steps",
     {}},
    {18,
     false,
     true,
     battery::every_placement,
     "Every placement, side by side",
     "no paper's: report only",
     "12 layers, each placement with its own init; learning rate 0.001, 300 steps",
     {}}};

std::vector<const Entry*> chosen(const BatteryOptions& options) {
  std::vector<const Entry*> found;
  for (const int n : options.only) {
    if (std::none_of(kEntries.begin(), kEntries.end(), [&](const Entry& e) { return e.number == n; })) {
      std::vector<int> known;
      known.reserve(kEntries.size());
      for (const Entry& e : kEntries) known.push_back(e.number);
      throw Error(ErrorKind::usage, fmt::format("--only {}: there is no such experiment; there are {}", n,
                                                fmt::join(known, ", ")));
    }
  }
  for (const Entry& e : kEntries) {
    const bool wanted = options.only.empty()
                            ? !options.quick || e.quick
                            : std::count(options.only.begin(), options.only.end(), e.number) > 0;
    if (wanted) found.push_back(&e);
  }
  return found;
}

BatteryEntry entry_of(const Entry& e) {
  return {.number = e.number, .title = e.title, .quick = e.quick};
}

// Of all threads of this process.
double processor_seconds() {
  return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

}  // namespace

bool BatteryFigure::passed() const {
  return !gated() || (std::isfinite(value) && (!low || value >= *low) && (!high || value <= *high));
}

bool BatteryExperiment::passed() const {
  return std::all_of(figures.begin(), figures.end(), [](const BatteryFigure& f) { return f.passed(); });
}

std::vector<BatteryEntry> battery_entries() {
  std::vector<BatteryEntry> all;
  all.reserve(kEntries.size());
  for (const Entry& e : kEntries) all.push_back(entry_of(e));
  return all;
}

std::vector<BatteryExperiment> run_battery(const BatteryOptions& options) {
  const auto wanted = chosen(options);
  std::optional<battery::Characters> text;
  if (std::any_of(wanted.begin(), wanted.end(), [](const Entry* e) { return e->trains; }))
    text.emplace(options.text);
  const Setting setting{.quick = options.quick, .text = text ? &*text : nullptr};
  std::vector<BatteryExperiment> done;
  for (const Entry* e : wanted) {
    if (stop_requested()) throw Error(ErrorKind::interrupted, "stopped");
    if (options.begin) options.begin(entry_of(*e));
    BatteryExperiment x{.number = e->number, .title = e->title, .source = e->source, .setting = e->setting};
    x.machine = describe(machine());
    for (const Placement p : e->placements) x.placements.push_back(enum_name(p));
    const auto start = std::chrono::steady_clock::now();
    const double processor_start = processor_seconds();
    e->measure(setting, x);
    x.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    x.processor_seconds = processor_seconds() - processor_start;
    for (const BatteryFigure& f : x.figures) {
      if (!f.passed())
        x.remarks.push_back(
            fmt::format("Not as expected here: {} is {:.4g} ({}).", f.name, f.value, f.expected));
    }
    if (options.end) options.end(x);
    done.push_back(std::move(x));
  }
  return done;
}

std::string battery_text(const BatteryExperiment& e) {
  std::string text =
      fmt::format("{:>2}  {}  {}, {} ({} of processor time)\n", e.number, e.passed() ? "pass" : "FAIL",
                  e.title, format_duration(e.seconds), format_duration(e.processor_seconds));
  for (const BatteryFigure& f : e.figures) {
    std::string bounds;
    if (f.low && f.high)
      bounds = fmt::format(" in [{:.4g}, {:.4g}]", *f.low, *f.high);
    else if (f.low)
      bounds = fmt::format(" >= {:.4g}", *f.low);
    else if (f.high)
      bounds = fmt::format(" <= {:.4g}", *f.high);
    text += fmt::format("      {} {}: {:.4g}{}{}\n", f.gated() ? (f.passed() ? "+" : "X") : " ", f.name,
                        f.value, bounds, f.expected.empty() ? "" : "   (" + f.expected + ")");
  }
  for (const std::string& r : e.remarks) text += "      ! " + r + "\n";
  return text;
}

}  // namespace plumb
