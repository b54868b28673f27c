#include "train/evaluate.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numbers>

#include "model/run_observer.h"
#include "plumb/error.h"
#include "train/pass.h"

namespace plumb {
namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

int32_t likeliest(const float* logits, int64_t vocabulary) {
  return static_cast<int32_t>(std::max_element(logits, logits + vocabulary) - logits);
}

// Bytes of the text whose tokens are targets, in order.
class ByteCount {
 public:
  explicit ByteCount(const Tokenizer& tokenizer) : decoder_(tokenizer.stream_decoder()) {}

  void add(const Batch& b) {
    for (const int32_t id : b.targets) {
      if (id != kIgnoreTarget) bytes_ += decoder_.add(id).size();
    }
  }
  double finish() { return static_cast<double>(bytes_ += decoder_.finish().size()); }

 private:
  StreamDecoder decoder_;
  size_t bytes_ = 0;
};

}  // namespace

int64_t exact_rows(const Transformer& model, const Batch& b, DType compute) {
  Context context{.compute = compute};
  const Tokens source{.ids = Tensor::of<int32_t>({b.rows, b.length}, b.ids),
                      .mask = Tensor::of<uint8_t>({b.rows, b.length}, b.mask)};
  Cache cache = model.make_cache(b.rows, b.decoder_length);
  cache.memory = model.encode(context, source);
  cache.memory_mask = source.mask;

  std::vector<bool> exact(b.rows, true);
  const Tensor next = Tensor::empty({b.rows, 1}, DType::i32);
  for (int64_t r = 0; r < b.rows; ++r) next.data<int32_t>()[r] = b.decoder_ids[r * b.decoder_length];
  for (int64_t t = 0; t < b.decoder_length; ++t) {
    const Tensor logits = model.logits(context, model.decode_next(context, {.ids = next}, cache));
    for (int64_t r = 0; r < b.rows; ++r) {
      const int32_t id = likeliest(logits.f32() + r * logits.width(), logits.width());
      const int32_t target = b.targets[r * b.decoder_length + t];
      if (target != kIgnoreTarget && target != id) exact[r] = false;
      next.data<int32_t>()[r] = id;
    }
  }
  return std::count(exact.begin(), exact.end(), true);
}

Evaluation evaluate(const Model& model, const Dataset& data, const EvaluationOptions& o) {
  const double start = now();
  const Transformer& transformer = model.transformer();
  const DType compute = o.dtype == Precision::bf16 ? DType::bf16 : DType::f32;
  const bool text = data.kind() == DatasetKind::language_model;
  const bool sequences = data.kind() == DatasetKind::sequence_to_sequence;
  ByteCount bytes(data.tokenizer());
  LossSums sums;
  int64_t exact = 0, rows = 0;
  const int64_t count = data.evaluation_batches(o.split, o.batch, o.length, o.batches);
  for (int64_t i = 0; i < count; ++i) {
    const Batch b = data.evaluation_batch(o.split, i, o.batch, o.length);
    const bool watched = o.observer && o.observer->wants_pass();
    Context context{.compute = compute, .observer = watched ? o.observer : nullptr};
    const LossSums own = batch_loss(context, transformer, b, {});
    if (watched) {
      o.observer->finish_pass(own.count > 0 ? std::optional(own.nll / static_cast<double>(own.count))
                                            : std::nullopt);
    }
    sums += own;
    if (text) bytes.add(b);
    if (sequences) exact += exact_rows(transformer, b, compute);
    rows += b.rows;
  }
  if (sums.count == 0) {
    throw Error(ErrorKind::input, "there is nothing to evaluate on: that part of the data (" +
                                      data.describe() +
                                      ") has no target; hold out more text with --held-out");
  }
  const auto targets = static_cast<double>(sums.count);
  Evaluation e{.loss = sums.nll / targets,
               .perplexity = std::exp(sums.nll / targets),
               .accuracy = static_cast<double>(sums.correct) / targets,
               .targets = sums.count};
  if (const double n = bytes.finish(); text && n > 0) e.bits_per_byte = sums.nll / (n * std::numbers::ln2);
  if (sequences) e.exact = static_cast<double>(exact) / static_cast<double>(rows);
  e.seconds = now() - start;
  return e;
}

}  // namespace plumb
