// plumb trial: the same training at every point of a grid.
#include <fmt/format.h>

#include <charconv>
#include <filesystem>

#include "commands.h"
#include "plumb/error.h"
#include "plumb/signal.h"
#include "plumb/suggest.h"
#include "plumb/trial.h"
#include "run_settings.h"

namespace plumb::cli {
namespace {

namespace fs = std::filesystem;

struct TrialCommand {
  TrainCommand train;  // what all cells share
  std::vector<std::string> grid;
  int64_t jobs = 0;
};

// "1..4" as 1, 2, 3, 4; anything else as it is.
std::vector<std::string> spread(const std::string& value, const std::string& where) {
  const size_t dots = value.find("..");
  if (dots == std::string::npos) return {value};
  const int64_t first = parse_integer(value.substr(0, dots), where),
                last = parse_integer(value.substr(dots + 2), where);
  if (last < first || last - first > 10000)
    throw Error(ErrorKind::usage, fmt::format("{} is {}: expected FIRST..LAST, rising", where, value));
  std::vector<std::string> values;
  for (int64_t i = first; i <= last; ++i) values.push_back(std::to_string(i));
  return values;
}

TrialAxis parse_axis(const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == 0 || equals == std::string::npos)
    throw Error(ErrorKind::usage, fmt::format("--grid is \"{}\": expected KEY=VALUE,VALUE", text));
  TrialAxis axis{.key = text.substr(0, equals)};
  for (size_t begin = equals + 1; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::string value = text.substr(begin, end - begin);
    if (value.empty()) throw Error(ErrorKind::usage, fmt::format("--grid {} has an empty value", axis.key));
    for (std::string& v : spread(value, "--grid " + axis.key)) axis.values.push_back(std::move(v));
    begin = end + 1;
  }
  return axis;
}

std::vector<TrialAxis> parse_axes(const TrialCommand& c) {
  constexpr const char* kNotAxes[] = {"out", "resume", "jobs", "grid", "sample-tokens"};
  std::vector<TrialAxis> axes;
  for (const std::string& text : c.grid) {
    axes.push_back(parse_axis(text));
    const std::string& key = axes.back().key;
    const auto keys = c.train.settings.names();
    if (std::find(keys.begin(), keys.end(), key) == keys.end())
      throw Error(ErrorKind::usage,
                  fmt::format("--grid {0}: {0} is not a setting{1}", key, did_you_mean(key, keys)));
    if (std::find(std::begin(kNotAxes), std::end(kNotAxes), key) != std::end(kNotAxes))
      throw Error(ErrorKind::usage, fmt::format("--grid {}: this cannot differ from cell to cell", key));
  }
  return axes;
}

// Recipe, flags and a cell's values into the structs, from their beginning.
void resolve_cell(TrialCommand& c, const std::vector<TrialAxis>& axes, const TrialCell* cell) {
  c.train.run = {};
  c.train.options = {};
  c.train.config = {};
  for (size_t i = 0; cell && i < axes.size(); ++i) c.train.settings.set(axes[i].key, cell->values[i]);
  resolve_config(c.train);
  c.train.run.out.clear();
  c.train.run.sample_tokens = 0;
  validate(c.train.options);
  ModelConfig config = c.train.config;
  if (!c.train.run.from.empty()) return;
  if (config.vocab_size == 0) config.vocab_size = 256;  // the tokenizer's: known when it is made
  validate(config);
}

// One tokenizer for all, where no axis has a say in it.
void share_tokenizer(TrialCommand& c, const std::vector<TrialAxis>& axes, const std::string& folder) {
  for (const char* key : {"tokenizer", "text", "task", "vocab-size", "from"}) {
    if (std::any_of(axes.begin(), axes.end(), [&](const TrialAxis& a) { return a.key == key; })) return;
  }
  const RunSettings& r = c.train.run;
  if (r.tokenizer != "bpe" || !r.from.empty() || !r.task.empty()) return;
  const std::string path = folder + "/tokenizer.json";
  if (!fs::exists(path)) {
    fs::create_directories(folder);
    make_tokenizer(c.train).save(path);
  }
  c.train.settings.set("tokenizer", path);
}

std::string toml_of(TrialCommand& c) {
  std::string grid;
  for (const std::string& g : c.grid) grid += (grid.empty() ? "" : ", ") + quote_toml(g);
  return fmt::format("{}\n# Trial\ngrid = [{}]\njobs = {}\n", c.train.settings.toml(), grid, c.jobs);
}

void run(TrialCommand& c) {
  TrialPlan plan{.jobs = c.jobs, .program = fs::read_symlink("/proc/self/exe").string()};
  if (c.jobs < 0) throw Error(ErrorKind::usage, fmt::format("--jobs is {}: it has to be at least 0", c.jobs));
  plan.axes = parse_axes(c);
  plan.cells = trial_cells(plan.axes);
  plan.folder = c.train.settings.value("out");
  if (plan.folder.empty())
    plan.folder = "trials/" + (c.train.recipe.empty() ? "default" : fs::path(c.train.recipe).stem().string());
  for (const TrialCell& cell : plan.cells)
    resolve_cell(c, plan.axes, &cell);  // refuse before any work is done
  share_tokenizer(c, plan.axes, plan.folder);
  for (TrialCell& cell : plan.cells) {
    resolve_cell(c, plan.axes, &cell);
    cell.steps = c.train.options.steps;
    cell.recipe = c.train.settings.toml();
  }
  plan.recipe = toml_of(c);
  catch_stop_signals();
  const TrialOutcome outcome = run_trial(plan);
  const std::string page = plan.folder + "/report.html";
  for (const std::string& line : write_trial_report(plan, page)) fmt::print("{}\n", line);
  fmt::print(
      "\n{0}   curves, sensitivity, profiles and slopes\n{1}/trial.jsonl\n{1}/cells   recipe, run folder and "
      "log of each cell\n",
      page, plan.folder);
  if (outcome.failed > 0) exit_status = 1;
}

}  // namespace
}  // namespace plumb::cli

void add_trial(CLI::App& app) {
  auto command = std::make_shared<plumb::cli::TrialCommand>();
  CLI::App* sub =
      app.add_subcommand("trial", "Trains at every point of a grid, and compares what came of it");
  sub->footer(
      "Every key of a recipe may be an axis:\n"
      "  plumb trial --grid placement=pre-norm,post-norm --grid lr=1e-3,3e-3,1e-2 --grid seed=1..3 --steps "
      "300\n"
      "Cells run side by side, each in a process of its own. The same command goes on with a trial that was\n"
      "stopped or killed: what is finished is not run again, and a longer grid adds its cells.");
  sub->add_option("recipe", command->train.recipe,
                  "a recipe file, or the name of a built-in one (default: default)");
  sub->add_option("--grid", command->grid, "an axis: KEY=VALUE,VALUE; whole numbers also as FIRST..LAST")
      ->type_name("TEXT")
      ->required()
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->allow_extra_args(false);
  sub->add_option("--jobs", command->jobs, "cells at a time (0: one for each core)")->type_name("N");
  plumb::cli::add_settings(command->train);
  command->train.settings.add_flags(*sub);
  sub->callback([command] { plumb::cli::run(*command); });
}
