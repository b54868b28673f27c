// A loop whose rounds may run on any thread and may throw.
#pragma once

#include <omp.h>

#include <cstddef>
#include <exception>

namespace plumb {

// Calls body(i, thread) for i in [0, count), each once, thread in [0, threads()). The first exception to be
// caught ends the loop early and is thrown again here. For rounds of a millisecond and more; kernels have
// loops of their own, which run on the round's thread alone.
template <typename Body>
void parallel_for(size_t count, const Body& body) {
  std::exception_ptr failure;
#pragma omp parallel for schedule(dynamic)
  for (size_t i = 0; i < count; ++i) {
    bool failed;
#pragma omp critical(plumb_parallel_for)
    failed = failure != nullptr;
    if (failed) continue;
    try {
      omp_set_num_threads(1);  // of this round's task: what it computes depends on no number of threads
      body(i, static_cast<size_t>(omp_get_thread_num()));
    } catch (...) {
#pragma omp critical(plumb_parallel_for)
      if (!failure) failure = std::current_exception();
    }
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace plumb
