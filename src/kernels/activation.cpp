#include "kernels/activation.h"

#include "base/check.h"
#include "kernels/row_blocks.h"
#include "kernels/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/activation.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/simd.h"
#include "kernels/simd_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plumb {
namespace HWY_NAMESPACE {

template <class V>
struct ValueSlope {
  V value, slope;
};

// Beyond these every activation and slope has its limit; products with the factor that vanishes there stay
// finite.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V clamp_below(D d, V x) {
  return hn::Max(hn::Set(d, -100.0f), x);
}
template <class D, class V = hn::Vec<D>>
HWY_INLINE V clamp_both(D d, V x) {
  return hn::Min(hn::Set(d, 100.0f), clamp_below(d, x));
}

struct Relu {
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE V value(D d, V x) {
    return hn::IfThenZeroElse(hn::Le(x, hn::Zero(d)), x);
  }
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE ValueSlope<V> both(D d, V x) {
    return {value(d, x), hn::IfThenElseZero(hn::Gt(x, hn::Zero(d)), hn::Set(d, 1.0f))};
  }
};

struct Gelu {
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE V cdf(D d, V x) {
    const V half = hn::Set(d, 0.5f);
    return hn::MulAdd(erf_v(d, hn::Mul(x, hn::Set(d, 0.707106781f))), half, half);
  }
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE V value(D d, V x) {
    return hn::Mul(clamp_below(d, x), cdf(d, x));
  }
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE ValueSlope<V> both(D d, V x) {
    const V c = clamp_both(d, x), phi = cdf(d, x);
    const V density = hn::Mul(hn::Set(d, 0.398942280f), exp_v(d, hn::Mul(hn::Set(d, -0.5f), hn::Mul(c, c))));
    return {hn::Mul(clamp_below(d, x), phi), hn::MulAdd(c, density, phi)};
  }
};

struct GeluTanh {
  static constexpr float kRoot = 0.797884561f;  // sqrt(2 / pi)
  static constexpr float kCube = 0.044715f;

  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE V tanh_of(D d, V x) {
    const V inner = hn::MulAdd(hn::Mul(x, x), hn::Set(d, kRoot * kCube), hn::Set(d, kRoot));
    return tanh_v(d, hn::Mul(x, inner));
  }
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE V value(D d, V x) {
    const V half = hn::Set(d, 0.5f);
    return hn::Mul(clamp_below(d, x), hn::MulAdd(tanh_of(d, x), half, half));
  }
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE ValueSlope<V> both(D d, V x) {
    const V half = hn::Set(d, 0.5f), c = clamp_both(d, x), t = tanh_of(d, x);
    const V cdf = hn::MulAdd(t, half, half);
    const V inner = hn::MulAdd(hn::Mul(c, c), hn::Set(d, 3 * kRoot * kCube), hn::Set(d, kRoot));
    const V rest = hn::Mul(hn::Mul(half, c), hn::Mul(hn::NegMulAdd(t, t, hn::Set(d, 1.0f)), inner));
    return {hn::Mul(clamp_below(d, x), cdf), hn::Add(cdf, rest)};
  }
};

struct ReluSquared {
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE V value(D d, V x) {
    const V r = hn::ZeroIfNegative(x);
    return hn::Mul(r, r);
  }
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE ValueSlope<V> both(D d, V x) {
    const V r = hn::ZeroIfNegative(x);
    return {hn::Mul(r, r), hn::Add(r, r)};
  }
};

// x * sigmoid(Sharpness x)
template <class Sharpness>
struct Swish {
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE V gate(D d, V x) {
    return sigmoid_v(d, hn::Mul(x, hn::Set(d, Sharpness::kValue)));
  }
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE V value(D d, V x) {
    return hn::Mul(clamp_below(d, x), gate(d, x));
  }
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE ValueSlope<V> both(D d, V x) {
    const V one = hn::Set(d, 1.0f), s = gate(d, x);
    const V inner = hn::Mul(clamp_both(d, x), hn::Set(d, Sharpness::kValue));
    const V slope = hn::Mul(s, hn::MulAdd(inner, hn::Sub(one, s), one));
    return {hn::Mul(clamp_below(d, x), s), slope};
  }
};
struct SiluSharpness {
  static constexpr float kValue = 1.0f;
};
struct GeluSharpness {
  static constexpr float kValue = 1.702f;
};

// call(Relu()), ... for the kind.
template <class Call>
HWY_INLINE void with_activation(Activation kind, const Call& call) {
  switch (kind) {
    case Activation::relu:
      return call(Relu());
    case Activation::gelu:
      return call(Gelu());
    case Activation::gelu_tanh:
      return call(GeluTanh());
    case Activation::silu:
      return call(Swish<SiluSharpness>());
    case Activation::relu_squared:
      return call(ReluSquared());
    case Activation::gelu_sigmoid:
      return call(Swish<GeluSharpness>());
  }
}

template <class T>
void activation_rows_into(T* out, const ActivationForward& a, int64_t first, int64_t last) {
  with_activation(a.kind, [&](auto act) HWY_ATTR {
    for (int64_t n = first; n < last; ++n) {
      const float* x = a.x + n * a.width;
      T* y = out + n * a.width;
      for_lanes(a.width, [&](auto d, size_t i) HWY_ATTR {
        auto v = hn::LoadU(d, x + i);
        if (a.bias) v = hn::Add(v, hn::LoadU(d, a.bias + i));
        store_as(d, act.value(d, v), y + i);
      });
    }
  });
}

void activation_forward_rows(const ActivationForward& a, int64_t first, int64_t last) {
  if (a.y_bf16) return activation_rows_into(a.y_bf16, a, first, last);
  activation_rows_into(a.y, a, first, last);
}

void activation_backward_rows(const ActivationBackward& a, float* bias_sum, int64_t first, int64_t last) {
  with_activation(a.kind, [&](auto act) HWY_ATTR {
    for (int64_t n = first; n < last; ++n) {
      const int64_t at = n * a.width;
      for_lanes(a.width, [&](auto d, size_t i) HWY_ATTR {
        auto v = hn::LoadU(d, a.x + at + i);
        if (a.bias) v = hn::Add(v, hn::LoadU(d, a.bias + i));
        const auto g = hn::Mul(act.both(d, v).slope, hn::LoadU(d, a.dy + at + i));
        if (bias_sum) store(d, g, bias_sum + i, true);
        store(d, g, a.dx + at + i, a.add_x);
      });
    }
  });
}

template <class T>
void gated_rows_into(T* out, const GatedForward& a, int64_t first, int64_t last) {
  with_activation(a.kind, [&](auto act) HWY_ATTR {
    for (int64_t n = first; n < last; ++n) {
      const float* gate = a.gate + n * a.gate_stride;
      const float* up = a.up + n * a.up_stride;
      T* y = out + n * a.width;
      for_lanes(a.width, [&](auto d, size_t i) HWY_ATTR {
        store_as(d, hn::Mul(act.value(d, hn::LoadU(d, gate + i)), hn::LoadU(d, up + i)), y + i);
      });
    }
  });
}

void gated_forward_rows(const GatedForward& a, int64_t first, int64_t last) {
  if (a.y_bf16) return gated_rows_into(a.y_bf16, a, first, last);
  gated_rows_into(a.y, a, first, last);
}

void gated_backward_rows(const GatedBackward& a, int64_t first, int64_t last) {
  with_activation(a.kind, [&](auto act) HWY_ATTR {
    for (int64_t n = first; n < last; ++n) {
      const float* gate = a.gate + n * a.gate_stride;
      const float* up = a.up + n * a.up_stride;
      const float* dy = a.dy + n * a.width;
      float* dgate = a.dgate + n * a.dgate_stride;
      float* dup = a.dup + n * a.dup_stride;
      for_lanes(a.width, [&](auto d, size_t i) HWY_ATTR {
        const auto act_gate = act.both(d, hn::LoadU(d, gate + i));
        const auto g = hn::LoadU(d, dy + i);
        const auto to_gate = hn::Mul(hn::Mul(g, hn::LoadU(d, up + i)), act_gate.slope);
        store(d, to_gate, dgate + i, a.add);
        store(d, hn::Mul(g, act_gate.value), dup + i, a.add);
      });
    }
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace plumb
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plumb {

HWY_EXPORT(activation_forward_rows);
HWY_EXPORT(activation_backward_rows);
HWY_EXPORT(gated_forward_rows);
HWY_EXPORT(gated_backward_rows);

void activation_forward(const ActivationForward& a) {
  PLUMB_CHECK(a.rows >= 0 && a.width > 0, "{} rows of {}", a.rows, a.width);
  for_blocks(a.rows, rows_per_block(a.width), [&](int64_t, int64_t first, int64_t last) {
    HWY_DYNAMIC_DISPATCH(activation_forward_rows)(a, first, last);
  });
}

void activation_backward(const ActivationBackward& a) {
  PLUMB_CHECK(a.rows >= 0 && a.width > 0, "{} rows of {}", a.rows, a.width);
  if (!a.dbias) {
    for_blocks(a.rows, rows_per_block(a.width), [&](int64_t, int64_t first, int64_t last) {
      HWY_DYNAMIC_DISPATCH(activation_backward_rows)(a, nullptr, first, last);
    });
    return;
  }
  const ColumnSums sums(a.rows, a.width, 1);
  for_blocks(a.rows, kBlockRows, [&](int64_t block, int64_t first, int64_t last) {
    HWY_DYNAMIC_DISPATCH(activation_backward_rows)(a, sums.cleared_partial(block, 0), first, last);
  });
  sums.finish(0, a.dbias, a.add_bias);
}

void gated_forward(const GatedForward& a) {
  PLUMB_CHECK(a.rows >= 0 && a.width > 0 && a.gate_stride >= a.width && a.up_stride >= a.width,
              "{} rows of {}, strides {} {}", a.rows, a.width, a.gate_stride, a.up_stride);
  for_blocks(a.rows, rows_per_block(a.width), [&](int64_t, int64_t first, int64_t last) {
    HWY_DYNAMIC_DISPATCH(gated_forward_rows)(a, first, last);
  });
}

void gated_backward(const GatedBackward& a) {
  PLUMB_CHECK(a.rows >= 0 && a.width > 0 && a.dgate_stride >= a.width && a.dup_stride >= a.width,
              "{} rows of {}, strides {} {}", a.rows, a.width, a.dgate_stride, a.dup_stride);
  for_blocks(a.rows, rows_per_block(a.width), [&](int64_t, int64_t first, int64_t last) {
    HWY_DYNAMIC_DISPATCH(gated_backward_rows)(a, first, last);
  });
}

}  // namespace plumb
#endif  // HWY_ONCE
