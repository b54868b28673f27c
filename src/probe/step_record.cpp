#include "probe/step_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
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
  const double rms = m.rms(), mean = m.mean();
  j["rms"] = rounded(rms);
  j["mean"] = rounded(mean);
  if (!(rms <= 0)) j["mean_over_rms"] = rounded(mean / rms);
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
  if (w.gradient_count > 0) {
    j["grad_norm"] = rounded(std::sqrt(w.gradient_squares));
    j["grad_rms"] = rounded(std::sqrt(w.gradient_squares / static_cast<double>(w.gradient_count)));
  }
  j["rms"] = rounded(rms);
  if (w.update_count > 0) {
    const double update = std::sqrt(w.update_squares / static_cast<double>(w.update_count));
    j["update_rms"] = rounded(update);
    if (rms > 0) j["update_ratio"] = rounded(update / rms);
  }
  return j;
}

OrderedJson json_of(const AttentionMeasures& a) {
  OrderedJson j = OrderedJson::object();
  const auto queries = static_cast<double>(a.queries);
  j["max_logit"] = rounded(a.max_logit);
  if (a.spread > 0) {
    j["entropy"] = rounded(a.mean_entropy());
    j["least_entropy"] = rounded(a.least_entropy());
    j["first_mass"] = rounded(a.first_mass / static_cast<double>(a.spread));
  }
  j["query_norm"] = rounded(a.query_norm / queries);
  if (a.keys > 0) j["key_norm"] = rounded(a.key_norm / static_cast<double>(a.keys));
  return j;
}

OrderedJson json_of(const StreamMeasures& s) {
  OrderedJson j = OrderedJson::object();
  j["cosine"] = rounded(s.cosine / static_cast<double>(s.rows));
  j["amax"] = rounded(s.gain->amax());
  j["row_sum"] = rounded(s.gain->largest_row);
  j["least_row_sum"] = rounded(s.gain->least_row);
  j["column_sum"] = rounded(s.gain->largest_column);
  j["least_column_sum"] = rounded(s.gain->least_column);
  return j;
}

OrderedJson json_of(const LogitSums& l) {
  OrderedJson j = OrderedJson::object();
  j["log_z"] = rounded(l.log_z / static_cast<double>(l.rows));
  j["max"] = rounded(l.values.not_finite() > 0 ? std::nan("") : l.values.max());
  j["mean"] = rounded(l.values.mean());
  j["rms"] = rounded(l.values.rms());
  if (l.values.not_finite() > 0) j["not_finite"] = l.values.not_finite();
  return j;
}

void add_geometry(OrderedJson& quantity, const Geometry& g) {
  const auto n = static_cast<double>(g.sequences);
  quantity["token_cosine"] = rounded(g.cosine / n);
  quantity["residual"] = rounded(g.residual / n);
  quantity["effective_rank"] = rounded(g.rank / n);
}

OrderedJson json_of(const SiteRecord& site) {
  OrderedJson j = OrderedJson::object();
  j["at"] = site.at;
  for (const auto& [name, measures] : site.quantities) {
    j[name] = json_of(measures);
    if (site.geometry.sequences > 0 && name != "branch") add_geometry(j[name], site.geometry);
  }
  const Measures *stream = site.find("stream"), *branch = site.find("branch");
  OrderedJson step = OrderedJson::object();
  if (stream && branch && stream->rms() > 0) step["ratio"] = rounded(branch->rms() / stream->rms());
  if (site.cosine.rows > 0) {
    step["cosine"] = rounded(site.cosine.sum / static_cast<double>(site.cosine.rows));
    step["angle"] = rounded(site.cosine.angles / static_cast<double>(site.cosine.rows));
  }
  if (!step.empty()) j["step"] = std::move(step);
  if (site.streams.rows > 0) j["streams"] = json_of(site.streams);
  if (site.attention.queries > 0) j["attention"] = json_of(site.attention);
  if (site.logits.rows > 0) j["logits"] = json_of(site.logits);
  for (const auto& [group, numbers] : site.numbers) {
    for (const auto& [name, value] : numbers) j[group][name] = rounded(value);
  }
  if (site.weights.count > 0) j["weights"] = json_of(site.weights);
  return j;
}

// The layer of "decoder.3.attention" in the stack "decoder", or -1.
int64_t layer_of(const std::string& at, const std::string& stack) {
  if (!at.starts_with(stack + ".")) return -1;
  int64_t layer = -1;
  const char *begin = at.data() + stack.size() + 1, *end = at.data() + at.size();
  const auto [next, fault] = std::from_chars(begin, end, layer);
  return fault == std::errc() && next != end && *next == '.' ? layer : -1;
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

std::optional<Extent> extent_of(const Parameter& p) {
  if ((p.role != Role::gain && p.role != Role::gate) || p.value.numel() == 0) return std::nullopt;
  const float* x = p.value.f32();
  Extent e{.least = x[0], .most = x[0]};
  for (int64_t i = 0; i < p.value.numel(); ++i) {
    e.least = std::min(e.least, double{x[i]});
    e.most = std::max(e.most, double{x[i]});
    e.mean += x[i] / static_cast<double>(p.value.numel());
  }
  return e;
}

void LogitSums::add(const Tensor& logits) {
  values.add(logits);
  const int64_t width = logits.width();
  for (int64_t r = 0; r < logits.rows(); ++r) {
    const float* row = logits.f32() + r * width;
    const double highest = *std::max_element(row, row + width);
    double sum = 0;
    for (int64_t v = 0; v < width; ++v) sum += std::exp(row[v] - highest);
    log_z += highest + std::log(sum);
  }
  rows += logits.rows();
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

// Gradients by layer, and how they differ over the layers of a stack.
void StepRecord::add_layers(const std::string& stack) {
  std::map<int64_t, double> squares;
  double first = 0, last = 0;  // of the stream
  for (const SiteRecord& s : sites_) {
    const int64_t layer = layer_of(s.at, stack);
    if (layer < 0) continue;
    if (s.weights.gradient_count > 0) squares[layer] += s.weights.gradient_squares;
    if (const Measures* stream = s.find("stream"); stream && stream->has_gradient()) {
      last = stream->gradient_norm();
      if (first == 0) first = last;
    }
  }
  if (squares.empty()) return;
  double sum = 0, sum_of_squares = 0;
  for (const auto& [layer, square] : squares) {
    sum += std::sqrt(square);
    sum_of_squares += square;
    site(fmt::format("{}.{}", stack, layer)).numbers["layer"]["grad_norm"] = std::sqrt(square);
  }
  const auto n = static_cast<double>(squares.size());
  auto& numbers = site(stack).numbers["layers"];
  const double begin = std::sqrt(squares.begin()->second), end = std::sqrt(squares.rbegin()->second);
  if (!(end <= 0)) numbers["grad_first_over_last"] = begin / end;
  if (!(last <= 0)) numbers["stream_grad_first_over_last"] = first / last;
  if (!(sum <= 0)) numbers["grad_cv"] = std::sqrt(std::max(0.0, n * sum_of_squares / (sum * sum) - 1));
}

std::string StepRecord::line(const Outcome& outcome) {
  double gradient_squares = 0;
  OrderedJson parameters = OrderedJson::array();
  for (const ParameterRecord& p : parameters_) {
    gradient_squares += p.sums.gradient_squares;
    site(place_of(p.parameter->name)).weights += p.sums;
    OrderedJson j = OrderedJson::object();
    j["at"] = p.parameter->name;
    j.update(json_of(p.sums));
    if (outcome.training && outcome.training->adam_eps > 0 && p.sums.gradient_count > 0) {
      const double rms = std::sqrt(p.sums.gradient_squares / static_cast<double>(p.sums.gradient_count));
      j["grad_over_eps"] = rounded(rms * outcome.training->clip_scale / outcome.training->adam_eps);
    }
    if (p.extent) {
      j["min"] = rounded(p.extent->least);
      j["mean"] = rounded(p.extent->mean);
      j["max"] = rounded(p.extent->most);
    }
    parameters.push_back(std::move(j));
  }
  for (const char* stack : {"encoder", "decoder"}) add_layers(stack);
  OrderedJson sites = OrderedJson::array();
  for (const SiteRecord& s : sites_) sites.push_back(json_of(s));

  OrderedJson j = OrderedJson::object();
  j["step"] = outcome.step;
  if (outcome.loss) j["loss"] = rounded(*outcome.loss);
  if (outcome.training) {
    j["lr"] = rounded(outcome.training->learning_rate);
    j["grad_norm"] = rounded(std::sqrt(gradient_squares));
    j["clip"] = rounded(outcome.training->clip_scale);
  }
  j["sites"] = std::move(sites);
  if (outcome.training) j["parameters"] = std::move(parameters);
  return dump_json(j, -1);
}

}  // namespace plumb
