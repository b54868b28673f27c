// The entry of a libFuzzer program, one for each kind of case.
#include <cstddef>
#include <cstdint>

#include "fuzz_cases.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  plumb::fuzz::run_case(PLUMB_FUZZ_KIND, {reinterpret_cast<const char*>(data), size});
  return 0;
}
