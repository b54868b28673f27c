// What the checks share: their flags, their report and their exit status.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "plumb/check.h"

namespace plumb::cli {

using Findings = std::vector<CheckFinding>;

struct FindingFlags {
  bool json = false, sarif = false, strict = false;

  void add_to(CLI::App& command);
  void refuse_contradictions() const;
  // rules: how many were run. Sets the exit status of the command.
  void report(const Findings& findings, const std::string& subject, size_t rules) const;
};

}  // namespace plumb::cli
