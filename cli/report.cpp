// plumb report: the page of a training run.
#include <cstdio>
#include <filesystem>
#include <memory>

#include "commands.h"
#include "plumb/report.h"

namespace {

struct ReportFlags {
  std::string run, out;
};

void write(const ReportFlags& flags) {
  const std::string out =
      flags.out.empty() ? (std::filesystem::path(flags.run) / "report.html").string() : flags.out;
  plumb::write_report(flags.run, out);
  std::printf("%s\n", out.c_str());
}

}  // namespace

void add_report(CLI::App& app) {
  auto flags = std::make_shared<ReportFlags>();
  CLI::App* command = app.add_subcommand(
      "report", "Writes the report of a training run: one HTML file that needs no network");
  command->add_option("run", flags->run, "Folder of the run")->required();
  command->add_option("--out", flags->out, "File to write (default: report.html in the run's folder)");
  command->callback([flags] { write(*flags); });
}
