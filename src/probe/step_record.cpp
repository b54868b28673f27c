#include "probe/step_record.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>

namespace plumb {
namespace {

// Six significant digits, so that no more are written.
OrderedJson rounded(double x) {
  if (!std::isfinite(x)) return nullptr;
  return std::strtod(fmt::format("{:.6g}", x).c_str(), nullptr);
}

OrderedJson json_of(const Measures& m) {
  OrderedJson j = OrderedJson::object();
  j["rms"] = rounded(m.rms());
  j["mean"] = rounded(m.mean());
  j["max"] = rounded(m.max());
  j["median"] = rounded(m.median());
  j["kurtosis"] = rounded(m.kurtosis());
  if (m.not_finite() > 0) j["not_finite"] = m.not_finite();
  if (m.has_gradient()) {
    j["grad_norm"] = rounded(m.gradient_norm());
    j["grad_rms"] = rounded(m.gradient_rms());
  }
  return j;
}

OrderedJson json_of(const WeightSums& w) {
  OrderedJson j = OrderedJson::object();
  const double rms = std::sqrt(w.squares / static_cast<double>(w.count));
  if (w.gradient_count > 0) j["grad_norm"] = rounded(std::sqrt(w.gradient_squares));
  j["rms"] = rounded(rms);
  if (w.update_count > 0) {
    const double update = std::sqrt(w.update_squares / static_cast<double>(w.update_count));
    j["update_rms"] = rounded(update);
    if (rms > 0) j["update_ratio"] = rounded(update / rms);
  }
  return j;
}

OrderedJson json_of(const SiteRecord& site) {
  OrderedJson j = OrderedJson::object();
  j["at"] = site.at;
  for (const auto& [name, measures] : site.quantities) j[name] = json_of(measures);
  const Measures *stream = site.find("stream"), *branch = site.find("branch");
  OrderedJson step = OrderedJson::object();
  if (stream && branch && stream->rms() > 0) step["ratio"] = rounded(branch->rms() / stream->rms());
  if (site.cosine.rows > 0) step["cosine"] = rounded(site.cosine.sum / static_cast<double>(site.cosine.rows));
  if (!step.empty()) j["step"] = std::move(step);
  if (site.weights.count > 0) j["weights"] = json_of(site.weights);
  return j;
}

}  // namespace

WeightSums& WeightSums::operator+=(const WeightSums& other) {
  count += other.count;
  gradient_count += other.gradient_count;
  update_count += other.update_count;
  squares += other.squares;
  gradient_squares += other.gradient_squares;
  update_squares += other.update_squares;
  return *this;
}

const Measures* SiteRecord::find(const std::string& quantity) const {
  for (const auto& [name, measures] : quantities) {
    if (name == quantity) return &measures;
  }
  return nullptr;
}

Measures& SiteRecord::operator[](const std::string& quantity) {
  for (auto& [name, measures] : quantities) {
    if (name == quantity) return measures;
  }
  return quantities.emplace_back(quantity, Measures()).second;
}

SiteRecord& StepRecord::site(const std::string& at) {
  const auto [entry, is_new] = index_.emplace(at, sites_.size());
  if (is_new) sites_.push_back({.at = at});
  return sites_[entry->second];
}

// The sub-layer whose name begins the parameter's, or else the module that holds it.
std::string StepRecord::place_of(const std::string& parameter) const {
  for (const SiteRecord& s : sites_) {
    if (s.find("stream") && parameter.starts_with(s.at + ".")) return s.at;
  }
  return parameter.substr(0, parameter.rfind('.'));
}

void StepRecord::add_parameter(const std::string& name, const WeightSums& sums) {
  parameters_.emplace_back(name, sums);
}

std::string StepRecord::line(const Outcome& outcome) {
  double gradient_squares = 0;
  OrderedJson parameters = OrderedJson::array();
  for (const auto& [name, sums] : parameters_) {
    gradient_squares += sums.gradient_squares;
    site(place_of(name)).weights += sums;
    OrderedJson j = OrderedJson::object();
    j["at"] = name;
    j.update(json_of(sums));
    parameters.push_back(std::move(j));
  }
  OrderedJson sites = OrderedJson::array();
  for (const SiteRecord& s : sites_) sites.push_back(json_of(s));

  OrderedJson j = OrderedJson::object();
  j["step"] = outcome.step;
  j["loss"] = rounded(outcome.loss);
  j["lr"] = rounded(outcome.learning_rate);
  j["grad_norm"] = rounded(std::sqrt(gradient_squares));
  j["clip"] = rounded(outcome.clip_scale);
  j["sites"] = std::move(sites);
  j["parameters"] = std::move(parameters);
  return dump_json(j, -1);
}

}  // namespace plumb
