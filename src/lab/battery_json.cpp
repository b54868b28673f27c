// The battery's results as lines of JSON, out and in.
#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/file.h"
#include "base/json.h"
#include "plumb/battery.h"
#include "plumb/error.h"

namespace plumb {
namespace {

OrderedJson known(const std::optional<double>& x) {
  return x && std::isfinite(*x) ? OrderedJson(*x) : OrderedJson(nullptr);
}

std::optional<double> bound(const Json& j) {
  return j.is_null() ? std::nullopt : std::optional(j.get<double>());
}

double number(const Json& j) {
  return j.is_null() ? std::numeric_limits<double>::quiet_NaN() : j.get<double>();
}

std::vector<double> numbers(const Json& j) {
  std::vector<double> values;
  values.reserve(j.size());
  for (const Json& x : j) values.push_back(number(x));
  return values;
}

BatteryExperiment experiment_of(const Json& j) {
  BatteryExperiment e;
  j.at("number").get_to(e.number);
  j.at("title").get_to(e.title);
  j.at("source").get_to(e.source);
  j.at("setting").get_to(e.setting);
  j.at("seconds").get_to(e.seconds);
  j.at("processor_seconds").get_to(e.processor_seconds);
  j.at("x").get_to(e.x_name);
  j.at("y").get_to(e.y_name);
  j.at("remarks").get_to(e.remarks);
  j.at("placements").get_to(e.placements);
  j.at("machine").get_to(e.machine);
  for (const Json& f : j.at("figures")) {
    e.figures.push_back({f.at("name").get<std::string>(), number(f.at("value")), bound(f.at("low")),
                         bound(f.at("high")), f.at("expected").get<std::string>()});
  }
  for (const Json& c : j.at("curves"))
    e.curves.push_back({c.at("name").get<std::string>(), numbers(c.at("x")), numbers(c.at("y"))});
  return e;
}

}  // namespace

std::string battery_json(const BatteryExperiment& e) {
  OrderedJson figures = OrderedJson::array(), curves = OrderedJson::array();
  for (const BatteryFigure& f : e.figures) {
    figures.push_back({{"name", f.name},
                       {"value", known(f.value)},
                       {"low", known(f.low)},
                       {"high", known(f.high)},
                       {"gated", f.gated()},
                       {"passed", f.passed()},
                       {"expected", f.expected}});
  }
  for (const BatteryCurve& c : e.curves) curves.push_back({{"name", c.name}, {"x", c.x}, {"y", c.y}});
  return dump_json(OrderedJson{{"number", e.number},
                               {"title", e.title},
                               {"source", e.source},
                               {"setting", e.setting},
                               {"passed", e.passed()},
                               {"seconds", e.seconds},
                               {"processor_seconds", e.processor_seconds},
                               {"figures", figures},
                               {"x", e.x_name},
                               {"y", e.y_name},
                               {"curves", curves},
                               {"remarks", e.remarks},
                               {"placements", e.placements},
                               {"machine", e.machine}},
                   -1);
}

std::vector<BatteryExperiment> read_battery(const std::string& path) {
  std::istringstream lines(read_file(path));
  std::map<int, BatteryExperiment> by_number;
  int64_t line_number = 0;
  for (std::string line; std::getline(lines, line);) {
    const std::string name = fmt::format("{}, line {}", path, ++line_number);
    try {
      BatteryExperiment e = experiment_of(parse_json(line, name));
      by_number[e.number] = std::move(e);
    } catch (const Json::exception& why) {
      throw Error(ErrorKind::file,
                  fmt::format("{}: not a line that plumb battery --json writes ({})", name, why.what()));
    }
  }
  if (by_number.empty()) throw Error(ErrorKind::file, path + " holds no experiment");
  std::vector<BatteryExperiment> experiments;
  experiments.reserve(by_number.size());
  for (auto& [n, e] : by_number) experiments.push_back(std::move(e));
  return experiments;
}

}  // namespace plumb
