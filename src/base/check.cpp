#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace plumb {

void check_failed(const char* file, int line, const char* condition, const std::string& detail) {
  std::fprintf(stderr, "plumb: invariant broken at %s:%d: %s %s\n", file, line, condition, detail.c_str());
  std::abort();
}

}  // namespace plumb
