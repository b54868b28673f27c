// Greedy decoding of an encoder-decoder, as far as an evaluation needs it.
#pragma once

#include "model/transformer.h"
#include "plumb/dataset.h"

namespace plumb {

// Rows of the batch whose greedy continuation from the start token is exactly their targets, up to the end of
// the target; cached, all rows together.
int64_t exact_rows(const Transformer& model, const Batch& batch, DType compute);

}  // namespace plumb
