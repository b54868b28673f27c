// One layer: self-attention, cross-attention where there is an encoder to read, feed-forward or experts.
#pragma once

#include <optional>

#include "nn/attention.h"
#include "nn/experts.h"
#include "nn/latent_attention.h"
#include "nn/sublayer.h"

namespace plumb {

class Layer {
 public:
  Layer(const Builder& b, Side side, int64_t index);

  void forward(Context& context, Stream& x, const AttentionPass& pass) const;

 private:
  Tensor attend(Context& context, const Tensor& x, const AttentionPass& pass) const;
  Tensor transform(Context& context, const Tensor& x, const Sequence& tokens) const;

  Parallel parallel_;
  Sublayer attend_;
  std::optional<MultiHeadAttention> attention_;
  std::optional<LatentAttention> latent_attention_;  // one of the two
  std::optional<Sublayer> attend_memory_;
  std::optional<MultiHeadAttention> cross_attention_;
  std::optional<Sublayer> transform_;  // absent where the feed-forward shares the attention's norm
  std::optional<FeedForward> feed_forward_;
  std::optional<Experts> experts_;
};

}  // namespace plumb
