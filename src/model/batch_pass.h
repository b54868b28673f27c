// Batches through a model of any kind, to the hidden states and the loss.
#pragma once

#include "model/transformer.h"
#include "plumb/dataset.h"

namespace plumb {

// A batch's loss sums. Where the context records, its tape then holds what backward() needs.
LossSums batch_loss(Context& context, const Transformer& model, const Batch& batch,
                    const ops::LossOptions& options);

// Final hidden states (B, T, C), or (B, U, C) of the decoder that reads the encoder.
Tensor batch_hidden(Context& context, const Transformer& model, const Batch& batch);

}  // namespace plumb
