// Arrays for kernel tests: random, at addresses that no alignment fits, and compared with the f64 oracle.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "base/random.h"
#include "kernels/simd_targets.h"

#include "hwy/targets.h"

namespace plumb {

inline std::vector<double> random_array(int64_t n, uint64_t seed, double scale = 1, double mean = 0) {
  std::vector<double> v(n);
  for (int64_t i = 0; i < n; ++i) {
    v[i] = static_cast<float>(mean + scale * random_normal({seed, random_stream(1)}, i));  // exact in f32
  }
  return v;
}

// f32 copy that starts 4 bytes off any vector's alignment and ends where its memory ends (so that
// AddressSanitizer sees a read past it).
class Floats {
 public:
  explicit Floats(int64_t n, float value = std::nanf("")) : memory_(n + 1, value) {}
  explicit Floats(const std::vector<double>& v) : memory_(1) {
    memory_.insert(memory_.end(), v.begin(), v.end());
  }
  float* data() { return memory_.data() + 1; }
  int64_t size() const { return static_cast<int64_t>(memory_.size()) - 1; }
  float& operator[](int64_t i) { return memory_[i + 1]; }

 private:
  std::vector<float> memory_;
};

// |actual - expected| <= tolerance * the largest |expected| (at least `floor`).
inline void expect_close(Floats& actual, const std::vector<double>& expected, double tolerance,
                         const std::string& what, double floor = 1e-30) {
  ASSERT_EQ(actual.size(), static_cast<int64_t>(expected.size())) << what;
  double largest = floor;
  for (double e : expected) largest = std::max(largest, std::abs(e));
  for (int64_t i = 0; i < actual.size(); ++i) {
    ASSERT_NEAR(actual[i], expected[i], tolerance * largest) << what << " [" << i << "]";
  }
}

// Runs the body once for each instruction set that the kernels are built for and this processor has.
template <class Body>
void for_each_target(const Body& body) {
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    SCOPED_TRACE(hwy::TargetName(target));
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    body();
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

}  // namespace plumb
