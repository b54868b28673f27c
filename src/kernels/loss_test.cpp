#include "kernels/loss.h"

#include <gtest/gtest.h>
#include <omp.h>

#include <limits>

#include "kernels/reference.h"
#include "kernels/test_arrays.h"

namespace plumb {
namespace {

using reference::Array;
using reference::Complex;

std::vector<int32_t> some_targets(int64_t rows, int64_t vocabulary) {
  std::vector<int32_t> t;
  for (int64_t r = 0; r < rows; ++r) {
    t.push_back(r % 3 == 1 ? kIgnore : static_cast<int32_t>(random_below({1, 9}, r, vocabulary)));
  }
  return t;
}

void check_loss(int64_t rows, int64_t vocabulary, float smoothing, float z) {
  const auto x = random_array(rows * vocabulary, 1, 3);
  const auto targets = some_targets(rows, vocabulary);
  Floats logits(x), nll(rows);
  CrossEntropy a{rows, vocabulary, logits.data(), targets.data(), smoothing, z, 0.25, false, nll.data()};
  const LossSums sums = cross_entropy(a);
  for (int64_t i = 0; i < logits.size(); ++i) ASSERT_EQ(logits[i], static_cast<float>(x[i]));
  const double s = smoothing, zl = z;
  const double want = reference::cross_entropy<double>(vocabulary, x, targets, s, zl);
  const double want_nll = reference::cross_entropy<double>(vocabulary, x, targets, 0, 0);
  EXPECT_NEAR(sums.loss, want, 2e-6 * std::max(1.0, std::abs(want)));
  EXPECT_NEAR(sums.nll, want_nll, 2e-6 * std::max(1.0, want_nll));
  double rows_nll = 0;
  for (int64_t n = 0; n < rows; ++n) rows_nll += nll[n];
  EXPECT_NEAR(rows_nll, want_nll, 2e-6 * std::max(1.0, want_nll));
  a.gradient = true;
  EXPECT_EQ(cross_entropy(a).loss, sums.loss);
  const auto d = reference::gradient(x, [&](const Array<Complex>& v) {
    return 0.25 * reference::cross_entropy<Complex>(vocabulary, v, targets, s, zl);
  });
  expect_close(logits, d, 3e-6, "dlogits", 0.25);
  Floats again(x);
  std::vector<BFloat16> rounded(rows * vocabulary);
  a.logits = again.data();
  a.gradient_bf16 = rounded.data();
  EXPECT_EQ(cross_entropy(a).loss, sums.loss);
  for (size_t i = 0; i < rounded.size(); ++i) {
    ASSERT_EQ(rounded[i].bits, to_bf16(logits[static_cast<int64_t>(i)]).bits) << i;
  }
}

TEST(Loss, AgainstOracle) {
  for_each_target([] {
    for (const auto& [rows, vocabulary] :
         std::vector<std::pair<int64_t, int64_t>>{{1, 1}, {7, 5}, {4, 64}, {5, 33}, {0, 3}}) {
      for (const float smoothing : {0.0f, 0.1f}) {
        for (const float z : {0.0f, 0.01f}) check_loss(rows, vocabulary, smoothing, z);
      }
    }
  });
}

TEST(Loss, LargeVocabulary) {
  const int64_t vocabulary = 50257;
  const auto x = random_array(3 * vocabulary, 1, 2);
  const std::vector<int32_t> targets{0, 50256, 777};
  Floats logits(x);
  const double want = reference::cross_entropy<double>(vocabulary, x, targets, 0, 0);
  const LossSums sums = cross_entropy({3, vocabulary, logits.data(), targets.data(), 0, 0, 1.0, true});
  EXPECT_NEAR(sums.loss, want, 1e-6 * want);
  double total = 0;
  for (int64_t i = 0; i < logits.size(); ++i) total += logits[i];
  EXPECT_NEAR(total, 0, 1e-5);  // each row's gradient sums to 0
}

// B22: sums over real targets divided by the count of the whole step, however it is split.
TEST(Loss, B22SplitsOfAStepAgree) {
  const int64_t rows = 6, vocabulary = 11;
  const auto x = random_array(rows * vocabulary, 1);
  const std::vector<int32_t> targets{3, kIgnore, kIgnore, 1, 0, 10};
  Floats whole(x);
  const LossSums all = cross_entropy({rows, vocabulary, whole.data(), targets.data(), 0, 0, 1.0 / 4, true});
  EXPECT_EQ(all.count, 4);
  for (const int64_t size : {1, 2, 3}) {
    Floats parts(x);
    LossSums sums;
    for (int64_t r = 0; r < rows; r += size) {
      sums += cross_entropy(
          {size, vocabulary, parts.data() + r * vocabulary, targets.data() + r, 0, 0, 1.0 / 4, true});
    }
    EXPECT_EQ(sums.count, all.count);
    EXPECT_NEAR(sums.loss, all.loss, 1e-12);
    for (int64_t i = 0; i < parts.size(); ++i) ASSERT_EQ(parts[i], whole[i]);
  }
}

// B24: rows without a target give exactly zero gradient, whatever they hold, and no loss.
TEST(Loss, B24NoTarget) {
  Floats logits(21, std::nanf(""));
  const std::vector<int32_t> targets{kIgnore, kIgnore, kIgnore};
  const LossSums sums = cross_entropy({3, 7, logits.data(), targets.data(), 0.1f, 0.1f, 1, true});
  EXPECT_EQ(sums.loss, 0);
  EXPECT_EQ(sums.count, 0);
  for (int64_t i = 0; i < 21; ++i) ASSERT_EQ(logits[i], 0);
}

TEST(Loss, CorrectCountsTheFirstOfEquals) {
  Floats logits({1, 2, 2, 1, 2, 2, 0, 0, 0});
  const std::vector<int32_t> first{1, 1, 0}, second{2, 2, 1};
  EXPECT_EQ(cross_entropy({3, 3, logits.data(), first.data()}).correct, 3);
  EXPECT_EQ(cross_entropy({3, 3, logits.data(), second.data()}).correct, 0);
}

TEST(Loss, ExtremeLogits) {
  const float inf = std::numeric_limits<float>::infinity();
  for_each_target([&] {
    Floats logits({1e30, -1e30, 0, 5, 5, -inf});
    const std::vector<int32_t> targets{0, 1};
    const LossSums sums = cross_entropy({2, 3, logits.data(), targets.data(), 0, 0, 1, true});
    EXPECT_NEAR(sums.nll, std::log(2.0), 1e-6);
    const double want[] = {0, 0, 0, 0.5, -0.5, 0};
    for (int i = 0; i < 6; ++i) EXPECT_NEAR(logits[i], want[i], 1e-6);
  });
}

TEST(Loss, LogSoftmaxAndThreads) {
  const int64_t rows = 9, width = 300;
  const auto x = random_array(rows * width, 1, 5);
  std::vector<double> want(x.size());
  for (int64_t n = 0; n < rows; ++n) {
    double z = 0;
    for (int64_t c = 0; c < width; ++c) z += std::exp(x[n * width + c]);
    for (int64_t c = 0; c < width; ++c) want[n * width + c] = x[n * width + c] - std::log(z);
  }
  Floats y(x);
  log_softmax(rows, width, y.data(), y.data());
  expect_close(y, want, 1e-6, "log softmax");
  const std::vector<int32_t> targets = some_targets(rows, width);
  const int threads = omp_get_max_threads();
  omp_set_num_threads(1);
  const double one = cross_entropy({rows, width, y.data(), targets.data()}).loss;
  omp_set_num_threads(3);
  EXPECT_EQ(cross_entropy({rows, width, y.data(), targets.data()}).loss, one);
  omp_set_num_threads(threads);
}

}  // namespace
}  // namespace plumb
