// Multi-head attention over the sequence itself or over an encoder's output, with grouped keys and values,
// norms on queries and keys, rotary positions, ALiBi, windows, caps, sinks and a cache.
//   Vaswani 2017, 1706.03762; GQA: Ainslie 2023, 2305.13245; ALiBi: Press 2021, 2108.12409.
#pragma once

#include <optional>

#include "nn/cache.h"
#include "nn/column_scale.h"
#include "nn/linear.h"
#include "nn/norm.h"
#include "nn/rotary.h"
#include "nn/sequence.h"
#include "ops/attention.h"

namespace plumb {

struct AttentionPass {
  const Sequence* tokens = nullptr;
  bool causal = false;
  RotaryTable rotary;  // undefined: none
  // Self-attention with a cache: its layer, how many slots were filled, and the mask over all slots.
  LayerCache* cache = nullptr;
  int64_t cached = 0;
  Tensor slot_mask;  // (B, capacity) u8
  // Cross-attention: the encoder's output and mask.
  Tensor memory;       // (B, S, C)
  Tensor memory_mask;  // (B, S) u8 or undefined
};

class MultiHeadAttention {
 public:
  enum class Kind { self, cross };
  MultiHeadAttention(const Builder& b, const LayerConfig& c, const SublayerFormula& formula, Kind kind);

  Tensor forward(Context& context, const Tensor& x,
                 const AttentionPass& pass) const;  // (B, T, C) to the same

 private:
  struct Projected {
    ops::Columns q, k, v;
  };
  Projected project_self(Context& context, const Tensor& x, const AttentionPass& pass) const;
  Projected project_cross(Context& context, const Tensor& x, const AttentionPass& pass) const;
  void rotate(Context& context, Projected& p, const AttentionPass& pass) const;
  struct HeadNorm {
    std::optional<Norm> norm;
    Parameter* gains = nullptr;  // (heads, D), where each head has its own
  };
  HeadNorm head_norm(const Builder& b, const LayerConfig& c, int64_t heads) const;
  Tensor head_normed(Context& context, const Tensor& x, const HeadNorm& norm, int64_t heads) const;
  bool normed_first() const { return query_norm_.norm && !qk_norm_late_; }
  Tensor limited(Context& context, const Tensor& x) const;
  Tensor projected(Context& context, const Tensor& x) const;
  void append(Projected& p, const AttentionPass& pass) const;
  void show(Context& context, const char* quantity, const ops::Columns& x, int64_t heads) const;

  std::string name_;
  Kind kind_;
  int64_t heads_, kv_heads_, head_dim_, window_;
  QkNorm qk_norm_;
  bool qk_norm_late_, rotary_, interleaved_;
  double scale_, softcap_, limit_, dropout_;
  uint64_t dropout_site_;
  Tensor alibi_slopes_;                        // (H) or undefined
  std::optional<Linear> qkv_;                  // fused
  std::optional<Linear> query_, key_, value_;  // or apart
  HeadNorm query_norm_, key_norm_;
  std::optional<Norm> norm_inner_;
  std::optional<ColumnScale> query_scale_;  // (H D)
  Parameter* head_scale_ = nullptr;         // (H)
  Parameter* sinks_ = nullptr;              // (H)
  std::optional<Linear> output_;
};

// Of each head what a step of distance takes from its logits: 2^(-alibi_max i / H) for i = 1 .. H where H is
// a power of two, and the published interpolation elsewhere. Where alibi_scaled: rounded to bf16, times the
// attention's scale, and twice, as Falcon's reference has it. `c` is resolved.
std::vector<float> alibi_slopes(const ModelConfig& config, const LayerConfig& c);

}  // namespace plumb
