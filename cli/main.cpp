// `plumb`: finds the subcommand, and turns every way of failing into one line and an exit code:
// 0 done, 1 failed, 2 the command line is wrong, 130 interrupted.
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <new>

#include "commands.h"
#include "model_folder.h"
#include "plumb/error.h"
#include "plumb/signal.h"
#include "plumb/suggest.h"
#include "plumb/threads.h"

namespace {

constexpr int kFailed = 1;
constexpr int kUsage = 2;
constexpr int kInterrupted = 130;  // as a shell reports a command that SIGINT ended

void add_commands(CLI::App& app) {
  add_train(app);
  add_generate(app);
  add_eval(app);
  add_score(app);
  add_info(app);
  add_convert(app);
  add_merge(app);
  add_check(app);
  add_trace(app);
  add_compare(app);
  add_trial(app);
  add_diagnose(app);
  add_battery(app);
  add_report(app);
  add_watch(app);
  add_tokenizer(app);
  add_bench(app);
}

int fail(int code, std::string message) {
  for (char& c : message) {
    if (c == '\n' || c == '\r') c = ' ';
  }
  std::fprintf(stderr, "plumb: %s\n", message.c_str());
  return code;
}

// The app whose flags an argument could have been: the subcommand that was recognised, if any.
const CLI::App& innermost(const CLI::App& app) {
  const auto chosen = app.get_subcommands();
  return chosen.empty() ? app : innermost(*chosen.back());
}

std::string unknown_argument(const CLI::App& app, const std::string& got) {
  const CLI::App& command = innermost(app);
  std::vector<std::string> known;
  if (got.starts_with("-")) {
    for (const CLI::App* a = &command; a; a = a->get_parent()) {
      for (const CLI::Option* option : a->get_options()) {
        for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
      }
    }
    return "unknown flag " + got + plumb::did_you_mean(got, known);
  }
  const auto commands = command.get_subcommands([](const CLI::App*) { return true; });
  if (&command != &app && commands.empty()) return "unexpected argument \"" + got + "\"";
  for (const CLI::App* sub : commands) known.push_back(sub->get_name());
  return "unknown command \"" + got + "\"" + plumb::did_you_mean(got, known);
}

int usage_error(const CLI::App& app, const CLI::ParseError& error) {
  std::string command = app.get_name();
  for (const CLI::App* a = &app; !a->get_subcommands().empty(); command += " " + a->get_name())
    a = a->get_subcommands().back();
  const auto unknown = app.remaining(true);
  const std::string what = unknown.empty() ? error.what() : unknown_argument(app, unknown.front());
  return fail(kUsage, what + " (" + command + " --help lists what there is)");
}

int exit_code(plumb::ErrorKind kind) {
  if (kind == plumb::ErrorKind::usage) return kUsage;
  return kind == plumb::ErrorKind::interrupted ? kInterrupted : kFailed;
}

int run(int argc, char** argv) {
  CLI::App app("Plumbline: trains and runs Transformers, and shows what their residual stream does.",
               "plumb");
  app.set_version_flag("--version", "plumb " PLUMB_VERSION);
  app.require_subcommand(1);
  app.fallthrough();
  app.add_option_function<int>("--threads", plumb::set_threads,
                               "Threads to compute with (default: every core)");
  app.add_option("--base", plumb::cli::base_folder,
                 "Folder of the model that an adapter is for (default: what its adapter_config.json says)");
  add_commands(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() != 0) return usage_error(app, error);
    app.exit(error);  // --help and --version
  }
  return exit_status;
}

}  // namespace

int exit_status = 0;
std::string program_name = "plumb";

int main(int argc, char** argv) {
  plumb::keep_stop_signals_off_threads();
  try {
    if (argc > 0 && std::strchr(argv[0], '/')) {
      std::error_code failed;  // then as it was given
      const auto near = std::filesystem::proximate(argv[0], failed);
      program_name = failed ? argv[0] : near.string();
    }
    const int code = run(argc, argv);
    if (std::fflush(stdout) != 0 || std::ferror(stdout)) {
      return fail(kFailed, std::string("cannot write to the standard output: ") + std::strerror(errno));
    }
    return code;
  } catch (const plumb::Error& error) {
    return fail(exit_code(error.kind()), error.what());
  } catch (const std::bad_alloc&) {
    return fail(kFailed, "out of memory");
  } catch (const std::exception& error) {
    return fail(kFailed, std::string("unexpected: ") + error.what());
  }
}
