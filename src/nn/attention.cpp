#include "nn/attention.h"

#include <cmath>

#include "kernels/convert.h"
#include "ops/attention.h"
#include "ops/bound.h"
#include "ops/embedding.h"
#include "ops/scale.h"

namespace plumb {

std::vector<float> alibi_slopes(const ModelConfig& config, const LayerConfig& c) {
  int64_t power = 1;
  while (power * 2 <= c.heads) power *= 2;
  std::vector<float> slopes(c.heads);
  for (int64_t h = 0; h < c.heads; ++h) {
    // Heads beyond the power of two have every other slope of twice as many heads.
    const int64_t i = h < power ? 2 * (h + 1) : 2 * (h - power) + 1;
    const double exponent = config.alibi_max * static_cast<double>(i) / static_cast<double>(2 * power);
    const auto slope = static_cast<float>(std::exp2(-exponent));
    // Twice: the reference adds it to the logits before their scale and, scaled, to the mask.
    slopes[h] = config.alibi_scaled
                    ? static_cast<float>(2 * to_float(to_bf16(slope)) * attention_scale(c, false))
                    : slope;
  }
  return slopes;
}

MultiHeadAttention::MultiHeadAttention(const Builder& b, const LayerConfig& c, const SublayerFormula& formula,
                                       Kind kind)
    : name_(b.prefix),
      kind_(kind),
      heads_(c.heads),
      kv_heads_(c.kv_heads),
      head_dim_(c.head_dim),
      window_(kind == Kind::self ? c.window : 0),
      qk_norm_(c.qk_norm),
      qk_norm_late_(c.qk_norm_late),
      rotary_(kind == Kind::self && b.config.positions == Positions::rope && c.rotary),
      interleaved_(c.rope.interleaved),
      scale_(attention_scale(c, rotary_)),
      softcap_(c.attention_softcap),
      limit_(c.qkv_limit),
      dropout_(b.config.attention_dropout),
      dropout_site_(b.site()) {
  const int64_t width = b.config.width, q = heads_ * head_dim_, kv = kv_heads_ * head_dim_;
  const auto project = [&](const char* name, std::vector<Linear::Part> parts) {
    return Linear(b.child(name),
                  {width, std::move(parts), c.attention_bias, formula.reparam, from_stream(formula)});
  };
  if (c.qkv_fused && kind == Kind::self) {
    qkv_ = project("qkv", {{q, 1}, {kv, 1}, {kv, formula.beta}});
  } else {
    query_ = project("query", {{q, 1}});
    key_ = project("key", {{kv, 1}});
    value_ = project("value", {{kv, formula.beta}});
  }
  query_norm_ = head_norm(b.child("query_norm"), c, heads_);
  key_norm_ = head_norm(b.child("key_norm"), c, kv_heads_);
  if (formula.norm_inner) norm_inner_.emplace(b.child("norm_inner"), c, q);
  output_ = Linear(b.child("output"), {q,
                                       {{width, formula.beta * formula.output_gain * output_scale(b.config)}},
                                       c.attention_output_bias,
                                       formula.reparam,
                                       to_stream(formula)});
  if (formula.unit) query_scale_.emplace(b, "query_scale", q, 1 / std::sqrt(static_cast<double>(width)));
  if (formula.head_scale) {
    head_scale_ =
        b.table.add({.name = b.name("head_scale"), .shape = {heads_}, .role = Role::gain, .constant = 1});
  }
  if (c.attention_sinks && kind == Kind::self)
    sinks_ = b.table.add({.name = b.name("sinks"), .shape = {heads_}, .role = Role::bias});
  if (kind == Kind::self && b.config.positions == Positions::alibi) {
    alibi_slopes_ = Tensor::of<float>({heads_}, alibi_slopes(b.config, c));
  }
}

MultiHeadAttention::HeadNorm MultiHeadAttention::head_norm(const Builder& b, const LayerConfig& c,
                                                           int64_t heads) const {
  HeadNorm n;
  if (qk_norm_ == QkNorm::none) return n;
  LayerConfig of_head = c;
  if (qk_norm_ == QkNorm::own_gains) {
    of_head.norm_affine = of_head.norm_bias = false;
    n.gains =
        b.table.add({.name = b.name("gain"), .shape = {heads, head_dim_}, .role = Role::gain, .constant = 1});
  }
  n.norm.emplace(b, of_head, qk_norm_ == QkNorm::whole ? heads * head_dim_ : head_dim_);
  return n;
}

Tensor MultiHeadAttention::head_normed(Context& context, const Tensor& x, const HeadNorm& n,
                                       int64_t heads) const {
  if (qk_norm_ == QkNorm::whole) return n.norm->forward(context, x);
  const Tensor by_head = x.reshape({x.rows() * heads, head_dim_});
  const Tensor y = n.norm->forward(context, by_head).reshape(x.shape());
  return n.gains ? ops::scale_columns(context, y, {.v = n.gains->value}) : y;
}

Tensor MultiHeadAttention::limited(Context& context, const Tensor& x) const {
  const auto limit = static_cast<float>(limit_);
  return limit > 0 ? ops::clamp(context, x, {.low = -limit, .high = limit}) : x;
}

// Queries and keys are clamped behind the norm that they have, unless that comes after the rotation.
Tensor MultiHeadAttention::projected(Context& context, const Tensor& x) const {
  return normed_first() ? x : limited(context, x);
}

MultiHeadAttention::Projected MultiHeadAttention::project_self(Context& context, const Tensor& x,
                                                               const AttentionPass& pass) const {
  const int64_t q = heads_ * head_dim_, kv = kv_heads_ * head_dim_;
  Projected p;
  if (qkv_) {
    const Tensor fused = qkv_->forward(context, x);
    if (qk_norm_ == QkNorm::none) {
      const Tensor all = limited(context, fused);
      p = {{all, 0}, {all, q}, {all, q + kv}};
    } else {
      const auto parts = ops::split_columns(context, fused, {q, kv, kv});
      p = {{projected(context, parts[0])}, {projected(context, parts[1])}, {limited(context, parts[2])}};
    }
  } else {
    p = {{projected(context, query_->forward(context, x))},
         {projected(context, key_->forward(context, x))},
         {limited(context, value_->forward(context, x))}};
  }
  show(context, "query", p.q, heads_);
  show(context, "key", p.k, kv_heads_);
  show(context, "value", p.v, kv_heads_);
  if (normed_first()) {
    p.q.t = limited(context, head_normed(context, p.q.t, query_norm_, heads_));
    p.k.t = limited(context, head_normed(context, p.k.t, key_norm_, kv_heads_));
  }
  if (rotary_) rotate(context, p, pass);
  if (query_norm_.norm && qk_norm_late_) {
    p.q.t = head_normed(context, p.q.t, query_norm_, heads_);
    p.k.t = head_normed(context, p.k.t, key_norm_, kv_heads_);
  }
  if (pass.cache) append(p, pass);
  return p;
}

MultiHeadAttention::Projected MultiHeadAttention::project_cross(Context& context, const Tensor& x,
                                                                const AttentionPass& pass) const {
  Projected p;
  p.q = {projected(context, query_->forward(context, x)), 0};
  show(context, "query", p.q, heads_);
  if (query_norm_.norm) p.q.t = head_normed(context, p.q.t, query_norm_, heads_);
  if (normed_first()) p.q.t = limited(context, p.q.t);
  if (pass.cache && pass.cache->cross_k.defined()) {
    p.k = {pass.cache->cross_k, 0};
    p.v = {pass.cache->cross_v, 0};
    return p;
  }
  p.k = {projected(context, key_->forward(context, pass.memory)), 0};
  p.v = {limited(context, value_->forward(context, pass.memory)), 0};
  show(context, "key", p.k, kv_heads_);
  show(context, "value", p.v, kv_heads_);
  if (key_norm_.norm) p.k.t = head_normed(context, p.k.t, key_norm_, kv_heads_);
  if (normed_first()) p.k.t = limited(context, p.k.t);
  if (pass.cache) {
    pass.cache->cross_k = p.k.t;
    pass.cache->cross_v = p.v.t;
  }
  return p;
}

void MultiHeadAttention::rotate(Context& context, Projected& p, const AttentionPass& pass) const {
  PLUMB_CHECK(pass.rotary.cos.defined());
  ops::RopeInput in{.heads = heads_,
                    .head_dim = head_dim_,
                    .rotary_dim = pass.rotary.rotary_dim,
                    .interleaved = interleaved_,
                    .cos = pass.rotary.query_cos,
                    .sin = pass.rotary.query_sin,
                    .positions = pass.tokens->positions};
  in.x = p.q;
  ops::rope(context, in);
  in.x = p.k;
  in.heads = kv_heads_;
  in.cos = pass.rotary.cos;
  in.sin = pass.rotary.sin;
  ops::rope(context, in);
}

// Puts this pass's keys and values behind those of the cache, and lets the cache's take their place.
void MultiHeadAttention::append(Projected& p, const AttentionPass& pass) const {
  LayerCache& cache = *pass.cache;
  const int64_t width = kv_heads_ * head_dim_, batch = pass.tokens->batch, length = pass.tokens->length;
  const int64_t capacity = pass.slot_mask.size(1);
  if (!cache.k.defined()) {
    cache.k = Tensor::empty({batch, capacity, width});
    cache.v = Tensor::empty({batch, capacity, width});
  }
  const auto store = [&](const ops::Columns& from, const Tensor& to) {
    for (int64_t b = 0; b < batch; ++b) {
      widen({.src = from.t.f32() + b * length * from.t.width() + from.first,
             .rows = length,
             .width = width,
             .ld = from.t.width(),
             .dst = to.f32() + (b * capacity + pass.cached) * width});
    }
  };
  store(p.k, cache.k);
  store(p.v, cache.v);
  p.k = {cache.k, 0};
  p.v = {cache.v, 0};
}

// A copy, for a close observer: the columns may be part of one fused product, and be rotated in place.
void MultiHeadAttention::show(Context& context, const char* quantity, const ops::Columns& x,
                              int64_t heads) const {
  if (!closely(context)) return;
  const int64_t width = heads * head_dim_;
  const Tensor copy = Tensor::empty({x.t.size(0), x.t.size(1), width});
  for (int64_t r = 0; r < x.t.rows(); ++r) {
    std::memcpy(copy.f32() + r * width, x.t.f32() + r * x.t.width() + x.first, width * sizeof(float));
  }
  observe(context, name_, quantity, copy);
}

Tensor MultiHeadAttention::forward(Context& context, const Tensor& x, const AttentionPass& pass) const {
  const bool cross = kind_ == Kind::cross;
  Projected p = cross ? project_cross(context, x, pass) : project_self(context, x, pass);
  // nGPT's s on queries and on keys is its square on queries, which also goes where heads share keys.
  for (int i = 0; query_scale_ && i < 2; ++i) p.q.t = query_scale_->forward(context, p.q.t);
  const bool cached = !cross && pass.cache;
  if (!cached) {
    show(context, "q", p.q, heads_);
    show(context, "k", p.k, kv_heads_);
  }
  const int64_t length = pass.tokens->length;
  const int64_t keys = cross ? p.k.t.size(1) : pass.cached + length;
  ops::AttentionInput in{.q = p.q, .k = p.k, .v = p.v};
  in.shape = {.batch = pass.tokens->batch,
              .queries = length,
              .keys = keys,
              .heads = heads_,
              .kv_heads = kv_heads_,
              .head_dim = head_dim_,
              .value_dim = head_dim_,
              .scale = static_cast<float>(scale_),
              .softcap = static_cast<float>(softcap_),
              .causal = !cross && pass.causal,
              .first_query = cross ? 0 : pass.cached,
              .window = window_,
              .dropout = context.training ? static_cast<float>(dropout_) : 0.0f,
              .dropout_key = context.dropout_key(dropout_site_)};
  in.key_mask = cross ? pass.memory_mask : cached ? pass.slot_mask : pass.tokens->mask;
  if (!cross) in.first_keys = pass.tokens->starts;
  in.alibi_slopes = alibi_slopes_;
  if (sinks_) {
    in.sinks = sinks_->value;
    observe_closely(context, name_, "sinks", in.sinks.without_grad().reshape({1, 1, heads_}));
  }
  if (context.observer && !context.again) context.observer->attention(name_, in);
  Tensor heads = ops::attention(context, in);
  observe_closely(context, name_, "heads", heads);
  if (head_scale_) heads = ops::scale_columns(context, heads, {.v = head_scale_->value});
  if (norm_inner_) {
    heads = norm_inner_->forward(context, heads);
    observe_closely(context, name_, "inner", heads);
  }
  return output_->forward(context, heads);
}

}  // namespace plumb
