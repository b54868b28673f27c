#include "lab/run_records.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/json.h"
#include "base/utf8.h"
#include "model/families.h"
#include "plumb/error.h"

namespace plumb {
namespace {

double number(const Json& j, const std::string& key) {
  if (j.is_null()) return std::numeric_limits<double>::quiet_NaN();
  if (!j.is_number())
    throw Error(ErrorKind::file, fmt::format("\"{}\" is {}, not a number", key, j.type_name()));
  return j.get<double>();
}

double number_at(const Json& object, const char* key, double absent) {
  const auto found = object.find(key);
  return found == object.end() ? absent : number(*found, key);
}

bool flag_at(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_boolean() && found->get<bool>();
}

int64_t step_of(const Json& record) {
  if (!record.is_object()) throw Error(ErrorKind::file, "not an object");
  const auto found = record.find("step");
  if (found == record.end() || !found->is_number_integer() || found->get<int64_t>() < 0) {
    throw Error(ErrorKind::file, "no whole number \"step\"");
  }
  return found->get<int64_t>();
}

StepLine step_line(const Json& j) {
  return {.step = step_of(j),
          .loss = number_at(j, "loss", std::numeric_limits<double>::quiet_NaN()),
          .learning_rate = number_at(j, "lr", std::numeric_limits<double>::quiet_NaN()),
          .gradient_norm = number_at(j, "grad_norm", std::numeric_limits<double>::quiet_NaN()),
          .tokens = number_at(j, "tokens", 0),
          .seconds = number_at(j, "seconds", 0),
          .skipped = flag_at(j, "skipped"),
          .spike = flag_at(j, "spike")};
}

EvaluationLine evaluation_line(const Json& j) {
  EvaluationLine line{.step = step_of(j)};
  for (const auto& [key, value] : j.items()) {
    if (key == "step") continue;
    const bool prefixed = key.starts_with("validation_");
    line.measures[prefixed ? key.substr(11) : key] = number(value, key);
  }
  return line;
}

ProbeLine::Place place_of(const Json& j) {
  if (!j.is_object() || !j.contains("at") || !j.at("at").is_string()) {
    throw Error(ErrorKind::file, "a place without its name \"at\"");
  }
  ProbeLine::Place place{.at = j.at("at")};
  for (const auto& [key, value] : j.items()) {
    if (key == "at") continue;
    if (!value.is_object()) {
      place.measures[key] = number(value, key);
      continue;
    }
    for (const auto& [measure, x] : value.items()) {
      const std::string name = fmt::format("{}.{}", key, measure);
      place.measures[name] = number(x, name);
    }
  }
  return place;
}

ProbeLine probe_line(const Json& j) {
  ProbeLine line{.step = step_of(j),
                 .gradient_norm = number_at(j, "grad_norm", std::numeric_limits<double>::quiet_NaN()),
                 .clip = number_at(j, "clip", 1)};
  for (const char* list : {"sites", "parameters"}) {
    const auto found = j.find(list);
    if (found == j.end()) continue;
    if (!found->is_array()) throw Error(ErrorKind::file, fmt::format("\"{}\" is not a list", list));
    auto& places = std::string_view(list) == "sites" ? line.sites : line.parameters;
    for (const Json& place : *found) places.push_back(place_of(place));
  }
  return line;
}

constexpr const char* kRunFiles[] = {"metrics.jsonl", "probe.jsonl", "recipe.toml", "sample.txt",
                                     "model/config.json"};

struct LineFile {
  const char* name = "";
  bool growing = false;
};

// Calls `take` with each line's value. What a line throws becomes a problem.
void read_lines(RunRecords& run, const LineFile& file, const std::function<void(const Json&)>& take) {
  const char* name = file.name;
  const std::string text = read_file(join_path(run.folder, name));
  size_t number = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line(text.data() + begin, end - begin);
    begin = end + 1;
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    try {
      take(parse_json(line, fmt::format("{}, line {}", name, number)));
    } catch (const Error& e) {
      if (file.growing && end == text.size()) return;
      const std::string where = fmt::format("{}, line {}: ", name, number), what = e.what();
      run.problems.push_back(what.starts_with(where) ? what : where + what);
    }
  }
}

// A resumed run may have written a step twice: the later line counts.
template <class Line>
void keep_last_of_each_step(std::vector<Line>& lines) {
  std::stable_sort(lines.begin(), lines.end(), [](const Line& a, const Line& b) { return a.step < b.step; });
  std::vector<Line> kept;
  for (Line& line : lines) {
    if (!kept.empty() && kept.back().step == line.step) kept.pop_back();
    kept.push_back(std::move(line));
  }
  lines = std::move(kept);
}

std::string optional_text(const RunRecords& run, const char* name) {
  const std::string path = join_path(run.folder, name);
  if (!path_exists(path)) return "";
  return utf8_repaired(read_file(path));
}

void add_config(RunRecords& run) {
  const std::string path = join_path(run.folder, "model/config.json");
  if (!path_exists(path)) return;
  try {
    run.config = read_config(read_file(path), "model/config.json");
  } catch (const Error& e) {
    run.problems.push_back(e.what());
  }
}

}  // namespace

RunRecords read_run(const std::string& folder, bool growing) {
  if (!is_folder(folder)) throw Error(ErrorKind::file, fmt::format("there is no folder {}", folder));
  const std::filesystem::path path = absolute_path(folder);
  RunRecords run{.folder = folder, .name = (path.has_filename() ? path : path.parent_path()).filename()};
  if (!path_exists(join_path(folder, "metrics.jsonl"))) {
    throw Error(ErrorKind::file,
                fmt::format("{} has no metrics.jsonl: it is not the folder of a training run", folder));
  }
  read_lines(run, {"metrics.jsonl", growing}, [&](const Json& j) {
    step_of(j);
    if (j.contains("validation_loss")) {
      run.evaluations.push_back(evaluation_line(j));
    } else {
      run.steps.push_back(step_line(j));
    }
  });
  if (path_exists(join_path(folder, "probe.jsonl"))) {
    read_lines(run, {"probe.jsonl", growing}, [&](const Json& j) { run.probe.push_back(probe_line(j)); });
  }
  keep_last_of_each_step(run.steps);
  keep_last_of_each_step(run.evaluations);
  keep_last_of_each_step(run.probe);
  if (run.steps.empty()) {
    const std::string first = run.problems.empty() ? "" : " (" + run.problems.front() + ")";
    throw Error(ErrorKind::file,
                fmt::format("{} holds no step to report: the run ended before its first one{}",
                            join_path(folder, "metrics.jsonl"), first));
  }
  add_config(run);
  run.recipe = optional_text(run, "recipe.toml");
  run.sample = optional_text(run, "sample.txt");
  return run;
}

std::string run_version(const std::string& folder) {
  std::string version;
  for (const char* name : kRunFiles) {
    const std::filesystem::path path = join_path(folder, name);
    std::error_code none;  // then the file is not there, which is a version, too
    const auto size = std::filesystem::file_size(path, none);
    const auto time = std::filesystem::last_write_time(path, none).time_since_epoch().count();
    version += fmt::format("{:x}.{:x}-", none ? 0 : size, none ? 0 : time);
  }
  return version;
}

std::vector<std::pair<std::string, std::string>> recipe_settings(const RunRecords& run) {
  std::vector<std::pair<std::string, std::string>> settings;
  for (size_t begin = 0; begin < run.recipe.size();) {
    const size_t end = std::min(run.recipe.find('\n', begin), run.recipe.size());
    const std::string_view line(run.recipe.data() + begin, end - begin);
    begin = end + 1;
    const size_t equals = line.find(" = ");
    if (line.starts_with('#') || equals == std::string_view::npos) continue;
    settings.emplace_back(line.substr(0, equals), line.substr(equals + 3));
  }
  return settings;
}

std::string setting(const RunRecords& run, std::string_view key) {
  for (auto& [name, value] : recipe_settings(run)) {
    if (name != key) continue;
    std::erase(value, '"');
    return value;
  }
  return "";
}

}  // namespace plumb
