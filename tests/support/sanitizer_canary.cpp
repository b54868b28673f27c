// One fault for each sanitizer, chosen by the argument. Built under sanitizers only; its tests pass if it is
// caught.
#include <climits>
#include <cstdio>
#include <string_view>
#include <vector>

int main(int argc, char** argv) {
  const std::string_view fault = argc > 1 ? argv[1] : "";
  int result = argc;
  if (fault == "address") {
    const std::vector<int> values(10);
    result = values.data()[9 + argc / 2];
  } else if (fault == "undefined") {
    result += INT_MAX;
  } else if (fault == "thread") {
#pragma omp parallel for num_threads(2)
    for (int i = 0; i < 100000; ++i) result += i & 1;
  }
  std::printf("not caught: %d\n", result);
}
