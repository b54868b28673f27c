#include "ops/attention.h"

#include "kernels/rope.h"

namespace plumb::ops {
namespace {

::plumb::Attention filled(const AttentionInput& in, const Tensor& out, const Tensor& lse) {
  ::plumb::Attention a = in.shape;
  a.q = in.q.t.f32() + in.q.first;
  a.q_row = in.q.t.width();
  const size_t size = dtype_size(in.k.t.dtype());
  a.k = static_cast<const char*>(in.k.t.raw()) + in.k.first * size;
  a.v = static_cast<const char*>(in.v.t.raw()) + in.v.first * size;
  a.k_row = in.k.t.width();
  a.v_row = in.v.t.width();
  a.kv_rows = in.k.t.size(1);
  a.kv_dtype = in.k.t.dtype();
  a.out = out.f32();
  a.out_row = out.width();
  a.lse = lse.defined() ? lse.f32() : nullptr;
  if (in.key_mask.defined()) {
    a.key_mask = in.key_mask.data<uint8_t>();
    a.mask_row = in.key_mask.width();
  }
  if (in.first_keys.defined()) a.first_keys = in.first_keys.data<int32_t>();
  if (in.alibi_slopes.defined()) a.alibi_slopes = in.alibi_slopes.f32();
  if (in.sinks.defined()) a.sinks = in.sinks.f32();
  return a;
}

// Fused projections hand in one tensor three times: its gradient is asked for once, and every column is
// written.
struct ColumnTargets {
  GradientTarget q, k, v;
  Tensor unwanted_q, unwanted_k, unwanted_v;

  explicit ColumnTargets(const AttentionInput& in) {
    q = gradient_target_or(in.q.t, unwanted_q);
    const bool fused = in.q.t.requires_grad() && in.k.t.gradient() == in.q.t.gradient();
    k = fused ? q : gradient_target_or(in.k.t, unwanted_k);
    v = fused ? q : gradient_target_or(in.v.t, unwanted_v);
  }
};

void attention_backward_of(const AttentionInput& in, const Tensor& out, const Tensor& lse,
                           const float* dout) {
  const ColumnTargets t(in);
  const GradientTarget sinks = in.sinks.defined() ? gradient_target(in.sinks) : GradientTarget{};
  attention_backward(filled(in, out, lse), {.dout = dout,
                                            .dout_row = out.width(),
                                            .dq = t.q.data + in.q.first,
                                            .dq_row = in.q.t.width(),
                                            .dk = t.k.data + in.k.first,
                                            .dk_row = in.k.t.width(),
                                            .dv = t.v.data + in.v.first,
                                            .dv_row = in.v.t.width(),
                                            .add_dq = t.q.add,
                                            .add_dk = t.k.add,
                                            .add_dv = t.v.add,
                                            .dsinks = sinks.data,
                                            .add_dsinks = sinks.add});
}

}  // namespace

Tensor attention(Context& context, const AttentionInput& input) {
  const ::plumb::Attention& s = input.shape;
  PLUMB_CHECK(input.q.t.size(0) == s.batch && input.q.t.size(1) == s.queries, "queries {}",
              input.q.t.shape().str());
  PLUMB_CHECK(input.k.t.size(0) == s.batch && input.k.t.size(1) >= s.keys, "keys {}",
              input.k.t.shape().str());
  Tensor out = Tensor::empty({s.batch, s.queries, s.heads * s.value_dim});
  const bool record = context.records(input.q.t) || context.records(input.k.t) ||
                      context.records(input.v.t) || (input.sinks.defined() && context.records(input.sinks));
  const Tensor lse = record ? Tensor::empty({s.batch, s.heads, s.queries}) : Tensor();
  attention_forward(filled(input, out, lse));
  if (!record) return out;
  out.set_requires_grad();
  context.tape->record([input, kept = out.without_grad(), lse, result = out.gradient()] {
    if (const float* dout = arrived(result)) attention_backward_of(input, kept, lse, dout);
  });
  return out;
}

void rope(Context& context, const RopeInput& in) {
  const auto turn = [in](float* x, bool inverse) {
    ::plumb::rope({.x = x + in.x.first,
                   .rows = in.x.t.rows(),
                   .row_stride = in.x.t.width(),
                   .heads = in.heads,
                   .head_dim = in.head_dim,
                   .rotary_dim = in.rotary_dim,
                   .interleaved = in.interleaved,
                   .cos = in.cos.f32(),
                   .sin = in.sin.f32(),
                   .positions = in.positions.data<int32_t>(),
                   .inverse = inverse});
  };
  turn(in.x.t.f32(), false);
  if (!context.records(in.x.t)) return;
  context.tape->record([turn, slot = in.x.t.gradient()] {
    if (arrived(slot)) turn(slot->value->f32(), true);
  });
}

}  // namespace plumb::ops
