// Every rule against a plain loop in f64, and the cases B25, B26, B27.
#include "train/optimizer.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/random.h"
#include "train/muon.h"

namespace plumb {
namespace {

Tensor drawn(Shape shape, uint64_t stream, double scale = 1) {
  const Tensor t = Tensor::empty(std::move(shape));
  for (int64_t i = 0; i < t.numel(); ++i)
    t.f32()[i] = static_cast<float>(scale * random_normal({7, stream}, i));
  return t;
}

Parameter* add(ParameterTable& table, const std::string& name, Shape shape, Role role, uint64_t stream,
               bool in_out = false) {
  Parameter* p = table.add({.name = name, .shape = shape, .role = role, .in_out = in_out});
  p->value = drawn(shape, stream);
  p->value.set_requires_grad();
  return p;
}

void set_gradient(const Parameter& p, const Tensor& g) {
  p.value.gradient()->value = std::make_unique<Tensor>(g.clone());
  p.value.gradient()->written = true;
}

void set_gradient(const Parameter& p, const std::vector<float>& g) {
  set_gradient(p, Tensor::of<float>(p.shape, g));
}

std::vector<double> values(const Tensor& t) {
  return {t.f32(), t.f32() + t.numel()};
}

// Few f32 roundings of numbers of order 1 a step.
constexpr double kNear = 2e-6;

TEST(Optimizer, AdamwIsThePlainLoop) {
  const TrainOptions o{.lr = 0.01, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1};
  ParameterTable table;
  const Parameter* w = add(table, "decoder.0.attention.query.weight", {5, 7}, Role::matrix, 1);
  const Parameter* b = add(table, "decoder.0.attention.query.bias", {7}, Role::bias, 2);
  Optimizer optimizer(table, o);
  struct Plain {
    std::vector<double> p, m, v;
  };
  std::map<const Parameter*, Plain> plain;
  for (const Parameter* p : {w, b}) {
    const size_t n = p->shape.numel();
    plain[p] = {values(p->value), std::vector<double>(n, 0), std::vector<double>(n, 0)};
  }
  for (int t = 1; t <= 5; ++t) {
    const double factor = 0.3 * t, clip = 0.7;
    for (auto& [p, x] : plain) {
      const Tensor g = drawn(p->shape, 10 * t + p->shape.rank());
      set_gradient(*p, g);
      for (size_t i = 0; i < x.p.size(); ++i) {
        const double gi = clip * g.f32()[i], lr = factor * o.lr;
        x.m[i] = o.beta1 * x.m[i] + (1 - o.beta1) * gi;
        x.v[i] = o.beta2 * x.v[i] + (1 - o.beta2) * gi * gi;
        x.p[i] *= 1 - lr * (p == w ? o.weight_decay : 0);
        x.p[i] -= lr * (x.m[i] / (1 - std::pow(o.beta1, t))) /
                  (std::sqrt(x.v[i] / (1 - std::pow(o.beta2, t))) + o.eps);
      }
    }
    optimizer.step(factor, clip);
  }
  for (const auto& [p, x] : plain) {
    for (size_t i = 0; i < x.p.size(); ++i)
      EXPECT_NEAR(p->value.f32()[i], x.p[i], kNear) << p->name << " " << i;
  }
}

TEST(Optimizer, SgdIsThePlainLoop) {
  for (const double momentum : {0.0, 0.9}) {
    const TrainOptions o{
        .optimizer = OptimizerKind::sgd, .lr = 0.1, .weight_decay = 0.05, .momentum = momentum};
    ParameterTable table;
    const Parameter* w = add(table, "head.weight", {3, 5}, Role::matrix, 3);
    Optimizer optimizer(table, o);
    std::vector<double> p = values(w->value), u(15, 0);
    for (int t = 1; t <= 4; ++t) {
      const Tensor g = drawn(w->shape, 20 + t);
      set_gradient(*w, g);
      for (size_t i = 0; i < p.size(); ++i) {
        u[i] = momentum * u[i] + 0.5 * g.f32()[i] + o.weight_decay * p[i];
        p[i] -= 0.5 * o.lr * u[i];
      }
      optimizer.step(0.5, 0.5);
    }
    for (size_t i = 0; i < p.size(); ++i) EXPECT_NEAR(w->value.f32()[i], p[i], kNear) << momentum << " " << i;
  }
}

// What is kept at length 1 is after each step of each rule, and the step that is told is the whole one.
TEST(Optimizer, UnitVectorsStayUnit) {
  for (const OptimizerKind kind : {OptimizerKind::adamw, OptimizerKind::sgd, OptimizerKind::muon}) {
    for (const UnitLength unit : {UnitLength::of_outputs, UnitLength::of_inputs}) {
      const TrainOptions o{
          .optimizer = kind, .lr = 0.05, .weight_decay = 0.5, .momentum = 0.9, .muon_lr = 0.05};
      ParameterTable table;
      Parameter* w = add(table, "decoder.0.feed_forward.up.weight", {9, 5}, Role::matrix, 3);
      w->unit = unit;
      w->make_unit();
      Optimizer optimizer(table, o);
      for (int t = 1; t <= 3; ++t) {
        const std::vector<double> before = values(w->value);
        set_gradient(*w, drawn(w->shape, 20 + t));
        const double told = optimizer.step(1, 1)[0].sum_of_squares;
        double moved = 0;
        std::vector<double> sums(unit == UnitLength::of_outputs ? 9 : 5);
        for (int i = 0; i < 45; ++i) {
          const double v = w->value.f32()[i];
          moved += (v - before[i]) * (v - before[i]);
          sums[unit == UnitLength::of_outputs ? i / 5 : i % 5] += v * v;
        }
        for (const double s : sums) EXPECT_NEAR(std::sqrt(s), 1, 1e-6);
        EXPECT_GT(moved, 1e-3);
        EXPECT_NEAR(told, moved, 1e-5 * moved);
      }
    }
  }
}

// X (r, c) of the iteration, in f64.
std::vector<double> plain_newton_schulz(int64_t r, int64_t c, std::vector<double> x) {
  double norm = 0;
  for (const double v : x) norm += v * v;
  norm = std::sqrt(norm) + 1e-7;
  for (double& v : x) v /= norm;
  for (int step = 0; step < 5; ++step) {
    std::vector<double> a(r * r, 0), b(r * r, 0), y(r * c, 0);
    for (int64_t i = 0; i < r; ++i)
      for (int64_t j = 0; j < r; ++j)
        for (int64_t k = 0; k < c; ++k) a[i * r + j] += x[i * c + k] * x[j * c + k];
    for (int64_t i = 0; i < r; ++i)
      for (int64_t j = 0; j < r; ++j) {
        for (int64_t k = 0; k < r; ++k) b[i * r + j] += 2.0315 * a[i * r + k] * a[k * r + j];
        b[i * r + j] -= 4.7750 * a[i * r + j];
      }
    for (int64_t i = 0; i < r; ++i)
      for (int64_t j = 0; j < c; ++j) {
        y[i * c + j] = 3.4445 * x[i * c + j];
        for (int64_t k = 0; k < r; ++k) y[i * c + j] += b[i * r + k] * x[k * c + j];
      }
    x = y;
  }
  return x;
}

// f32 products through five steps whose polynomial has slopes up to 3.5.
constexpr double kNearMuon = 2e-4;

TEST(Muon, IterationIsThePlainLoopForWideTallAndSquare) {
  for (const auto& [r, c] : {std::pair{4, 9}, {9, 4}, {6, 6}, {1, 5}, {5, 1}}) {
    const Tensor x = drawn({r, c}, 40 + r, 3);
    std::vector<double> wide = values(x);
    if (r > c) {
      for (int i = 0; i < r; ++i)
        for (int j = 0; j < c; ++j) wide[j * r + i] = x.f32()[i * c + j];
    }
    const std::vector<double> want = plain_newton_schulz(std::min(r, c), std::max(r, c), wide);
    orthogonalize(r, c, x.f32());
    for (int i = 0; i < r; ++i) {
      for (int j = 0; j < c; ++j) {
        EXPECT_NEAR(x.f32()[i * c + j], want[r > c ? j * r + i : i * c + j], kNearMuon) << r << "x" << c;
      }
    }
  }
}

TEST(Muon, ZerosStayZeros) {
  const Tensor x = Tensor::zeros({3, 4});
  orthogonalize(3, 4, x.f32());
  for (int i = 0; i < 12; ++i) EXPECT_EQ(x.f32()[i], 0);
}

// Muon for hidden matrices alone, whatever their layout; scaled by sqrt(out / in) where that is above 1.
TEST(Muon, UpdatesHiddenMatricesInEitherLayout) {
  const TrainOptions o{
      .optimizer = OptimizerKind::muon, .lr = 0.01, .weight_decay = 0.1, .momentum = 0.9, .muon_lr = 0.5};
  ParameterTable table;
  Parameter* plain = add(table, "decoder.0.feed_forward.up.weight", {8, 3}, Role::matrix, 5);
  Parameter* in_out = add(table, "decoder.1.feed_forward.up.weight", {3, 8}, Role::matrix, 5, true);
  for (int i = 0; i < 8; ++i)
    for (int j = 0; j < 3; ++j) in_out->value.f32()[j * 8 + i] = plain->value.f32()[i * 3 + j];
  Parameter* head = add(table, "head.weight", {4, 3}, Role::matrix, 6);
  Parameter* table_of_ids = add(table, "decoder.token_embedding.weight", {4, 3}, Role::embedding, 7);
  Optimizer optimizer(table, o);
  ASSERT_EQ(optimizer.state().size(), 6u);
  EXPECT_EQ(optimizer.state()[0].name, "u:decoder.0.feed_forward.up.weight");
  EXPECT_EQ(optimizer.state()[2].name, "m:head.weight");
  EXPECT_EQ(optimizer.state()[4].name, "m:decoder.token_embedding.weight");

  const Tensor g = drawn({8, 3}, 8);
  Tensor turned = Tensor::empty({3, 8});
  std::vector<double> wide(24);  // (3, 8): the iteration on the shorter side
  for (int i = 0; i < 8; ++i)
    for (int j = 0; j < 3; ++j) wide[j * 8 + i] = turned.f32()[j * 8 + i] = g.f32()[i * 3 + j];
  for (double& v : wide) v *= 1.9;  // g + momentum * (first momentum = g)
  const std::vector<double> direction = plain_newton_schulz(3, 8, wide), before = values(plain->value);
  set_gradient(*plain, g);
  set_gradient(*in_out, turned);
  set_gradient(*head, drawn({4, 3}, 9));
  set_gradient(*table_of_ids, drawn({4, 3}, 9));
  optimizer.step(1, 1);
  for (int i = 0; i < 8; ++i) {
    for (int j = 0; j < 3; ++j) {
      const double want =
          before[i * 3 + j] * (1 - 0.5 * 0.1) - 0.5 * std::sqrt(8.0 / 3) * direction[j * 8 + i];
      EXPECT_NEAR(plain->value.f32()[i * 3 + j], want, kNearMuon);
      EXPECT_NEAR(in_out->value.f32()[j * 8 + i], want, kNearMuon);
    }
  }
}

TEST(Muon, TheMapsOfAFusedMatrixAreTurnedApart) {
  for (const bool in_out : {false, true}) {
    Parameter p{.name = "decoder.0.attention.qkv.weight",
                .shape = in_out ? Shape{4, 12} : Shape{12, 4},
                .in_out = in_out};
    p.init = {{4, 0.02}, {4, 0.02}, {4, 0.01}};
    const Tensor x = drawn(p.shape, 50);
    std::vector<Tensor> parts;
    for (int part = 0; part < 3; ++part) {
      Tensor t = Tensor::empty({4, 4});
      for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 4; ++j)
          t.f32()[i * 4 + j] = in_out ? x.f32()[i * 12 + part * 4 + j] : x.f32()[(part * 4 + i) * 4 + j];
      orthogonalize(4, 4, t.f32());
      parts.push_back(t);
    }
    orthogonalize_parts(p, x);
    for (int part = 0; part < 3; ++part)
      for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 4; ++j)
          EXPECT_EQ(in_out ? x.f32()[i * 12 + part * 4 + j] : x.f32()[(part * 4 + i) * 4 + j],
                    parts[part].f32()[i * 4 + j]);
  }
}

TEST(Optimizer, B25ClippingByTheNormOfAllGradientsTogether) {
  ParameterTable table;
  const Parameter* a = add(table, "a", {2}, Role::bias, 1);
  const Parameter* b = add(table, "b", {2}, Role::bias, 2);
  set_gradient(*a, {3, 4});
  set_gradient(*b, {0, 12});
  const double norm = gradient_norm(table);
  EXPECT_DOUBLE_EQ(norm, 13);
  const double factor = clip_factor(norm, 1);
  EXPECT_DOUBLE_EQ(factor, 1 / (13 + 1e-6));
  EXPECT_NEAR(3 * factor, 0.230769, 1e-6);
  EXPECT_NEAR(12 * factor, 0.923077, 1e-6);
  EXPECT_EQ(clip_factor(0.5, 1), 1);
  EXPECT_EQ(clip_factor(13, 0), 1);

  // As the update sees it: SGD with lr 1 subtracts the clipped gradient.
  for (const Parameter* p : {a, b}) std::fill_n(p->value.f32(), 2, 0.0f);
  Optimizer optimizer(table, {.optimizer = OptimizerKind::sgd, .lr = 1, .weight_decay = 0, .momentum = 0});
  optimizer.step(1, factor);
  EXPECT_NEAR(a->value.f32()[0], -0.230769, 1e-6);
  EXPECT_NEAR(a->value.f32()[1], -0.307692, 1e-6);
  EXPECT_EQ(b->value.f32()[0], 0);
  EXPECT_NEAR(b->value.f32()[1], -0.923077, 1e-6);
}

TEST(Optimizer, NormOfNotFiniteGradientsIsNotFinite) {
  ParameterTable table;
  const Parameter* a = add(table, "a", {2}, Role::bias, 1);
  set_gradient(*a, {1, NAN});
  EXPECT_FALSE(std::isfinite(gradient_norm(table)));
  set_gradient(*a, {1, INFINITY});
  EXPECT_FALSE(std::isfinite(gradient_norm(table)));
}

TEST(Optimizer, B26DecayOfTheOldValueBiasCorrectionAndEps) {
  ParameterTable table;
  const Parameter* w = add(table, "w", {1, 1}, Role::matrix, 1);
  const auto one_step = [&](float g, double decay) {
    w->value.f32()[0] = 1;
    Optimizer optimizer(table, {.lr = 0.1, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .weight_decay = decay});
    set_gradient(*w, {g});
    optimizer.step(1, 1);
    return w->value.f32()[0];
  };
  EXPECT_NEAR(one_step(0.5f, 0.1), 0.890000002, 1e-7);
  EXPECT_NEAR(one_step(1e-8f, 0), 0.950000000, 1e-7);
}

TEST(Optimizer, B27DecayReachesMatricesAndEmbeddingsByRole) {
  ParameterTable table;
  const Parameter* matrix = add(table, "decoder.0.layer_norm.weight", {2, 2}, Role::matrix, 1);
  const Parameter* ids = add(table, "token_embedding.weight", {2, 2}, Role::embedding, 2);
  const Parameter* gain = add(table, "decoder.0.norm_in.gain", {2}, Role::gain, 3);
  const Parameter* bias = add(table, "head.bias", {2}, Role::bias, 4);
  const Parameter* gate = add(table, "decoder.0.attention.gate", {2}, Role::gate, 5);
  std::map<const Parameter*, std::vector<double>> before;
  for (const Parameter* p : {matrix, ids, gain, bias, gate}) {
    before[p] = values(p->value);
    set_gradient(*p, Tensor::zeros(p->shape));
  }
  Optimizer optimizer(table, {.lr = 0.1, .weight_decay = 0.5});
  const auto updates = optimizer.step(1, 1);
  for (const auto& [p, old] : before) {
    const double kept = p == matrix || p == ids ? 1 - 0.1 * 0.5 : 1;
    for (int64_t i = 0; i < p->value.numel(); ++i)
      EXPECT_FLOAT_EQ(p->value.f32()[i], old[i] * kept) << p->name;
  }
  EXPECT_GT(updates[0].sum_of_squares, 0);
  EXPECT_EQ(updates[2].sum_of_squares, 0);
}

TEST(Optimizer, LeavesWhatHasNoGradientAndWhatDoesNotTrain) {
  ParameterTable table;
  const Parameter* a = add(table, "a", {2, 2}, Role::matrix, 1);
  Parameter* frozen = add(table, "b", {2, 2}, Role::matrix, 2);
  frozen->trainable = false;
  table.set_gradients();
  const std::vector<double> before = values(a->value), before_frozen = values(frozen->value);
  Optimizer optimizer(table, {.lr = 0.1, .weight_decay = 0.5});
  EXPECT_EQ(optimizer.state().size(), 2u);
  const auto updates = optimizer.step(1, 1);
  ASSERT_EQ(updates.size(), 1u);
  EXPECT_EQ(updates[0].sum_of_squares, 0);
  EXPECT_EQ(values(a->value), before);
  EXPECT_EQ(values(frozen->value), before_frozen);
}

}  // namespace
}  // namespace plumb
