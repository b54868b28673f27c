// Threads (OpenMP's one pool, shared with oneDNN) and the machine that a measurement ran on.
#pragma once

#include <cstdint>
#include <string>

namespace plumb {

int thread_count();  // what the next parallel region uses; processors available to this process by default
void set_thread_count(int n);  // n >= 1

struct Machine {
  std::string processor;  // "AMD EPYC 9B14"
  int cores = 0;          // logical, available to this process
  int64_t memory = 0;     // bytes
};
Machine machine();
std::string describe(const Machine& machine);  // "AMD EPYC 9B14, 2 threads of 2, 24.9 GB"

}  // namespace plumb
