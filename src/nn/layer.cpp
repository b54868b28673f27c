#include "nn/layer.h"

#include "nn/depth.h"
#include "ops/embedding.h"

namespace plumb {
namespace {

// Of a layer's first sub-layer, its last, or the one between.
int64_t order_of(const ModelConfig& config, Side side, int64_t index, SublayerPart part) {
  const int64_t count = sublayers_of_layer(config, side);
  const int64_t before = part == SublayerPart::attention         ? 0
                         : part == SublayerPart::cross_attention ? 1
                                                                 : count - 1;
  return count * index + before;
}

}  // namespace

Layer::Layer(const Builder& b, Side side, int64_t index)
    : parallel_(layer_config(b.config, side, index).parallel),
      attend_(b.child("attention"), resolved_layer(b.config, side, index),
              sublayer_formula(b.config, side, index),
              order_of(b.config, side, index, SublayerPart::attention)) {
  const LayerConfig c = resolved_layer(b.config, side, index);
  const SublayerFormula of_attention = sublayer_formula(b.config, side, index);
  if (c.kv_rank > 0) {
    latent_attention_.emplace(b.child("attention"), c, of_attention);
  } else {
    attention_.emplace(b.child("attention"), c, of_attention, MultiHeadAttention::Kind::self);
  }
  if (side == Side::decoder && b.config.has_encoder()) {
    const SublayerFormula cross = sublayer_formula(b.config, side, index, SublayerPart::cross_attention);
    attend_memory_.emplace(b.child("cross_attention"), c, cross,
                           order_of(b.config, side, index, SublayerPart::cross_attention));
    cross_attention_.emplace(b.child("cross_attention"), c, cross, MultiHeadAttention::Kind::cross);
  }
  const SublayerFormula formula = sublayer_formula(b.config, side, index, SublayerPart::feed_forward);
  const Builder ffn = b.child("feed_forward");
  if (parallel_ != Parallel::one_norm) {
    SublayerFormula own = formula;
    if (parallel_ == Parallel::two_norms) {  // one add for both: only the input norm is its own
      own = {.norm_in = formula.norm_in, .s = formula.s};
    }
    transform_.emplace(ffn, c, own, order_of(b.config, side, index, SublayerPart::feed_forward));
  }
  if (c.experts > 0) {
    experts_.emplace(ffn, c, formula);
  } else {
    feed_forward_.emplace(ffn, c, formula, c.ffn_width);
  }
}

Tensor Layer::attend(Context& context, const Tensor& x, const AttentionPass& pass) const {
  return attention_ ? attention_->forward(context, x, pass) : latent_attention_->forward(context, x, pass);
}

Tensor Layer::transform(Context& context, const Tensor& x, const Sequence& tokens) const {
  return experts_ ? experts_->forward(context, x, tokens) : feed_forward_->forward(context, x);
}

void Layer::forward(Context& context, Stream& x, const AttentionPass& pass) const {
  const Tensor& mask = pass.tokens->mask;
  if (parallel_ == Parallel::no) {
    attend_.forward(
        context, x, [&](const Tensor& h) { return attend(context, h, pass); }, mask);
  } else {
    const auto both = [&](const Tensor& h) {
      const Tensor other = transform_ ? transform_->input(context, x, mask) : h;
      return ops::add(context, attend(context, h, pass), transform(context, other, *pass.tokens));
    };
    attend_.forward(context, x, both, mask);
  }
  if (cross_attention_) {
    attend_memory_->forward(
        context, x, [&](const Tensor& h) { return cross_attention_->forward(context, h, pass); }, mask);
  }
  if (parallel_ == Parallel::no) {
    transform_->forward(
        context, x, [&](const Tensor& h) { return transform(context, h, *pass.tokens); }, mask);
  }
}

}  // namespace plumb
