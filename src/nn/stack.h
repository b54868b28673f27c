// The layers of an encoder or a decoder and the norm behind the last.
#pragma once

#include <deque>

#include "nn/layer.h"

namespace plumb {

struct StackPass {
  Sequence tokens;
  Cache* cache = nullptr;                 // decoder only
  Tensor memory, memory_mask;             // encoder's output, for a decoder that reads one
  std::vector<Tensor>* hidden = nullptr;  // collects the input of each layer and the stack's output
};

class Stack {
 public:
  Stack(const Builder& b, Side side);

  // x (B, T, C): embeddings in, what the head reads out.
  Tensor forward(Context& context, const Tensor& x, const StackPass& pass) const;

 private:
  void add_rotary(const Builder& b);
  bool is_dropped(const Context& context, int64_t layer) const;
  std::vector<RotaryTable> rotary_tables(const Sequence& tokens) const;
  AttentionPass attention_pass(const StackPass& pass, int64_t layer,
                               const std::vector<RotaryTable>& rotary) const;
  Tensor merged(Context& context, Stream& stream) const;
  Tensor close(Context& context, Stream& stream, const Tensor& row_mask) const;
  void recomputed(Context& context, Stream& stream, const Layer& layer, const AttentionPass& pass) const;

  Side side_;
  // Of layers with the same head_dim and RopeConfig one, and which of them each layer reads (-1: none).
  std::deque<Rotary> rotary_;
  std::vector<int64_t> rotary_of_;
  std::deque<Layer> layers_;
  std::optional<Norm> final_norm_;
  double dual_ = 0;  // factor of the second stream
  int64_t streams_ = 1;
  std::string name_;
};

}  // namespace plumb
