#include "ops/latent.h"

namespace plumb::ops {

LatentKeys latent_heads(Context& context, const Tensor& mapped, const Tensor& shared, LatentHeads shape) {
  shape.rows = mapped.rows();
  shape.rotated = shared.width();
  PLUMB_CHECK(shared.rows() == shape.rows && mapped.width() == shape.heads * (shape.plain + shape.value),
              "latent heads of {} and {}", mapped.shape().str(), shared.shape().str());
  LatentKeys y{Tensor::empty(mapped.shape().with_width(shape.heads * (shape.plain + shape.rotated))),
               Tensor::empty(mapped.shape().with_width(shape.heads * shape.value))};
  latent_heads_forward(shape, mapped.f32(), shared.f32(), y.k.f32(), y.v.f32());
  if (!context.records(mapped) && !context.records(shared)) return y;
  y.k.set_requires_grad();
  y.v.set_requires_grad();
  context.tape->record([mapped = mapped.without_data(), shared = shared.without_data(), shape,
                        of_k = y.k.gradient(), of_v = y.v.gradient()] {
    const float *dk = arrived(of_k), *dv = arrived(of_v);
    if (!dk || !dv) return;  // attention writes both or none
    const GradientTarget dmapped = gradient_target(mapped), dshared = gradient_target(shared);
    latent_heads_backward(shape, {.dk = dk,
                                  .dv = dv,
                                  .dmapped = dmapped.data,
                                  .dshared = dshared.data,
                                  .add_mapped = dmapped.add,
                                  .add_shared = dshared.add});
  });
  return y;
}

}  // namespace plumb::ops
