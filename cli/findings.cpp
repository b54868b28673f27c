// What checks found, as text, JSON lines or SARIF, and the exit status.
#include "findings.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "plumb/config_fields.h"
#include "plumb/error.h"

namespace plumb::cli {
namespace {

using Json = nlohmann::ordered_json;

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

void print_text(const Findings& findings, const std::string& model, size_t rules) {
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
    fmt::print("{}: nothing found by {} rules\n", model, rules);
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

}  // namespace

void FindingFlags::add_to(CLI::App& command) {
  command.footer(
      "Ends with 0 where nothing was found but notes (and warnings, without --strict), 1 where --strict met "
      "a\n"
      "warning, 2 where there are errors. Also 1 where nothing could be looked at and 2 where the command "
      "line is\n"
      "wrong; those say so in one line on the standard error.");
  command.add_flag("--json", json, "one JSON object a line for each finding");
  command.add_flag("--sarif", sarif, "a SARIF 2.1.0 log, as code hosts and editors read it");
  command.add_flag("--strict", strict, "warnings make the command fail too");
}

void FindingFlags::refuse_contradictions() const {
  if (json && sarif)
    throw Error(ErrorKind::usage, "--json and --sarif are two ways to write the same: choose one");
}

void FindingFlags::report(const Findings& findings, const std::string& subject, size_t rules) const {
  if (json) {
    print_json(findings);
  } else if (sarif) {
    print_sarif(findings, subject);
  } else {
    print_text(findings, subject, rules);
  }
  exit_status = count(findings, Severity::error) > 0               ? 2
                : strict && count(findings, Severity::warning) > 0 ? 1
                                                                   : 0;
}

}  // namespace plumb::cli
