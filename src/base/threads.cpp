#include "plumb/threads.h"

#include <fmt/format.h>
#include <omp.h>

#include "plumb/error.h"

namespace plumb {

void set_threads(int count) {
  if (count < 1 || count > 1024) {
    throw Error(ErrorKind::usage, fmt::format("threads is {}, expected 1 to 1024", count));
  }
  omp_set_num_threads(count);
}

int threads() {
  return omp_get_max_threads();
}

}  // namespace plumb
