#include <cmath>

#include <fmt/format.h>

#include "plumb/error.h"
#include "plumb/trainer.h"

namespace plumb {
namespace {

std::string flag(const char* name) {
  std::string text = "--";
  for (const char* c = name; *c; ++c) text += *c == '_' ? '-' : *c;
  return text;
}

// Checks one option by name, where it has bounds.
struct Bounds {
  const char* name;
  double low, high;
  bool low_open = false, high_open = false;

  template <class T>
  void check(T option) const {
    const auto value = static_cast<double>(option);
    const bool enough = low_open ? value > low : value >= low;
    const bool too_much = high_open ? value >= high : value > high;
    if (std::isfinite(value) && enough && !too_much) return;
    const std::string range = too_much ? fmt::format("{} {}", high_open ? "below" : "at most", high)
                                       : fmt::format("{} {}", low_open ? "above" : "at least", low);
    throw Error(ErrorKind::usage, fmt::format("{} is {}: it has to be {}", flag(name), option, range));
  }
};

constexpr double kLargest = 3e38;  // as far as f32 goes
constexpr double kMost = 1e15;     // counts beyond it are slips, and their products would overflow
constexpr Bounds kBounds[] = {
    {"steps", 1, kMost},
    {"batch", 1, 1e6},
    {"accumulation", 1, 1e6},
    {"length", 1, 1e8},
    {"lr", 0, kLargest, true},
    {"beta1", 0, 1, false, true},
    {"beta2", 0, 1, false, true},
    {"eps", 0, kLargest, true},
    {"weight_decay", 0, kLargest},
    {"momentum", 0, 1, false, true},
    {"muon_lr", 0, kLargest, true},
    {"warmup", 0, kMost},
    {"min_lr", 0, 1},
    {"decay_fraction", 0, 1},
    {"clip", 0, kLargest},
    {"label_smoothing", 0, 1, false, true},
    {"z_loss", 0, kLargest},
    {"eval_every", 0, kMost},
    {"eval_batches", 0, kMost},
    {"checkpoint_every", 0, kMost},
    {"keep_checkpoints", 1, kMost},
    {"spike_window", 0, 1e6},
    {"spike_z", 0, kLargest, true},
    {"most_skips", 1, kMost},
    {"lora", 0, 1e6},
    {"lora_alpha", 0, kLargest},
    {"lora_dropout", 0, 1, false, true},
};

}  // namespace

void validate(const TrainOptions& options) {
  visit_train(options, [](const char* name, const auto& value, const char*) {
    if constexpr (std::is_arithmetic_v<std::decay_t<decltype(value)>>) {
      for (const Bounds& bounds : kBounds) {
        if (std::string_view(bounds.name) == name) bounds.check(value);
      }
    }
  });
  const AdapterOptions none, &lora = options.lora;
  if (lora.rank == 0 && lora != none)
    throw Error(ErrorKind::usage,
                "--lora-alpha, --lora-dropout, --lora-targets, --dora and --rslora need --lora");
  if (options.spike_window == 1) {
    throw Error(ErrorKind::usage, "--spike-window is 1: a mean and a spread need at least 2 steps");
  }
}

}  // namespace plumb
