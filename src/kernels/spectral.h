// The largest singular value of a linear map, by power iteration with a vector that is kept from step to
// step, for sigma-reparametrisation: Zhai et al. 2023, 2303.06296. Products are f32, lengths f64.
#pragma once

#include <cstdint>

namespace plumb {

// A map from `inputs` to `outputs` numbers: W[o, i] is at w[o * ld + i], or at w[i * ld + o] where in_out.
struct MapView {
  const float* w = nullptr;
  int64_t outputs = 0, inputs = 0, ld = 0;
  bool in_out = false;
};

// |W v| / |v|: the largest singular value where v (inputs) is its right vector. u (outputs) = W v / |W v|;
// where W v = 0, u is 0 and so is the result.
double spectral_value(const MapView& m, const float* v, float* u);

// v = Wᵀ W v / |Wᵀ W v|, unless that is 0; returns spectral_value() of the v before.
double power_iteration(const MapView& m, float* v);

// dw = (or +=) by * u vᵀ / |v|, dw lying as W does: the gradient of `by` times the value above, v being
// constant.
struct SpectralBackward {
  MapView map;  // its sizes and layout
  const float* u = nullptr;
  const float* v = nullptr;
  double by = 0;
  float* dw = nullptr;
  bool add = false;
};
void spectral_backward(const SpectralBackward& a);

}  // namespace plumb
