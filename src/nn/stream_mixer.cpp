#include "nn/stream_mixer.h"

#include <cmath>

#include "ops/norm.h"

namespace plumb {
namespace {

// H_pre is e_k, k = order mod n, and H_res the identity.
std::vector<float> free_base(int64_t n, int64_t order) {
  std::vector<float> base(n * (n + 2), 0.0f);
  base[order % n] = 1;
  for (int64_t i = 0; i < n; ++i) base[n + i] = base[2 * n + i * (n + 1)] = 1;
  return base;
}

// The same as far as open intervals allow: H_pre has 3/4 of its weight on stream k, and H_res is near the
// identity (0.993 on the diagonal for 4 streams).
std::vector<float> doubly_stochastic_base(int64_t n, int64_t order) {
  constexpr double kMain = 0.75;
  constexpr float kDiagonal = 6;
  const auto logit = [](double p) { return static_cast<float>(std::log(p / (1 - p))); };
  std::vector<float> base(n * (n + 2), 0.0f);
  for (int64_t i = 0; i < n; ++i) {
    base[i] = logit(i == order % n ? kMain : (1 - kMain) / static_cast<double>(n - 1));
    base[2 * n + i * (n + 1)] = kDiagonal;
  }
  return base;
}

}  // namespace

StreamMixer::StreamMixer(const Builder& b, const LayerConfig& c, const SublayerFormula& formula,
                         int64_t order)
    : kind_(formula.mixing == Mixing::free ? MapKind::free : MapKind::doubly_stochastic),
      streams_(formula.streams),
      eps_(c.norm_eps),
      theta_(b, {.inputs = kind_ == MapKind::free ? b.config.width : streams_ * b.config.width,
                 .parts = {{kind_ == MapKind::free ? streams_ + 2 : streams_ * (streams_ + 2), 0}}}) {
  constexpr double kScale = 0.01;
  base_ = b.table.add(
      {.name = b.name("base"),
       .shape = {streams_ * (streams_ + 2)},
       .role = Role::gate,
       .start = kind_ == MapKind::free ? free_base(streams_, order) : doubly_stochastic_base(streams_, order),
       .starts_as = "equal streams"});
  scale_ = b.table.add({.name = b.name("scale"), .shape = {3}, .role = Role::gate, .constant = kScale});
}

ops::StreamMaps StreamMixer::maps(Context& context, const Tensor& x) const {
  const Tensor streams =
      kind_ == MapKind::free ? x.reshape({x.size(0), x.size(1), streams_, x.width() / streams_}) : x;
  const Tensor normed = ops::norm(context, streams, {.kind = NormKind::rms_norm, .eps = eps_});
  return ops::stream_maps(context, theta_.forward(context, normed),
                          {.kind = kind_, .base = base_->value, .scale = scale_->value}, streams_);
}

}  // namespace plumb
