// plumb report: the page of a training run, or of two side by side.
#include "plumb/report.h"

#include <cstdio>
#include <filesystem>
#include <memory>

#include "commands.h"

namespace {

struct ReportFlags {
  std::vector<std::string> runs;
  std::string out;
};

std::string default_out(const std::vector<std::string>& runs) {
  const std::filesystem::path first = runs.front();
  if (runs.size() == 1) return first / "report.html";
  std::filesystem::path second = std::filesystem::absolute(runs.back()).lexically_normal();
  if (!second.has_filename()) second = second.parent_path();  // of "runs/b/"
  return first / ("report-" + second.filename().string() + ".html");
}

void write(const ReportFlags& flags) {
  const std::string out = flags.out.empty() ? default_out(flags.runs) : flags.out;
  plumb::write_report(flags.runs, out);
  std::printf("%s\n", out.c_str());
}

}  // namespace

void add_report(CLI::App& app) {
  auto flags = std::make_shared<ReportFlags>();
  CLI::App* command = app.add_subcommand(
      "report",
      "Writes the report of a training run, or of two side by side: one HTML file that needs no network");
  command
      ->add_option("run", flags->runs,
                   "folder of the run, or of two: their losses in one chart, the rest side by side")
      ->required()
      ->expected(1, 2);
  command->add_option("--out", flags->out,
                      "file to write (default: report.html in the run's folder; of two, report-B.html in the "
                      "first's, B the name of the second's)");
  command->callback([flags] { write(*flags); });
}
