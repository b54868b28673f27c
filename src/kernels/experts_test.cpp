#include "kernels/experts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "kernels/reference.h"
#include "kernels/test_arrays.h"

namespace plumb {
namespace {

using reference::Array;
using reference::Complex;

struct Router {
  int64_t rows, experts, top_k;
  RouterScore score;
  bool normalise;
  double scaling = 1;
};

template <class T>
Array<T> score_row(const Router& r, const T* logits) {
  Array<T> s(r.experts);
  T sum = 0;
  for (int64_t e = 0; e < r.experts; ++e) {
    s[e] = r.score == RouterScore::softmax ? std::exp(logits[e]) : 1.0 / (1.0 + std::exp(-logits[e]));
    sum += s[e];
  }
  if (r.score == RouterScore::softmax) {
    for (T& v : s) v /= sum;
  }
  return s;
}

// Weights (N, k) for the choice that the kernel made.
template <class T>
Array<T> weights_of(const Router& r, const Array<T>& logits, const std::vector<int32_t>& chosen) {
  Array<T> w(r.rows * r.top_k);
  for (int64_t n = 0; n < r.rows; ++n) {
    const Array<T> s = score_row(r, logits.data() + n * r.experts);
    T sum = 0;
    for (int64_t k = 0; k < r.top_k; ++k) sum += s[chosen[n * r.top_k + k]];
    for (int64_t k = 0; k < r.top_k; ++k) {
      w[n * r.top_k + k] = r.scaling * s[chosen[n * r.top_k + k]] / (r.normalise ? sum : T(1));
    }
  }
  return w;
}

void check_route(const Router& r, bool biased) {
  const int64_t n = r.rows * r.experts, nk = r.rows * r.top_k;
  const auto x = random_array(n, 1, 2), bias = random_array(r.experts, 2), g = random_array(nk, 3);
  Floats logits(x), b(bias), scores(n), weights(nk), dweights(g), dlogits(n);
  std::vector<int32_t> chosen(nk);
  const float scaling = static_cast<float>(r.scaling);
  route_forward({r.rows, r.experts, r.top_k, r.score, r.normalise, scaling, logits.data(),
                 biased ? b.data() : nullptr, scores.data(), chosen.data(), weights.data()});
  for (int64_t t = 0; t < r.rows; ++t) {
    const auto s = score_row<double>(r, x.data() + t * r.experts);
    std::vector<int32_t> order(r.experts);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int32_t i, int32_t j) {
      return s[i] + (biased ? bias[i] : 0) > s[j] + (biased ? bias[j] : 0);
    });
    for (int64_t k = 0; k < r.top_k; ++k) ASSERT_EQ(chosen[t * r.top_k + k], order[k]);
  }
  expect_close(weights, weights_of<double>(r, x, chosen), 1e-6, "weights");
  RouteBackward back{r.rows,  r.experts,     r.top_k,       r.score,         r.normalise,
                     scaling, scores.data(), chosen.data(), dweights.data(), dlogits.data()};
  route_backward(back);
  auto want = reference::gradient(x, [&](const Array<Complex>& z) {
    return reference::weighted_sum(weights_of<Complex>(r, z, chosen), g);
  });
  expect_close(dlogits, want, 2e-6, "dlogits", 1);
  back.add = true;  // B21
  route_backward(back);
  for (double& v : want) v *= 2;
  expect_close(dlogits, want, 2e-6, "twice", 1);
}

TEST(Experts, RoutingAndItsGradient) {
  for (const RouterScore score : {RouterScore::softmax, RouterScore::sigmoid}) {
    for (const bool normalise : {false, true}) {
      for (const bool biased : {false, true}) {
        check_route({7, 5, 2, score, normalise, 2.5}, biased);
        check_route({3, 4, 4, score, normalise}, biased);
        check_route({2, 1, 1, score, normalise}, biased);
        check_route({0, 3, 1, score, normalise}, biased);
      }
    }
  }
}

TEST(Experts, TiesGoToTheLowerAndNaNStaysInRange) {
  Floats logits({1, 3, 3, 3, 0, 0, 0, 0}), scores(8), weights(4);
  for (int i = 4; i < 8; ++i) logits[i] = std::nanf("");
  std::vector<int32_t> chosen(4);
  route_forward({2, 4, 2, RouterScore::softmax, true, 1, logits.data(), nullptr, scores.data(), chosen.data(),
                 weights.data()});
  EXPECT_EQ(chosen, (std::vector<int32_t>{1, 2, 0, 1}));
}

TEST(Experts, SigmoidScoresThatAllVanishGiveZeroWeights) {
  Floats logits(3, -std::numeric_limits<float>::infinity()), scores(3), weights(2), dweights(2, 1),
      dlogits(3);
  std::vector<int32_t> chosen(2);
  route_forward({1, 3, 2, RouterScore::sigmoid, true, 1, logits.data(), nullptr, scores.data(), chosen.data(),
                 weights.data()});
  route_backward({1, 3, 2, RouterScore::sigmoid, true, 1, scores.data(), chosen.data(), dweights.data(),
                  dlogits.data()});
  for (int i = 0; i < 2; ++i) EXPECT_EQ(weights[i], 0);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(dlogits[i], 0);
}

TEST(Experts, GroupingKeepsTokensInOrder) {
  const std::vector<int32_t> chosen{2, 0, 0, 2, 3, 2};
  std::vector<int64_t> offsets(5);
  std::vector<int32_t> token(6), place(6);
  group_by_expert({3, 4, 2, chosen.data(), offsets.data(), token.data(), place.data()});
  EXPECT_EQ(offsets, (std::vector<int64_t>{0, 2, 2, 5, 6}));
  EXPECT_EQ(token, (std::vector<int32_t>{0, 1, 0, 1, 2, 2}));
  EXPECT_EQ(place, (std::vector<int32_t>{2, 0, 1, 3, 5, 4}));
}

void check_combine() {
  const int64_t rows = 5, width = 19, k = 2;
  const auto x = random_array(rows * k * width, 1), w = random_array(rows * k, 2),
             g = random_array(rows * width, 3);
  const std::vector<int32_t> place{9, 0, 1, 8, 2, 7, 6, 3, 4, 5};
  std::vector<double> want(rows * width), plain(rows * width), want_dx(x.size()), want_dw(w.size());
  for (int64_t i = 0; i < rows * k; ++i) {
    for (int64_t c = 0; c < width; ++c) {
      const double v = x[place[i] * width + c], d = g[i / k * width + c];
      want[i / k * width + c] += w[i] * v;
      plain[i / k * width + c] += v;
      want_dx[place[i] * width + c] = w[i] * d;
      want_dw[i] += d * v;
    }
  }
  Floats in(x), weights(w), dy(g), y(rows * width), dx(rows * k * width), dw(rows * k);
  combine_forward({rows, width, k, place.data(), weights.data(), in.data(), y.data()});
  expect_close(y, want, 5e-7, "y");
  combine_forward({rows, width, k, place.data(), nullptr, in.data(), y.data(), true});
  for (size_t i = 0; i < want.size(); ++i) plain[i] += want[i];
  expect_close(y, plain, 5e-7, "y with add");
  combine_backward(
      {rows, width, k, place.data(), weights.data(), in.data(), dy.data(), dx.data(), dw.data()});
  expect_close(dx, want_dx, 2e-7, "dx");
  expect_close(dw, want_dw, 5e-7, "dweights");
}

TEST(Experts, CombineAndItsGradient) {
  for_each_target(check_combine);
}

TEST(Experts, ProbabilitiesAndTheirGradient) {
  const int64_t rows = 6, experts = 4;
  const auto x = random_array(rows * experts, 1), weight = random_array(experts, 2);
  const auto probabilities = [&]<class T>(const Array<T>& z) {
    Array<T> sums(experts);
    for (int64_t n = 0; n < rows; ++n) {
      const auto p = score_row<T>({rows, experts, 2, RouterScore::softmax, false}, z.data() + n * experts);
      for (int64_t e = 0; e < experts; ++e) sums[e] += p[e];
    }
    return sums;
  };
  Floats logits(x), d(rows * experts, 1);
  std::vector<double> got(experts, 0.5);
  add_probabilities(rows, experts, logits.data(), got.data());
  const auto want = probabilities(x);
  for (int64_t e = 0; e < experts; ++e) EXPECT_NEAR(got[e], 0.5 + want[e], 1e-6);
  probability_backward({rows, experts, logits.data(), weight.data(), d.data()});
  auto slope = reference::gradient(
      x, [&](const Array<Complex>& z) { return reference::weighted_sum(probabilities(z), weight); });
  for (double& v : slope) v += 1;
  expect_close(d, slope, 2e-7, "dlogits");
}

// By hand: groups {0, 1}, {2, 3}, {4, 5} of sigmoid scores near 1/2 and biases that alone decide.
TEST(Experts, GroupsLimitTheChoice) {
  Floats logits(6, 0.0f), bias({0.9f, 0.0f, 0.5f, 0.6f, 0.8f, 0.25f});
  Floats scores(6), weights(3);
  std::vector<int32_t> chosen(3);
  RouteForward r{1,
                 6,
                 3,
                 RouterScore::sigmoid,
                 true,
                 1,
                 logits.data(),
                 bias.data(),
                 scores.data(),
                 chosen.data(),
                 weights.data(),
                 3,
                 2,
                 GroupScore::best};
  route_forward(r);  // best: 0.9, 0.6, 0.8
  EXPECT_EQ(chosen, (std::vector<int32_t>{0, 4, 5}));
  r.group_score = GroupScore::best_two;  // 0.9, 1.1, 1.05
  route_forward(r);
  EXPECT_EQ(chosen, (std::vector<int32_t>{4, 3, 2}));
  r.top_groups = 3;
  route_forward(r);
  EXPECT_EQ(chosen, (std::vector<int32_t>{0, 4, 3}));
}

}  // namespace
}  // namespace plumb
