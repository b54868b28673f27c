#include "nn/stack.h"

#include <algorithm>

#include "ops/embedding.h"
#include "ops/streams.h"

namespace plumb {
namespace {

// Gives what arrived at a result to the tensor that was made again; nothing where it and all below are
// frozen.
void hand_gradient(const std::shared_ptr<Gradient>& from, const Tensor& to) {
  if (!arrived(from) || !to.requires_grad()) return;
  to.gradient()->value = std::move(from->value);
  to.gradient()->written = true;
}

}  // namespace

Stack::Stack(const Builder& b, Side side) : side_(side), name_(b.prefix) {
  const int64_t count = side == Side::encoder ? b.config.encoder_layers : b.config.decoder_layers;
  for (int64_t i = 0; i < count; ++i) layers_.emplace_back(b.child(std::to_string(i)), side, i);
  add_rotary(b);
  if (has_final_norm(b.config, side)) {
    final_norm_.emplace(b.child("final_norm"), resolved_layer(b.config, side, count - 1), b.config.width);
  }
  dual_ = sublayer_formula(b.config, side, 0).dual;
  streams_ = sublayer_formula(b.config, side, 0).streams;
}

void Stack::add_rotary(const Builder& b) {
  rotary_of_.reserve(layers_.size());
  for (size_t i = 0; i < layers_.size(); ++i) {
    const LayerConfig c = resolved_layer(b.config, side_, static_cast<int64_t>(i));
    if (b.config.positions != Positions::rope || !c.rotary) {
      rotary_of_.push_back(-1);
      continue;
    }
    const auto it = std::ranges::find_if(rotary_, [&](const Rotary& r) { return r.fits(c); });
    rotary_of_.push_back(it - rotary_.begin());
    if (it == rotary_.end()) rotary_.emplace_back(c);
  }
}

// For the longest sequence of the batch.
std::vector<RotaryTable> Stack::rotary_tables(const Sequence& tokens) const {
  std::vector<RotaryTable> tables;
  if (rotary_.empty()) return tables;
  tables.reserve(rotary_.size());
  for (const Rotary& r : rotary_) tables.push_back(r.table(tokens.longest()));
  return tables;
}

AttentionPass Stack::attention_pass(const StackPass& pass, int64_t layer,
                                    const std::vector<RotaryTable>& rotary) const {
  AttentionPass a{.tokens = &pass.tokens,
                  .causal = side_ == Side::decoder,
                  .rotary = rotary_of_[layer] < 0 ? RotaryTable{} : rotary[rotary_of_[layer]]};
  a.memory = pass.memory;
  a.memory_mask = pass.memory_mask;
  if (pass.cache) {
    a.cache = &pass.cache->layers[layer];
    a.cached = pass.cache->length;
    a.slot_mask = pass.cache->mask;
  }
  return a;
}

// Keeps the layer's input alone, and runs the layer again when its gradient is due (Chen 2016, 1604.06174).
void Stack::recomputed(Context& context, Stream& stream, const Layer& layer,
                       const AttentionPass& pass) const {
  const Stream::State x = stream.state(context);
  Context first = context;
  first.tape = nullptr;
  Stream once(x);
  layer.forward(first, once, pass);
  Stream::State y = once.state(first);
  for (Tensor* t : {&y.value, &y.sum}) {
    if (!t->defined()) continue;
    *t = t->without_grad();
    t->set_requires_grad();
  }
  stream = Stream(y);
  context.tape->record([context, x, &layer, pass = AttentionPass(pass), tokens = *pass.tokens,
                        value = y.value.gradient(), sum = y.sum.gradient()]() mutable {
    if (!arrived(value) && !arrived(sum)) return;
    Tape tape;
    Context again = context;
    again.tape = &tape;
    again.again = true;
    pass.tokens = &tokens;
    Stream twice(x);
    layer.forward(again, twice, pass);
    const Stream::State out = twice.state(again);
    hand_gradient(value, out.value);
    hand_gradient(sum, out.sum);
    tape.backward();
  });
}

bool Stack::is_dropped(const Context& context, int64_t layer) const {
  return context.dropped && context.dropped->layer == layer && context.dropped->stack == name_;
}

// Of several streams their mean. The papers sum them, and the final norm forgets the factor; the mean is
// pre-norm's stream at the start also where a norm's eps counts or there is none.
Tensor Stack::merged(Context& context, Stream& stream) const {
  const Tensor x = stream.value(context);
  return streams_ == 1 ? x : ops::mean_of_streams(context, x, streams_);
}

// What the head reads: the last norm of the stream, or ResiDual's x + N(r).
Tensor Stack::close(Context& context, Stream& stream, const Tensor& row_mask) const {
  if (streams_ > 1) stream.replace(merged(context, stream));
  if (!final_norm_) return stream.value(context);
  if (!stream.sum().defined()) return stream.normed(context, *final_norm_, 1, row_mask);
  return ops::add(context, stream.value(context), final_norm_->forward(context, stream.sum(), 1, row_mask));
}

Tensor Stack::forward(Context& context, const Tensor& x, const StackPass& pass) const {
  Stream stream(x);
  if (context.observer) context.observer->sequence(name_, pass.tokens.mask);
  if (dual_ != 0) stream.start_sum(context, dual_);
  if (streams_ > 1) stream.replace(ops::replicate(context, x, streams_));
  const std::vector<RotaryTable> rotary = rotary_tables(pass.tokens);
  for (size_t i = 0; i < layers_.size(); ++i) {
    if (pass.hidden) pass.hidden->push_back(merged(context, stream));
    if (is_dropped(context, static_cast<int64_t>(i))) continue;
    const AttentionPass attention = attention_pass(pass, static_cast<int64_t>(i), rotary);
    if (context.tape && context.recompute) {
      recomputed(context, stream, layers_[i], attention);
    } else {
      layers_[i].forward(context, stream, attention);
    }
  }
  if (context.observer) observe(context, name_, "output", stream.value(context));
  Tensor y = close(context, stream, pass.tokens.mask);
  observe_closely(context, name_, "final", y);
  if (pass.hidden) pass.hidden->push_back(y);
  return y;
}

}  // namespace plumb
