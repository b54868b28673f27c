// plumb diagnose: what went wrong in a training run.
#include <cstdio>
#include <memory>

#include "commands.h"
#include "plumb/diagnose.h"

namespace {

struct DiagnoseFlags {
  std::string run;
  bool json = false;
};

void run(const DiagnoseFlags& flags) {
  const plumb::Diagnosis d = plumb::diagnose(flags.run);
  const std::string text = flags.json ? plumb::diagnosis_json(d) + "\n" : plumb::diagnosis_text(d);
  std::fputs(text.c_str(), stdout);
  exit_status = d.alarm() ? 3 : 0;
}

}  // namespace

void add_diagnose(CLI::App& app) {
  auto flags = std::make_shared<DiagnoseFlags>();
  CLI::App* command = app.add_subcommand(
      "diagnose",
      "Explains a training run that diverged or got stuck: when, where, what it looks like, what to try");
  command->footer(
      "Ends with 0 where the run is sound, 3 where it diverged, is stuck, or shows a signature of a fault; 1 "
      "where "
      "its\nrecords cannot be read and 2 where the command line is wrong.");
  command->add_option("run", flags->run, "folder of the run")->required();
  command->add_flag("--json", flags->json, "one JSON object");
  command->callback([flags] { run(*flags); });
}
