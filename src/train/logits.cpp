#include <algorithm>

#include "model/safetensors.h"
#include "plumb/error.h"
#include "plumb/trainer.h"
#include "train/pass.h"

namespace plumb {

void write_logits(const Model& model, const std::vector<int32_t>& ids,
                  const std::vector<int32_t>& decoder_ids, const std::string& path) {
  const ModelConfig& config = model.config();
  const bool both = config.has_encoder() && config.has_decoder();
  if (config.head != Head::language_model)
    throw Error(ErrorKind::unsupported, "the model has no head that gives logits");
  if (ids.empty() || decoder_ids.empty() == both) {
    throw Error(ErrorKind::usage, both ? "an encoder-decoder's logits need --ids and --decoder-ids"
                                       : "logits need --ids, and --decoder-ids are for encoder-decoders");
  }
  Batch b{.rows = 1, .length = static_cast<int64_t>(ids.size()), .ids = ids};
  b.mask.assign(ids.size(), 1);
  b.decoder_length = static_cast<int64_t>(decoder_ids.size());
  b.decoder_ids = decoder_ids;
  b.decoder_mask.assign(decoder_ids.size(), 1);
  Context context;
  const Tensor logits = model.transformer().logits(context, batch_hidden(context, model.transformer(), b));
  write_safetensors(path, {{"logits", logits}});
}

}  // namespace plumb
