#include "probe_flags.h"

#include <fmt/format.h>

#include "plumb/error.h"

namespace plumb::cli {

void ProbeFlags::add_file_to(CLI::App& sub) {
  sub.add_option("--probe", file, "file for what the model does inside, pass by pass, as JSON lines");
}

void ProbeFlags::add_to(CLI::App& sub) {
  add_file_to(sub);
  every_given_ = sub.add_option("--probe-every", every, "passes between looks inside (default: 1)");
}

std::optional<Probe> ProbeFlags::open() const {
  if (file.empty()) {
    if (every_given_ && every_given_->count() > 0)
      throw Error(ErrorKind::usage, "--probe-every needs --probe: the file to write to");
    return std::nullopt;
  }
  if (every < 1)
    throw Error(ErrorKind::usage, fmt::format("--probe-every is {}, expected at least 1", every));
  return Probe(file, {.every = every});
}

}  // namespace plumb::cli
