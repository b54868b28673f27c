#include "lab/report_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "lab/model_words.h"
#include "lab/page.h"
#include "lab/trace_pass.h"

namespace plumb {
namespace {

constexpr size_t kMostRecords = 80;  // columns of a heat map

OrderedJson rounded(double x) {
  if (!std::isfinite(x)) return nullptr;
  return std::strtod(fmt::format("{:.5g}", x).c_str(), nullptr);
}

// Means over [first, last) of what is finite.
template <class Value>
OrderedJson mean(const std::vector<StepLine>& steps, size_t first, size_t last, const Value& value) {
  double sum = 0;
  int64_t count = 0;
  for (size_t i = first; i < last; ++i) {
    const double x = value(steps[i]);
    if (!std::isfinite(x)) continue;
    sum += x;
    ++count;
  }
  return count ? rounded(sum / static_cast<double>(count)) : OrderedJson(nullptr);
}

OrderedJson step_columns(const RunRecords& run) {
  OrderedJson j = {{"step", OrderedJson::array()},
                   {"loss", OrderedJson::array()},
                   {"lr", OrderedJson::array()},
                   {"grad_norm", OrderedJson::array()},
                   {"tokens_per_second", OrderedJson::array()}};
  const auto& steps = run.steps;
  const auto each = static_cast<size_t>(steps_per_point(run));
  for (size_t first = 0; first < steps.size(); first += each) {
    const size_t last = std::min(first + each, steps.size());
    j["step"].push_back(steps[last - 1].step);
    j["loss"].push_back(mean(steps, first, last, [](const StepLine& s) { return s.loss; }));
    j["lr"].push_back(mean(steps, first, last, [](const StepLine& s) { return s.learning_rate; }));
    j["grad_norm"].push_back(mean(steps, first, last, [](const StepLine& s) { return s.gradient_norm; }));
    j["tokens_per_second"].push_back(mean(steps, first, last, [](const StepLine& s) {
      return s.seconds > 0 ? s.tokens / s.seconds : std::nan("");
    }));
  }
  return j;
}

OrderedJson evaluation_columns(const RunRecords& run) {
  OrderedJson j = {{"step", OrderedJson::array()}, {"loss", OrderedJson::array()}};
  for (const auto& e : run.evaluations) {
    j["step"].push_back(e.step);
    const auto loss = e.measures.find("loss");
    j["loss"].push_back(loss == e.measures.end() ? OrderedJson(nullptr) : rounded(loss->second));
  }
  return j;
}

// Steps that were skipped or spiked, at the height of the last loss that was finite.
OrderedJson events(const RunRecords& run) {
  OrderedJson j = OrderedJson::array();
  double height = std::nan("");
  for (const StepLine& s : run.steps) {
    if (std::isfinite(s.loss)) height = s.loss;
    if (s.skipped || s.spike) {
      j.push_back({{"step", s.step}, {"kind", s.skipped ? "skipped" : "spike"}, {"loss", rounded(height)}});
    }
  }
  return j;
}

std::vector<const ProbeLine*> shown_records(const RunRecords& run) {
  std::vector<const ProbeLine*> result;
  const size_t count = run.probe.size(), shown = std::min(count, kMostRecords);
  for (size_t i = 0; i < shown; ++i) {
    result.push_back(&run.probe[shown == 1 ? 0 : i * (count - 1) / (shown - 1)]);
  }
  return result;
}

using Places = std::vector<ProbeLine::Place> ProbeLine::*;

// Names of all places in the order in which they first came.
std::vector<std::string> names_of(const std::vector<const ProbeLine*>& records, Places places) {
  std::vector<std::string> names;
  std::map<std::string, bool> seen;
  for (const ProbeLine* record : records) {
    for (const auto& place : record->*places) {
      if (seen.emplace(place.at, true).second) names.push_back(place.at);
    }
  }
  return names;
}

// {measure: [record][place]}, null where it was not taken. The output of a stack is a stream, too.
OrderedJson measure_tables(const std::vector<const ProbeLine*>& records, Places places,
                           const std::vector<std::string>& names) {
  std::map<std::string, size_t> index;
  for (size_t i = 0; i < names.size(); ++i) index[names[i]] = i;
  const std::vector<OrderedJson> empty(names.size(), nullptr);
  std::map<std::string, OrderedJson> tables;
  for (size_t r = 0; r < records.size(); ++r) {
    for (const auto& place : records[r]->*places) {
      for (const auto& [name, value] : place.measures) {
        const std::string measure = name.starts_with("output.") ? "stream" + name.substr(6) : name;
        auto table = tables.find(measure);
        if (table == tables.end())
          table = tables.emplace(measure, std::vector<OrderedJson>(records.size(), empty)).first;
        table->second[r][index.at(place.at)] = rounded(value);
      }
    }
  }
  // As in the file: what is of the stream first, of the weights last.
  OrderedJson j = OrderedJson::object();
  for (const char* first : {"stream.rms", "step.added", "stream.grad_rms", "branch.rms", "step.cosine"}) {
    if (const auto found = tables.find(first); found != tables.end()) j[first] = found->second;
  }
  for (auto& [measure, table] : tables) j.emplace(measure, std::move(table));
  return j;
}

// Of every sub-layer that the config has; a feed-forward beside its attention is drawn with it.
OrderedJson formulas(const RunRecords& run) {
  OrderedJson j = OrderedJson::object();
  if (!run.config) return j;
  for (const SublayerName& s : sublayers_of(*run.config)) {
    j[s.module] = formula_data(sublayer_formula(*run.config, s.side, s.layer, part_named(s.part)),
                               resolved_layer(*run.config, s.side, s.layer));
  }
  return j;
}

OrderedJson run_data(const RunRecords& run) {
  const auto records = shown_records(run);
  const auto sites = names_of(records, &ProbeLine::sites),
             parameters = names_of(records, &ProbeLine::parameters);
  OrderedJson steps = OrderedJson::array();
  for (const ProbeLine* record : records) steps.push_back(record->step);
  return {{"name", run.name},
          {"steps", step_columns(run)},
          {"evaluations", evaluation_columns(run)},
          {"events", events(run)},
          {"probe", {{"step", std::move(steps)}}},
          {"sites", sites},
          {"measures", measure_tables(records, &ProbeLine::sites, sites)},
          {"parameters", parameters},
          {"parameter_measures", measure_tables(records, &ProbeLine::parameters, parameters)},
          {"formulas", formulas(run)}};
}

}  // namespace

int64_t steps_per_point(const RunRecords& run) {
  const auto n = static_cast<int64_t>(run.steps.size());
  return std::max<int64_t>(1, (n + kMostPoints - 1) / kMostPoints);
}

std::string report_data(const std::vector<RunRecords>& runs) {
  OrderedJson all = OrderedJson::array();
  for (const RunRecords& run : runs) all.push_back(run_data(run));
  return script_data({{"runs", std::move(all)}});
}

}  // namespace plumb
