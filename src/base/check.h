// Invariants of the code: a failure is a defect, prints where and what, and aborts. Never for user input.
#pragma once

#include <fmt/format.h>

namespace plumb {

[[noreturn]] void check_failed(const char* file, int line, const char* condition, const std::string& detail);

}  // namespace plumb

#define PLUMB_CHECK(condition, ...)                                                       \
  do {                                                                                    \
    if (!(condition)) [[unlikely]]                                                        \
      ::plumb::check_failed(__FILE__, __LINE__, #condition, fmt::format("" __VA_ARGS__)); \
  } while (false)
