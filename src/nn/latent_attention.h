// Multi-head latent attention: keys and values are maps of a narrow latent of each token, which is all that a
// cache has to hold of it beside one rotated key that the heads share.
//   DeepSeek-V2, 2405.04434, section 2.1. Letters: R the latent's width (kv_rank), P = D - rope_dim the dims
//   of a key that come from the latent, V the width of a value.
#pragma once

#include "nn/attention.h"

namespace plumb {

class LatentAttention {
 public:
  LatentAttention(const Builder& b, const LayerConfig& c, const SublayerFormula& formula);

  Tensor forward(Context& context, const Tensor& x,
                 const AttentionPass& pass) const;  // (B, T, C) to the same

 private:
  // What a cache holds of a token: the normed latent (B, S, R) and the rotated key (B, S, rope_dim).
  struct Latent {
    Tensor latent, key;
  };
  Tensor queries(Context& context, const Tensor& x, const AttentionPass& pass) const;  // (B, T, H * D)
  Latent latents(Context& context, const Tensor& x, const AttentionPass& pass) const;
  Latent with_cached(const Latent& fresh, const AttentionPass& pass) const;
  void rotate(Context& context, const ops::Columns& x, int64_t heads, int64_t head_dim,
              const AttentionPass& pass) const;

  std::string name_;
  int64_t heads_, head_dim_, rope_dim_, value_dim_, rank_, window_;
  bool interleaved_;
  double scale_, dropout_;
  uint64_t dropout_site_;
  std::optional<Linear> query_;  // or through a latent of its own
  std::optional<Linear> query_down_, query_up_;
  std::optional<Norm> query_norm_;
  Linear down_;  // to R + rope_dim
  Norm norm_;    // of the latent
  Linear up_;    // to H (P + V), head by head
  Linear output_;
};

}  // namespace plumb
