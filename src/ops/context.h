// What every op and module is called with: how this pass computes, and whether it is recorded.
#pragma once

#include <cstdint>
#include <string>

#include "base/random.h"
#include "ops/tape.h"

namespace plumb {

// A point of the model that can be watched, e.g. {"decoder.3.feed_forward", "branch"}. Every observer sees of
// a sub-layer "stream" (the residual stream as it receives it; several side by side, (B, T, n C)) and
// "branch" (N_branch(F), before g), and of a stack "output" (the stream that leaves its last layer). One that
// watches closely sees as well
//   of a sub-layer   "read" (H_pre x, where there are several streams), "input" (s N_in(x)), "raw" (F
//   itself),
//                    "sum" (before N_out, where it has one), "output";
//   of attention     "query", "key", "value" (as projected), "q", "k" (as they meet: normed and rotated),
//                    "heads" (before the output projection and its "inner" norm, shown where there is one);
//   of feed-forward  "gate", "up", and "hidden" and "inner" (around the inner norm, where there is one);
//   of a stack       "embedding" (before its norm) and "final" (what the head or the decoder reads);
//   of the head      "hidden" and "inner", around its norm, where there is one.
struct Site {
  const std::string& module;
  const char* quantity;
};

namespace ops {
struct AttentionInput;
struct Balance;
}  // namespace ops

// Sees tensors as they are made, and their gradients as they arrive. Called on the thread that runs the pass;
// must not change what it sees.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual bool closely() const { return false; }
  virtual void forward(const Site& site, const Tensor& value) = 0;                           // (B, T, C)
  virtual void backward(const Site& site, const Tensor& value, const Tensor& gradient) = 0;  // both (B, T, C)

  // What is no tensor of the stream; an observer that has no use for one leaves it.
  // A stack begins: (B, T) u8, 1 where there is a real token; undefined where all are.
  virtual void sequence(const std::string& /*stack*/, const Tensor& /*mask*/) {}
  // A sub-layer mixes several streams: x (B, T, n C) as it receives them, and H_res of each row, (B T, n, n).
  virtual void streams(const std::string& /*module*/, const Tensor& /*x*/, const Tensor& /*res*/) {}
  // What an attention is about to read, queries and keys as they meet. Not to be kept.
  virtual void attention(const std::string& /*module*/, const ops::AttentionInput& /*input*/) {}
  // Of a layer's experts, (R, E): a row for each real token.
  virtual void router(const std::string& /*module*/, const Tensor& /*logits*/) {}
  virtual void logits(const Tensor& /*logits*/) {}  // (N, V): of each row, or of some that have a target
};

// A layer that a pass leaves out, as if it were not there: {"decoder", 3}.
struct DroppedLayer {
  std::string stack;
  int64_t layer = 0;
};

struct Context {
  Tape* tape = nullptr;          // null: nothing is recorded
  bool training = false;         // dropout on, batch statistics of this batch
  bool plain = false;            // the plain composition in place of fused kernels
  bool recompute = false;        // layers keep their input alone, and run again in the backward pass
  bool again = false;            // this is such a second run: statistics and observers had their turn
  DType compute = DType::f32;    // dtype of products: f32, or bf16 with f32 sums
  RandomKey random;              // of this pass: seed, and a stream that differs by step and micro-batch
  Observer* observer = nullptr;  // null: nothing is watched, nothing allocated
  const DroppedLayer* dropped = nullptr;  // null: every layer runs
  ops::Balance* balance = nullptr;        // the experts' load-balancing loss of this pass, or null: none

  bool records(const Tensor& t) const { return tape && t.requires_grad(); }
  // The random stream of one dropout site in this pass: the same in a recomputed forward.
  RandomKey dropout_key(uint64_t site) const { return {random.seed, random_stream(random.stream, site)}; }
};

// Shows `value` to the observer now and its gradient when it is complete. Call before the value's first use.
void observe(Context& context, const std::string& module, const char* quantity, const Tensor& value);

// The same for what only a close observer sees.
inline bool closely(const Context& context) {
  return context.observer && context.observer->closely();
}
inline void observe_closely(Context& context, const std::string& module, const char* quantity,
                            const Tensor& value) {
  if (closely(context)) observe(context, module, quantity, value);
}

}  // namespace plumb
