// The machine that a measurement ran on.
#pragma once

#include <cstdint>
#include <string>

namespace plumb {

struct Machine {
  std::string processor;  // "AMD EPYC 9B14"
  int cores = 0;          // logical, available to this process
  int64_t memory = 0;     // bytes
};
Machine machine();
std::string describe(const Machine& machine);  // "AMD EPYC 9B14, 2 of 2 threads, 24.9 GB"

// Throws Error(config) where `bytes` are more than this machine has: better than to be killed on the way to
// them.
void expect_memory(double bytes, const std::string& what);  // "the model's weights"

int64_t peak_resident_bytes();  // most memory that this process held since it began, or since the next
void forget_peak_resident();    // where the system can; elsewhere the peak stays that of the whole process

}  // namespace plumb
