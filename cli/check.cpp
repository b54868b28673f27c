// plumb check: the rules on a model or a recipe, as text, JSON lines or SARIF.
#include "plumb/check.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>

#include "commands.h"
#include "model_folder.h"
#include "plumb/error.h"
#include "probe_flags.h"
#include "run_settings.h"

namespace plumb::cli {
namespace {

using Json = nlohmann::ordered_json;
using Findings = std::vector<CheckFinding>;

struct CheckSettings {
  std::string model, text;
  bool json = false, sarif = false, strict = false, rules = false;
  ProbeFlags probe;
};

const CheckRule& rule_of(const CheckFinding& finding) {
  const std::vector<CheckRule>& all = check_rules();
  return *std::find_if(all.begin(), all.end(), [&](const CheckRule& r) { return r.code == finding.code; });
}

int64_t count(const Findings& findings, Severity severity) {
  return std::count_if(findings.begin(), findings.end(),
                       [&](const CheckFinding& f) { return f.severity == severity; });
}

std::string counted(int64_t n, const char* what) {
  return fmt::format("{} {}{}", n, what, n == 1 ? "" : "s");
}

// A severity as a terminal shows it.
std::string coloured(Severity severity, bool colours) {
  std::string name = enum_name(severity);
  if (!colours) return name;
  const char* code = severity == Severity::error ? "31" : severity == Severity::warning ? "33" : "36";
  return fmt::format("\x1b[1;{}m{}\x1b[0m", code, name);
}

void print_text(const Findings& findings, const std::string& model) {
  const bool colours = isatty(STDOUT_FILENO) && std::getenv("NO_COLOR") == nullptr;
  const CheckRule* last = nullptr;
  for (const CheckFinding& f : findings) {
    const CheckRule& rule = rule_of(f);
    if (!last || last->code != rule.code) {
      if (!last || last->subject != rule.subject) fmt::print("{}{}\n", last ? "\n" : "", rule.subject);
      fmt::print("\n  {} {}  {}\n", rule.code, coloured(f.severity, colours), rule.sentence);
      fmt::print("    why  {}\n    fix  {}\n", rule.source, rule.fix);
    }
    last = &rule;
    fmt::print("    at   {}\n         found {}; expected {}\n", f.where, f.found, f.expected);
  }
  if (findings.empty()) {
    fmt::print("{}: nothing found by {} rules\n", model, check_rules().size());
  } else {
    fmt::print("\n{}: {}, {}, {}\n", model, counted(count(findings, Severity::error), "error"),
               counted(count(findings, Severity::warning), "warning"),
               counted(count(findings, Severity::note), "note"));
  }
}

std::string dumped(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

void print_json(const Findings& findings) {
  for (const CheckFinding& f : findings) {
    const CheckRule& rule = rule_of(f);
    const Json line{{"code", f.code},
                    {"severity", enum_name(f.severity)},
                    {"subject", rule.subject},
                    {"where", f.where},
                    {"found", f.found},
                    {"expected", f.expected},
                    {"sentence", rule.sentence},
                    {"source", rule.source},
                    {"fix", rule.fix}};
    fmt::print("{}\n", dumped(line, -1));
  }
}

// A path as a URI reference (RFC 3986).
std::string uri_of(const std::string& path) {
  std::string uri;
  for (const char c : path) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) || std::string_view("-._~/").find(c) != std::string_view::npos) {
      uri += c;
    } else {
      uri += fmt::format("%{:02X}", byte);
    }
  }
  return uri;
}

// SARIF 2.1.0, https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html
void print_sarif(const Findings& findings, const std::string& model) {
  Json rules = Json::array(), results = Json::array();
  std::map<std::string, size_t> index;
  for (const CheckRule& r : check_rules()) {
    index[r.code] = rules.size();
    rules.push_back({{"id", r.code},
                     {"shortDescription", {{"text", r.sentence}}},
                     {"fullDescription", {{"text", fmt::format("{} Shown by: {}.", r.sentence, r.source)}}},
                     {"help", {{"text", r.fix}}},
                     {"defaultConfiguration", {{"level", enum_name(r.severity)}}},
                     {"properties", {{"tags", {r.subject}}}}});
  }
  for (const CheckFinding& f : findings) {
    const std::string text = fmt::format("{} {}: found {}; expected {}. {}", rule_of(f).sentence, f.where,
                                         f.found, f.expected, rule_of(f).fix);
    const Json location{{"physicalLocation", {{"artifactLocation", {{"uri", uri_of(model)}}}}},
                        {"logicalLocations", Json::array({{{"fullyQualifiedName", f.where}}})}};
    results.push_back({{"ruleId", f.code},
                       {"ruleIndex", index.at(f.code)},
                       {"level", enum_name(f.severity)},
                       {"message", {{"text", text}}},
                       {"locations", Json::array({location})}});
  }
  const Json driver{{"name", "plumb check"}, {"version", PLUMB_VERSION}, {"rules", rules}};
  const Json run{{"tool", {{"driver", driver}}}, {"results", results}, {"columnKind", "utf16CodeUnits"}};
  const Json sarif{{"$schema", "https://json.schemastore.org/sarif-2.1.0.json"},
                   {"version", "2.1.0"},
                   {"runs", Json::array({run})}};
  fmt::print("{}\n", dumped(sarif, 2));
}

void print_rules() {
  fmt::print("| code | severity | subject | what it finds | shown by | fix |\n|---|---|---|---|---|---|\n");
  for (const CheckRule& r : check_rules()) {
    fmt::print("| {} | {} | {} | {} | {} | {} |\n", r.code, enum_name(r.severity), r.subject, r.sentence,
               r.source, r.fix);
  }
}

std::string read_text(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  if (!in) throw Error(ErrorKind::file, "--text: cannot read " + path);
  if (text.str().empty()) throw Error(ErrorKind::input, "--text: " + path + " is empty");
  return text.str();
}

Findings check(const CheckSettings& s) {
  const std::string folder = model_folder(s.model);
  std::optional<Probe> probe = s.probe.open();
  if (!std::filesystem::is_directory(folder)) {
    if (probe)
      throw Error(ErrorKind::usage, "--probe watches the pass of a model: a recipe has none to watch yet");
    TrainCommand command{.recipe = s.model};
    add_settings(command);
    const ModelConfig config = recipe_config(command);
    return check_recipe(config, command.options);
  }
  CheckOptions options{.observer = probe ? probe->observer() : nullptr};
  if (!s.text.empty()) options.text = read_text(s.text);
  const auto recipe = std::filesystem::path(s.model) / "recipe.toml";
  if (folder != s.model && std::filesystem::exists(recipe)) {
    TrainCommand command{.recipe = recipe.string()};
    add_settings(command);
    resolve_config(command);
    options.training = command.options;
  }
  return check_folder(folder, options);
}

void run(const CheckSettings& s) {
  if (s.rules && !s.probe.file.empty())
    throw Error(ErrorKind::usage, "--rules checks nothing, so there is no pass that --probe could watch");
  if (s.rules) return print_rules();
  if (s.model.empty())
    throw Error(ErrorKind::usage, "check takes a model, a run or a recipe (plumb check --help)");
  if (s.json && s.sarif)
    throw Error(ErrorKind::usage, "--json and --sarif are two ways to write the same: choose one");
  const Findings findings = check(s);
  if (s.json) {
    print_json(findings);
  } else if (s.sarif) {
    print_sarif(findings, s.model);
  } else {
    print_text(findings, s.model);
  }
  exit_status = count(findings, Severity::error) > 0                 ? 2
                : s.strict && count(findings, Severity::warning) > 0 ? 1
                                                                     : 0;
}

}  // namespace
}  // namespace plumb::cli

void add_check(CLI::App& app) {
  auto s = std::make_shared<plumb::cli::CheckSettings>();
  CLI::App* sub = app.add_subcommand("check", "Looks a model or a recipe over for what is known to go wrong");
  sub->footer(
      "Ends with 0 where nothing was found but notes (and warnings, without --strict), 1 where --strict met "
      "a\n"
      "warning, 2 where there are errors. Also 1 where nothing could be looked at and 2 where the command "
      "line is\n"
      "wrong; those say so in one line on the standard error.");
  sub->add_option("model", s->model,
                  "folder of a model or of a run, a recipe file, or the name of a built-in one");
  sub->add_option("--text", s->text,
                  "UTF-8 file with sample text for what is measured (default: a short story)");
  sub->add_flag("--json", s->json, "one JSON object a line for each finding");
  sub->add_flag("--sarif", s->sarif, "a SARIF 2.1.0 log, as code hosts and editors read it");
  sub->add_flag("--strict", s->strict, "warnings make the command fail too");
  sub->add_flag("--rules", s->rules, "list the rules as a Markdown table, and check nothing");
  s->probe.add_file_to(*sub);
  sub->callback([s] { plumb::cli::run(*s); });
}
