#include "base/machine.h"

#include <fmt/format.h>
#include <omp.h>
#include <unistd.h>

#include <sys/resource.h>

#include <fstream>

#include "base/progress.h"
#include "plumb/error.h"
#include "plumb/threads.h"

namespace plumb {

Machine machine() {
  Machine result;
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(": ");
    if (line.rfind("model name", 0) == 0 && colon != std::string::npos) {
      result.processor = line.substr(colon + 2);
      break;
    }
  }
  if (result.processor.empty()) result.processor = "unknown processor";
  result.cores = omp_get_num_procs();
  result.memory = static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
  return result;
}

std::string describe(const Machine& machine) {
  return fmt::format("{}, {} of {} threads, {}", machine.processor, threads(), machine.cores,
                     format_bytes(static_cast<double>(machine.memory)));
}

void expect_memory(double bytes, const std::string& what) {
  const auto most = static_cast<double>(machine().memory);
  if (bytes <= most) return;
  throw Error(ErrorKind::config, fmt::format("{} would take {} of memory; this machine has {}", what,
                                             format_bytes(bytes), format_bytes(most)));
}

int64_t peak_resident_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return int64_t{usage.ru_maxrss} * 1024;
}

void forget_peak_resident() {
  std::ofstream("/proc/self/clear_refs") << '5';
}

}  // namespace plumb
