#include "model/batch_pass.h"

namespace plumb {
namespace {

// Batches outlive the passes over them: tensors are views of their arrays.
template <class T>
Tensor view(int64_t rows, int64_t length, const std::vector<T>& values) {
  PLUMB_CHECK(rows * length == static_cast<int64_t>(values.size()), "{} values for ({}, {})", values.size(),
              rows, length);
  return Tensor::view({rows, length}, DTypeOf<T>::value, const_cast<T*>(values.data()), nullptr);
}

}  // namespace

Tensor batch_hidden(Context& context, const Transformer& model, const Batch& b) {
  Tokens tokens{.ids = view(b.rows, b.length, b.ids), .mask = view(b.rows, b.length, b.mask)};
  if (!b.starts.empty()) tokens.starts = view(b.rows, b.length, b.starts);
  if (!model.config().has_encoder()) return model.decode(context, tokens);
  Tensor memory = model.encode(context, tokens);
  if (!model.config().has_decoder()) return memory;
  const Tokens shifted{.ids = view(b.rows, b.decoder_length, b.decoder_ids),
                       .mask = view(b.rows, b.decoder_length, b.decoder_mask)};
  return model.decode(context, shifted, memory, tokens.mask);
}

LossSums batch_loss(Context& context, const Transformer& model, const Batch& b,
                    const ops::LossOptions& options) {
  const Tensor hidden = batch_hidden(context, model, b);
  const int64_t length = b.decoder_length > 0 ? b.decoder_length : b.length;
  const Tensor targets = view(b.rows, length, b.targets).reshape({b.rows * length});
  return model.loss(context, hidden, targets, options);
}

}  // namespace plumb
