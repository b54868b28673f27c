// plumb battery: the experiments that show what placements do.
#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>

#include "commands.h"
#include "plumb/battery.h"
#include "plumb/error.h"
#include "plumb/signal.h"

namespace {

struct BatteryFlags {
  plumb::BatteryOptions options;
  std::string from, html, json, docs;
  bool list = false;
};

void list_experiments() {
  for (const plumb::BatteryEntry& e : plumb::battery_entries()) {
    fmt::print("{:>2}  {}{}\n", e.number, e.title, e.quick ? "  (quick)" : "");
  }
}

void write_lines(const std::string& path, const std::vector<plumb::BatteryExperiment>& done) {
  std::ofstream out(path, std::ios::binary);
  for (const auto& e : done) out << plumb::battery_json(e) << "\n";
  out.close();
  if (!out) throw plumb::Error(plumb::ErrorKind::file, "cannot write " + path);
}

void print(const plumb::BatteryExperiment& e) {
  fmt::print("{}", plumb::battery_text(e));
  std::fflush(stdout);
}

std::vector<plumb::BatteryExperiment> read(const std::string& path) {
  auto done = plumb::read_battery(path);
  for (const auto& e : done) print(e);
  return done;
}

// Told before minutes of measuring, not behind them.
void refuse_unwritable(const std::string& path) {
  if (path.empty()) return;
  const bool there = std::filesystem::exists(path);
  const bool good = std::ofstream(path, std::ios::app).good();
  const int why = errno;
  std::error_code ignored;  // what was not there and could not be made need not go
  if (!there) std::filesystem::remove(path, ignored);
  if (!good)
    throw plumb::Error(plumb::ErrorKind::file, fmt::format("cannot write {}: {}", path, std::strerror(why)));
}

// The lines of --json are written as experiments end, so that a stop or a fault costs one of them.
std::vector<plumb::BatteryExperiment> measure(const BatteryFlags& flags) {
  for (const std::string& path : {flags.html, flags.json}) refuse_unwritable(path);
  plumb::catch_stop_signals();
  std::vector<plumb::BatteryExperiment> done;
  plumb::BatteryOptions options = flags.options;
  options.begin = [](const plumb::BatteryEntry& e) { fmt::print(stderr, "{}. {} ...\n", e.number, e.title); };
  options.end = [&](const plumb::BatteryExperiment& e) {
    print(e);
    done.push_back(e);
    if (!flags.json.empty()) write_lines(flags.json, done);
  };
  try {
    plumb::run_battery(options);
  } catch (const plumb::Error& e) {
    if (e.kind() != plumb::ErrorKind::interrupted) throw;
    const bool kept = !flags.json.empty() && !done.empty();
    throw plumb::Error(e.kind(),
                       kept ? fmt::format("stopped; {} has the {} that had ended", flags.json, done.size())
                            : "stopped; nothing was written");
  }
  return done;
}

void run(const BatteryFlags& flags) {
  if (flags.list) return list_experiments();
  const auto done = flags.from.empty() ? measure(flags) : read(flags.from);
  int failed = 0;
  for (const auto& e : done) failed += !e.passed();
  if (!flags.json.empty() && !flags.from.empty()) write_lines(flags.json, done);
  if (!flags.html.empty()) plumb::write_battery_report(done, flags.html);
  if (!flags.docs.empty()) plumb::write_placement_pages(done, flags.docs);
  fmt::print("{} of {} experiments pass\n", done.size() - static_cast<size_t>(failed), done.size());
  if (failed > 0) exit_status = 1;
}

}  // namespace

void add_battery(CLI::App& app) {
  auto flags = std::make_shared<BatteryFlags>();
  CLI::App* sub =
      app.add_subcommand("battery", "Measures on this machine what papers claim of residual paths and norms");
  sub->footer(
      "Each experiment builds small models and compares its figures with published and calibrated ones. The "
      "exit\n"
      "status is 1 where a figure is outside its bounds.");
  sub->add_flag("--quick", flags->options.quick, "only those that take seconds, up to a few minutes in all");
  sub->add_option("--only", flags->options.only, "numbers of experiments, e.g. 1,4")
      ->delimiter(',')
      ->type_name("N,N");
  sub->add_flag("--list", flags->list, "list the experiments and end");
  sub->add_option("--text", flags->options.text,
                  "a text to train on, in place of the made one that the bounds are for");
  sub->add_option("--from", flags->from, "no measuring: report what --json wrote before")
      ->excludes("--quick", "--only", "--text");
  sub->add_option("--html", flags->html, "write the report, one HTML file");
  sub->add_option("--json", flags->json,
                  "write the figures and curves, one JSON object a line, as each experiment ends");
  sub->add_option("--docs", flags->docs, "write a page for each placement into this folder");
  sub->callback([flags] { run(*flags); });
}
