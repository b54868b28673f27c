// START HERE. The whole model: embeddings, an optional encoder, an optional decoder, a head.
//
//   ids -> embedding (+ positions, types) -> encoder stack -> head            encoder-only
//   ids -> embedding (+ positions)        -> decoder stack -> head            decoder-only
//   both, the decoder reading the encoder's output by cross-attention         encoder-decoder
//
// The same code trains and runs: inference is the forward pass without a tape and with a cache.
// Threads: a pass may run on any thread; passes that record or use one cache want the model alone.
#pragma once

#include <optional>

#include "model/classifier.h"
#include "nn/cache.h"
#include "nn/stack.h"
#include "ops/loss.h"

namespace plumb {

// Token ids of a batch with what is known of them. Tensors that are undefined mean "none".
struct Tokens {
  Tensor ids;    // (B, T) i32
  Tensor mask;   // (B, T) u8: 1 real, 0 padding
  Tensor types;  // (B, T) i32
  // (B, T) i32: where the text begins that a position belongs to, of rows that texts are packed into;
  // decoders only.
  Tensor starts;
};

class Transformer {
 public:
  // Throws Error(config) where validate() does. Values are undefined until initialize() or a loader sets
  // them.
  explicit Transformer(const ModelConfig& config);

  const ModelConfig& config() const { return config_; }
  ParameterTable& parameters() { return table_; }
  const ParameterTable& parameters() const { return table_; }

  // Hidden states: of each layer's input and of the stack's output.
  using Hidden = std::vector<Tensor>;

  // The encoder's output (B, S, C). Throws Error(input) for ids or lengths the model has no rows for.
  Tensor encode(Context& context, const Tokens& tokens, Hidden* hidden = nullptr) const;
  // The decoder's output (B, T, C), or (B, T, embedding_width) where there is one; memory from encode() where
  // there is an encoder.
  Tensor decode(Context& context, const Tokens& tokens, const Tensor& memory = {},
                const Tensor& memory_mask = {}, Hidden* hidden = nullptr) const;
  // The same for tokens that follow what `cache` holds, which it then holds too. The first tokens of an
  // encoder-decoder need cache.memory.
  Tensor decode_next(Context& context, const Tokens& tokens, Cache& cache) const;
  Cache make_cache(int64_t batch, int64_t slots) const;

  // Logits (..., V) of hidden states (..., C).
  Tensor logits(Context& context, const Tensor& hidden) const;
  // The loss of hidden states (..., C) against targets (N) i32, and its gradient where the context records.
  LossSums loss(Context& context, const Tensor& hidden, const Tensor& targets,
                const ops::LossOptions& options) const;
  // The head in place of these where it tells classes.
  const Classifier& classifier() const;

 private:
  Tensor embed(Context& context, Side side, const Tokens& tokens, const Sequence& sequence) const;
  Tensor looked_up(Context& context, Side side, const Tokens& tokens, const Sequence& sequence) const;
  Tensor before_head(Context& context, const Tensor& hidden) const;
  void show_logits(const Context& context, const Tensor& hidden, const Tensor& targets) const;
  ops::Head head() const;
  int64_t rotary_regime(int64_t length) const;
  Tensor decode_again(Context& context, const Tokens& tokens, Cache& cache) const;
  void scale_parameters();
  void check(const Tokens& tokens, Side side, int64_t before) const;

  ModelConfig config_;
  ParameterTable table_;
  uint64_t next_site_ = 0;
  std::vector<int64_t> long_from_;  // lengths beyond which LongRoPE's layers have other frequencies
  Parameter *encoder_tokens_ = nullptr, *decoder_tokens_ = nullptr;  // (V, C), one where shared
  std::optional<Linear> embedding_in_, embedding_out_;               // where token tables are narrower
  Parameter *encoder_positions_ = nullptr,
            *decoder_positions_ = nullptr;  // (position_offset + max_length, C), learned
  Tensor sinusoids_;                        // (max_length, C)
  Parameter* token_types_ = nullptr;
  std::optional<Norm> encoder_embedding_norm_, decoder_embedding_norm_;
  std::optional<Stack> encoder_, decoder_;
  std::optional<Classifier> classifier_;
  std::optional<Linear> head_dense_;
  std::optional<Norm> head_norm_;
  std::optional<ColumnScale> logits_scale_;  // (V)
  Parameter *head_ = nullptr, *head_bias_ = nullptr, *logits_bias_ = nullptr;
};

}  // namespace plumb
