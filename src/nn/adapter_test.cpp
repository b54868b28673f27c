// LoRA and DoRA on one linear map: values and gradients against complex steps through the formula in f64.
#include "ops/adapter.h"

#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <vector>

#include "ops/norm.h"

namespace plumb {
namespace {

using Complex = std::complex<double>;
constexpr int64_t kRows = 5, kInputs = 6, kOutputs = 4, kRank = 3;

struct Case {
  bool in_out, dora;
  double dropout;
};

Tensor drawn(Shape shape, uint64_t stream, double around = 0) {
  Tensor t = Tensor::empty(std::move(shape));
  for (int64_t i = 0; i < t.numel(); ++i)
    t.f32()[i] = static_cast<float>(around + random_normal({5, stream}, static_cast<uint64_t>(i)));
  return t;
}

struct Problem {
  explicit Problem(const Case& c)
      : kind(c),
        x(drawn({kRows, kInputs}, 1)),
        w{drawn(c.in_out ? Shape{kInputs, kOutputs} : Shape{kOutputs, kInputs}, 2), drawn({kOutputs}, 3),
          c.in_out},
        adapter{.a = drawn({kRank, kInputs}, 4),
                .b = drawn({kOutputs, kRank}, 5),
                .scale = 0.75,
                .dropout = c.dropout,
                .site = 9},
        weights(drawn({kRows, kOutputs}, 7)) {
    if (!c.dora) return;
    adapter.magnitude = drawn({kOutputs}, 6, 2);
    adapter.inverse_norm = Tensor::empty({kOutputs});
    ops::follow(w, adapter);
  }
  Context context(Tape* tape) const { return {.tape = tape, .training = true, .random = {11, 12}}; }

  Case kind;
  Tensor x;
  ops::LinearWeights w;
  ops::AdapterWeights adapter;
  Tensor weights;  // of the sum that is differentiated
};

struct Numbers {
  explicit Numbers(const Problem& p)
      : x(of(p.x)), a(of(p.adapter.a)), b(of(p.adapter.b)), magnitude(of(p.adapter.magnitude)) {}
  static std::vector<Complex> of(const Tensor& t) {
    return t.defined() ? std::vector<Complex>(t.f32(), t.f32() + t.numel()) : std::vector<Complex>();
  }
  std::vector<Complex> x, a, b, magnitude;
};

double weight(const Problem& p, int64_t o, int64_t i) {
  return p.w.weight.f32()[p.w.in_out ? i * kOutputs + o : o * kInputs + i];
}

// (W + scale B A)[o, i]
Complex moved(const Problem& p, const Numbers& n, int64_t o, int64_t i) {
  Complex sum = 0;
  for (int64_t k = 0; k < kRank; ++k) sum += n.b[o * kRank + k] * n.a[k * kInputs + i];
  return weight(p, o, i) + p.adapter.scale * sum;
}

// Without what differentiates: as it is at the point.
double norm_of(const Problem& p, int64_t o) {
  const Numbers n(p);
  double sum = 0;
  for (int64_t i = 0; i < kInputs; ++i) sum += std::norm(moved(p, n, o, i));
  return std::sqrt(sum);
}

// The factors 0 or 1 / (1 - p) of each input.
std::vector<float> kept(const Problem& p) {
  Tensor ones = Tensor::empty(p.x.shape());
  std::fill_n(ones.f32(), ones.numel(), 1.0f);
  Context context = p.context(nullptr);
  const Tensor y = ops::dropout(context, ones, p.adapter.dropout, p.adapter.site);
  return {y.f32(), y.f32() + y.numel()};
}

std::vector<Complex> formula(const Problem& p, const Numbers& n) {
  const std::vector<float> keep = kept(p);
  std::vector<Complex> y(kRows * kOutputs);
  for (int64_t o = 0; o < kOutputs; ++o) {
    const Complex by = p.kind.dora ? n.magnitude[o] / norm_of(p, o) : 1;
    for (int64_t r = 0; r < kRows; ++r) {
      Complex sum = p.w.bias.f32()[o];
      for (int64_t i = 0; i < kInputs; ++i) {
        const Complex x = n.x[r * kInputs + i], read = x * static_cast<double>(keep[r * kInputs + i]);
        sum += p.kind.dora ? by * moved(p, n, o, i) * read + weight(p, o, i) * (x - read)
                           : weight(p, o, i) * x + (moved(p, n, o, i) - weight(p, o, i)) * read;
      }
      y[r * kOutputs + o] = sum;
    }
  }
  return y;
}

Complex weighed(const Problem& p, const Numbers& n) {
  const std::vector<Complex> y = formula(p, n);
  Complex sum = 0;
  for (size_t i = 0; i < y.size(); ++i) sum += static_cast<double>(p.weights.f32()[i]) * y[i];
  return sum;
}

void expect_gradient(const Problem& p, std::vector<Complex> Numbers::*which, const Tensor& t,
                     const char* name) {
  ASSERT_TRUE(t.grad().defined()) << name;
  for (int64_t i = 0; i < t.numel(); ++i) {
    Numbers n(p);
    (n.*which)[i] += Complex(0, 1e-30);
    const double want = weighed(p, n).imag() / 1e-30;
    EXPECT_NEAR(t.grad().f32()[i], want, 2e-6 * (1 + std::abs(want))) << name << " " << i;
  }
}

class AdapterOp : public testing::TestWithParam<Case> {};

TEST_P(AdapterOp, ValuesAndGradientsAreTheFormulas) {
  Problem p(GetParam());
  for (Tensor* t : {&p.x, &p.adapter.a, &p.adapter.b, &p.adapter.magnitude}) {
    if (t->defined()) t->set_requires_grad();
  }
  Tape tape;
  Context context = p.context(&tape);
  const Tensor y = ops::adapted_linear(context, p.x, p.w, p.adapter);
  const std::vector<Complex> want = formula(p, Numbers(p));
  for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(y.f32()[i], want[i].real(), 1e-5) << i;
  seed_gradient(y, p.weights);
  tape.backward();
  expect_gradient(p, &Numbers::x, p.x, "x");
  expect_gradient(p, &Numbers::a, p.adapter.a, "A");
  expect_gradient(p, &Numbers::b, p.adapter.b, "B");
  if (p.kind.dora) expect_gradient(p, &Numbers::magnitude, p.adapter.magnitude, "M");
  EXPECT_FALSE(p.w.weight.grad().defined());
}

TEST_P(AdapterOp, TheMergedMatrixIsTheSameMap) {
  const Problem p(GetParam());
  Context context;  // runs, so nothing is dropped
  const Tensor y = ops::adapted_linear(context, p.x, p.w, p.adapter),
               merged = ops::linear(context, p.x, {ops::merged(p.w, p.adapter), p.w.bias, p.w.in_out});
  for (int64_t i = 0; i < y.numel(); ++i) EXPECT_NEAR(y.f32()[i], merged.f32()[i], 1e-5) << i;
}

INSTANTIATE_TEST_SUITE_P(Kinds, AdapterOp,
                         testing::Values(Case{false, false, 0}, Case{true, false, 0.5}, Case{false, true, 0},
                                         Case{true, true, 0}, Case{false, true, 0.5}));

}  // namespace
}  // namespace plumb
