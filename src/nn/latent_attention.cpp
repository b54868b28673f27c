#include "nn/latent_attention.h"

#include <cmath>
#include <cstring>

#include "ops/embedding.h"
#include "ops/latent.h"

namespace plumb {
namespace {

// Whatever the layer's: the published models' own code has it so.
LayerConfig latent_norm(LayerConfig c) {
  c.norm_eps = 1e-6;
  return c;
}

// The first `count` rows of each sequence, from (B, capacity, W).
Tensor first_rows(const Tensor& t, int64_t count) {
  Tensor y = Tensor::empty({t.size(0), count, t.size(2)});
  const int64_t row = count * t.size(2);
  for (int64_t b = 0; b < t.size(0); ++b)
    std::copy_n(t.f32() + b * t.size(1) * t.size(2), row, y.f32() + b * row);
  return y;
}

}  // namespace

LatentAttention::LatentAttention(const Builder& b, const LayerConfig& c, const SublayerFormula& formula)
    : name_(b.prefix),
      heads_(c.heads),
      head_dim_(c.head_dim),
      rope_dim_(c.rope_dim),
      value_dim_(c.value_dim),
      rank_(c.kv_rank),
      window_(c.window),
      interleaved_(c.rope.interleaved),
      scale_(attention_scale(c, true)),
      dropout_(b.config.attention_dropout),
      dropout_site_(b.site()),
      down_(b.child("latent"),
            {b.config.width, {{c.kv_rank + c.rope_dim, 1}}, c.attention_bias, formula.reparam}),
      norm_(b.child("latent_norm"), latent_norm(c), c.kv_rank),
      up_(b.child("key_value"), {c.kv_rank,
                                 {{c.heads * (c.head_dim - c.rope_dim + c.value_dim), formula.beta}},
                                 false,
                                 formula.reparam}),
      output_(b.child("output"),
              {c.heads * c.value_dim,
               {{b.config.width, formula.beta * formula.output_gain * output_scale(b.config)}},
               c.attention_output_bias,
               formula.reparam}) {
  const int64_t q = heads_ * head_dim_;
  if (c.q_rank == 0) {
    query_.emplace(b.child("query"), Linear::Spec{b.config.width, {{q, 1}}, false, formula.reparam});
  } else {
    query_down_.emplace(b.child("query_latent"),
                        Linear::Spec{b.config.width, {{c.q_rank, 1}}, c.attention_bias, formula.reparam});
    query_norm_.emplace(b.child("query_latent_norm"), latent_norm(c), c.q_rank);
    query_up_.emplace(b.child("query_up"), Linear::Spec{c.q_rank, {{q, 1}}, false, formula.reparam});
  }
}

void LatentAttention::rotate(Context& context, const ops::Columns& x, int64_t heads, int64_t head_dim,
                             const AttentionPass& pass) const {
  PLUMB_CHECK(pass.rotary.cos.defined() && pass.rotary.rotary_dim == rope_dim_);
  ops::rope(context, {.x = x,
                      .heads = heads,
                      .head_dim = head_dim,
                      .rotary_dim = rope_dim_,
                      .interleaved = interleaved_,
                      .cos = pass.rotary.cos,
                      .sin = pass.rotary.sin,
                      .positions = pass.tokens->positions});
}

Tensor LatentAttention::queries(Context& context, const Tensor& x, const AttentionPass& pass) const {
  Tensor q;
  if (query_) {
    q = query_->forward(context, x);
  } else {
    q = query_up_->forward(context, query_norm_->forward(context, query_down_->forward(context, x)));
  }
  if (closely(context)) observe(context, name_, "query", q.clone());     // it is rotated in place
  rotate(context, {q, head_dim_ - rope_dim_}, heads_, head_dim_, pass);  // the last dims of each head
  return q;
}

LatentAttention::Latent LatentAttention::latents(Context& context, const Tensor& x,
                                                 const AttentionPass& pass) const {
  const auto parts = ops::split_columns(context, down_.forward(context, x), {rank_, rope_dim_});
  rotate(context, {parts[1], 0}, 1, rope_dim_, pass);
  return {norm_.forward(context, parts[0]), parts[1]};
}

// Puts this pass's latents behind those of the cache; all of them.
LatentAttention::Latent LatentAttention::with_cached(const Latent& fresh, const AttentionPass& pass) const {
  LayerCache& cache = *pass.cache;
  const int64_t batch = pass.tokens->batch, length = pass.tokens->length, slots = pass.slot_mask.size(1);
  if (!cache.k.defined()) {
    cache.k = Tensor::empty({batch, slots, rank_});
    cache.v = Tensor::empty({batch, slots, rope_dim_});
  }
  for (const auto& [from, to] : {std::pair(fresh.latent, cache.k), std::pair(fresh.key, cache.v)}) {
    const int64_t width = from.width();
    for (int64_t b = 0; b < batch; ++b) {
      std::copy_n(from.f32() + b * length * width, length * width,
                  to.f32() + (b * slots + pass.cached) * width);
    }
  }
  return {first_rows(cache.k, pass.cached + length), first_rows(cache.v, pass.cached + length)};
}

Tensor LatentAttention::forward(Context& context, const Tensor& x, const AttentionPass& pass) const {
  const Tensor q = queries(context, x, pass);
  Latent all = latents(context, x, pass);
  if (pass.cache) all = with_cached(all, pass);
  const int64_t cached = pass.cache ? pass.cached : 0, keys = all.latent.size(1);
  const ops::LatentKeys kv =
      ops::latent_heads(context, up_.forward(context, all.latent), all.key,
                        {.heads = heads_, .plain = head_dim_ - rope_dim_, .value = value_dim_});
  ops::AttentionInput in{.q = {q, 0}, .k = {kv.k, 0}, .v = {kv.v, 0}};
  in.shape = {.batch = pass.tokens->batch,
              .queries = pass.tokens->length,
              .keys = keys,
              .heads = heads_,
              .kv_heads = heads_,
              .head_dim = head_dim_,
              .value_dim = value_dim_,
              .scale = static_cast<float>(scale_),
              .causal = pass.causal,
              .first_query = cached,
              .window = window_,
              .dropout = context.training ? static_cast<float>(dropout_) : 0.0f,
              .dropout_key = context.dropout_key(dropout_site_)};
  in.key_mask = pass.cache ? pass.slot_mask : pass.tokens->mask;
  in.first_keys = pass.tokens->starts;
  observe_closely(context, name_, "key", kv.k);
  observe_closely(context, name_, "value", kv.v);
  if (!pass.cache) {
    observe_closely(context, name_, "q", q);
    observe_closely(context, name_, "k", kv.k);
  }
  if (context.observer && !context.again) context.observer->attention(name_, in);
  const Tensor heads = ops::attention(context, in);
  observe_closely(context, name_, "heads", heads);
  return output_.forward(context, heads);
}

}  // namespace plumb
