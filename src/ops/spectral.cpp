#include "ops/spectral.h"

#include <algorithm>
#include <numeric>

#include "kernels/spectral.h"
#include "ops/scale.h"

namespace plumb::ops {
namespace {

struct Map {
  MapView view;
  float* v = nullptr;
  int64_t first = 0;  // its outputs begin there
};

Map map_of(const LinearWeights& w, const SigmaReparam& s, size_t part) {
  const int64_t first =
      std::accumulate(s.outputs.begin(), s.outputs.begin() + static_cast<int64_t>(part), int64_t{0});
  return {.view = {.w = w.weight.f32() + first * (w.in_out ? 1 : w.inputs()),
                   .outputs = s.outputs[part],
                   .inputs = w.inputs(),
                   .ld = w.weight.width(),
                   .in_out = w.in_out},
          .v = s.vectors.f32() + static_cast<int64_t>(part) * w.inputs(),
          .first = first};
}

// Of gamma / sigma, (out), from its gradient.
struct FactorsBackward {
  LinearWeights w;
  SigmaReparam s;
  Tensor u;                   // (out): W v / |W v| of each map
  std::vector<double> sigma;  // of each map

  void operator()(const float* dfactors) const {
    const GradientTarget dgamma = gradient_target(s.gamma), dw = gradient_target(w.weight);
    for (size_t p = 0; p < sigma.size(); ++p) {
      const Map m = map_of(w, s, p);
      const float* d = dfactors + m.first;
      const double total = sigma[p] == 0 ? 0 : std::accumulate(d, d + m.view.outputs, 0.0) / sigma[p];
      if (dgamma.data) dgamma.data[p] = static_cast<float>(total + (dgamma.add ? dgamma.data[p] : 0));
      if (!dw.data) continue;
      spectral_backward({.map = m.view,
                         .u = u.f32() + m.first,
                         .v = m.v,
                         .by = sigma[p] == 0 ? 0 : -total * s.gamma.f32()[p] / sigma[p],
                         .dw = dw.data + (m.view.w - w.weight.f32()),
                         .add = dw.add});
    }
  }
};

// gamma / sigma of each output's map, (out).
Tensor factors(Context& context, const LinearWeights& w, const SigmaReparam& s) {
  Tensor c = Tensor::empty({w.outputs()});
  FactorsBackward backward{w, s, Tensor::empty({w.outputs()}), {}};
  for (size_t p = 0; p < s.outputs.size(); ++p) {
    const Map m = map_of(w, s, p);
    backward.sigma.push_back(spectral_value(m.view, m.v, backward.u.f32() + m.first));
    // In f32 as gamma is, so that a gamma that is sigma gives exactly 1.
    const auto sigma = static_cast<float>(backward.sigma[p]);
    std::fill_n(c.f32() + m.first, m.view.outputs, sigma == 0 ? 0 : s.gamma.f32()[p] / sigma);
  }
  if (!context.records(w.weight) && !context.records(s.gamma)) return c;
  c.set_requires_grad();
  context.tape->record([backward = std::move(backward), result = c.gradient()] {
    if (const float* d = arrived(result)) backward(d);
  });
  return c;
}

}  // namespace

LinearWeights sigma_reparam(Context& context, const LinearWeights& w, const SigmaReparam& s) {
  LinearWeights wide = w;
  if (w.weight.dtype() != DType::f32) wide.weight = owned_f32(w.weight);
  return scale_outputs(context, wide, {.v = factors(context, wide, s)});
}

void follow(const LinearWeights& w, const SigmaReparam& s) {
  for (size_t p = 0; p < s.outputs.size(); ++p) {
    const Map m = map_of(w, s, p);
    power_iteration(m.view, m.v);
  }
}

void start(const LinearWeights& w, const SigmaReparam& s) {
  constexpr int kMost = 200;
  for (size_t p = 0; p < s.outputs.size(); ++p) {
    const Map m = map_of(w, s, p);
    double before = 0;
    for (int i = 0; i < kMost; ++i) {
      const double sigma = power_iteration(m.view, m.v);
      if (sigma <= before * (1 + 1e-7)) break;
      before = sigma;
    }
    const Tensor u = Tensor::empty({m.view.outputs});
    s.gamma.f32()[p] = static_cast<float>(spectral_value(m.view, m.v, u.f32()));
  }
}

}  // namespace plumb::ops
