// plumb watch: the report of a run, live.
#include "plumb/watch.h"

#include <fmt/format.h>

#include <memory>

#include "commands.h"
#include "plumb/error.h"
#include "plumb/signal.h"

namespace {

struct WatchFlags {
  std::string run;
  int64_t port = 8765;
};

void watch(const WatchFlags& flags) {
  if (flags.port < 0 || flags.port > 65535) {
    throw plumb::Error(
        plumb::ErrorKind::usage,
        fmt::format("--port is {}, expected 1 to 65535, or 0 for any that is free", flags.port));
  }
  plumb::Watch server(flags.run, static_cast<int>(flags.port));
  plumb::catch_stop_signals();
  fmt::print("{}\nthe report of {}, live, for this machine only; Ctrl-C ends it\n", server.address(),
             flags.run);
  std::fflush(stdout);
  server.serve();
}

}  // namespace

void add_watch(CLI::App& app) {
  auto flags = std::make_shared<WatchFlags>();
  CLI::App* command = app.add_subcommand(
      "watch", "Serves the report of a training run to a browser on this machine, and keeps it fresh");
  command->footer(
      "The page takes in new records every two seconds and stays where it is scrolled to. It may be started "
      "before the\nrun's first step, and of a run that has ended it shows all. Ctrl-C ends it, with status "
      "0.");
  command->add_option("run", flags->run, "folder of the run")->required();
  command->add_option("--port", flags->port,
                      "port on 127.0.0.1 (default: 8765; 0: any that is free, its number is in the address)");
  command->callback([flags] { watch(*flags); });
}
