#include "train/coverage.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/check.h"
#include "kernels/reduce.h"
#include "plumb/error.h"

namespace plumb {
namespace {

constexpr size_t kShown = 3;
constexpr double kRounding = 1e-7;
constexpr const char* kKeyBias =
    "softmax does not change when all its logits shift, which is all a key bias does";

std::string some(const std::vector<std::string>& names) {
  const std::vector<std::string> first(names.begin(), names.begin() + std::min(kShown, names.size()));
  const std::string rest = names.size() > kShown ? fmt::format(" and {} more", names.size() - kShown) : "";
  return fmt::format("{}{}", fmt::join(first, ", "), rest);
}

// The gate of the sub-layer that a parameter stands in: "decoder.3.attention.gate" for
// "decoder.3.attention.value.weight".
const Parameter* gate_of(const Parameter& p, const ParameterTable& parameters) {
  for (size_t dot = p.name.rfind('.'); dot != std::string::npos && dot > 0;
       dot = p.name.rfind('.', dot - 1)) {
    const Parameter* gate = parameters.find(p.name.substr(0, dot) + ".gate");
    if (gate && gate != &p) return gate;
  }
  return nullptr;
}

bool is_zero(const Tensor& t) {
  return std::all_of(t.f32(), t.f32() + t.numel(), [](float v) { return v == 0; });
}

// Numbers [first, first + count) of a parameter; none where count is 0.
struct Part {
  int64_t first = 0, count = 0;
};

// Where the key bias stands in a bias of queries, keys and values in one, whose matrix knows its parts.
Part fused_key_bias(const Parameter& p, const ParameterTable& parameters) {
  if (!p.name.ends_with(".qkv.bias")) return {};
  const Parameter* matrix = parameters.find(p.name.substr(0, p.name.size() - 4) + "weight");
  PLUMB_CHECK(matrix && matrix->init.size() == 3, "{} and its matrix", p.name);
  return {matrix->init[0].count, matrix->init[1].count};
}

double rms_of(const Tensor& t, Part part) {
  return std::sqrt(sum_of_squares(part.count, t.f32() + part.first) /
                   std::max(1.0, static_cast<double>(part.count)));
}

std::string reason_of(const Parameter& p, const ParameterTable& parameters) {
  if (p.name.ends_with("key.bias")) return kKeyBias;
  if (p.name.ends_with(".maps.scale"))
    return "it multiplies a map between streams that starts at 0, and moves once the map does";
  if (p.name.ends_with(".lora_A")) return "it is multiplied by B, which starts at 0, and moves once B does";
  const Parameter* gate = gate_of(p, parameters);
  if (gate && is_zero(gate->value))
    return "its branch stands behind a gate that starts at 0, and moves once the gate does";
  if (p.name.find(".experts.") != std::string::npos) return "no token chose this expert";
  return "nothing that the loss depends on uses it";
}

}  // namespace

std::vector<std::string> unreached(const ParameterTable& parameters) {
  std::vector<std::string> names;
  for (const auto& p : parameters.all()) {
    if (p->trainable && !p->value.grad().defined()) names.push_back(p->name);
  }
  return names;
}

void throw_unreached(const std::vector<std::string>& names) {
  throw Error(
      ErrorKind::config,
      fmt::format("the backward pass of the first step never reached {}; --allow-unreached trains without {}",
                  some(names), names.size() == 1 ? "it" : "them"));
}

void FirstStepCheck::before_update(const ParameterTable& parameters, double gradient_norm) {
  silent_.clear();
  const double rms = gradient_norm / std::sqrt(std::max(1.0, static_cast<double>(parameters.count())));
  for (const auto& p : parameters.all()) {
    const Tensor g = p->value.grad();
    if (!g.defined()) continue;
    const Part key = fused_key_bias(*p, parameters);
    if (rms_of(g, {0, g.numel()}) <= kRounding * rms) {
      silent_.push_back({p.get(), p->name, reason_of(*p, parameters)});
    } else if (key.count > 0 && rms_of(g, key) <= kRounding * rms) {
      silent_.push_back({p.get(), p->name + " (keys)", kKeyBias, true});
    }
  }
}

std::vector<std::string> FirstStepCheck::lines(const std::vector<ParameterUpdate>& updates) const {
  std::map<std::string, std::vector<std::string>> by_reason;
  for (const Finding& f : silent_) by_reason["the gradient is 0 (" + f.reason + "): "].push_back(f.name);
  for (const ParameterUpdate& u : updates) {
    const auto same = [&](const Finding& f) { return f.parameter == u.parameter && !f.part; };
    if (u.sum_of_squares > 0 || std::any_of(silent_.begin(), silent_.end(), same)) continue;
    by_reason["the first step did not move it (the update is below the rounding of the weights): "].push_back(
        u.parameter->name);
  }
  std::vector<std::string> lines;
  lines.reserve(by_reason.size());
  for (const auto& [reason, names] : by_reason) lines.push_back(reason + some(names));
  return lines;
}

}  // namespace plumb
