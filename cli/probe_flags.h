// --probe and --probe-every, of commands that run a model.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "plumb/probe.h"

namespace plumb::cli {

struct ProbeFlags {
  std::string file;
  int64_t every = 1;

  void add_to(CLI::App& sub);
  void add_file_to(CLI::App& sub);  // --probe alone, of commands that make a pass or two
  // Nothing where no file was named. Throws Error(usage) for --probe-every without --probe, or below 1.
  std::optional<Probe> open() const;

 private:
  CLI::Option* every_given_ = nullptr;
};

}  // namespace plumb::cli
