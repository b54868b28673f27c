// plumb check: the rules on a model or a recipe, as text, JSON lines or SARIF.
#include "plumb/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>

#include "commands.h"
#include "findings.h"
#include "model_folder.h"
#include "plumb/error.h"
#include "probe_flags.h"
#include "run_settings.h"

namespace plumb::cli {
namespace {

struct CheckSettings {
  std::string model, text;
  bool rules = false;
  FindingFlags findings;
  ProbeFlags probe;
};

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
  if (is_adapter(folder)) {
    throw Error(ErrorKind::usage,
                folder + " is an adapter: check reads the files of a model, as plumb merge makes one");
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
  s.findings.refuse_contradictions();
  const auto& all = check_rules();
  const auto rules =
      std::count_if(all.begin(), all.end(), [](const CheckRule& r) { return r.subject != "tokenizer"; });
  s.findings.report(check(s), s.model, static_cast<size_t>(rules));
}

}  // namespace
}  // namespace plumb::cli

void add_check(CLI::App& app) {
  auto s = std::make_shared<plumb::cli::CheckSettings>();
  CLI::App* sub = app.add_subcommand("check", "Looks a model or a recipe over for what is known to go wrong");
  sub->add_option("model", s->model,
                  "folder of a model or of a run, a recipe file, or the name of a built-in one");
  sub->add_option("--text", s->text,
                  "UTF-8 file with sample text for what is measured (default: a short story)");
  s->findings.add_to(*sub);
  sub->add_flag("--rules", s->rules, "list the rules as a Markdown table, and check nothing");
  s->probe.add_file_to(*sub);
  sub->callback([s] { plumb::cli::run(*s); });
}
