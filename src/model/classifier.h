// A head over classes: what a sequence is, what each of its tokens is, or where in it an answer stands.
#pragma once

#include "nn/builder.h"
#include "ops/loss.h"

namespace plumb {

// What the scores are trained on: classes or values, or starts and ends.
struct ClassTargets {
  Tensor classes;       // i32, (B) of sequences or (B, T) of tokens; kIgnore: none
  Tensor values;        // f32 (B, n), of sequences: 0 or 1 for each class, or numbers
  Tensor starts, ends;  // i32 (B): the first and last token of the answer; outside of the sequence: none

  int64_t terms() const;  // what the loss sums over: targets, values, or two of each answer
};

int64_t class_count(const ModelConfig& config);  // n: labels, or 2 of an answer

class Classifier {
 public:
  Classifier(const Builder& b, int64_t inputs);

  // Of hidden states (B, T, C): scores (B, n) of sequences, (B, T, n) of tokens, (B, T, 2) of answers. ids
  // and mask as in Tokens. A sequence is judged by its last token that is not the padding token. Throws
  // Error(input) where sequences are padded and the model has no such token.
  Tensor scores(Context& context, const Tensor& hidden, const Tensor& ids, const Tensor& mask) const;

  // The sum of the terms; where the context records, the gradient of scale * sum. Throws Error(input) for
  // targets of another kind or size.
  LossSums loss(Context& context, const Tensor& scores, const ClassTargets& targets, double scale) const;

 private:
  Tensor ends(const Tensor& ids, const Tensor& mask) const;  // (B) i32
  LossSums of_sequences(Context& context, const Tensor& scores, const ClassTargets& targets,
                        double scale) const;
  void check_classes(const Tensor& classes, int64_t count, int64_t bound) const;

  Head head_;
  Problem problem_;
  int64_t pad_id_;
  double dropout_;
  uint64_t site_;
  Parameter* weight_;          // (n, C)
  Parameter* bias_ = nullptr;  // (n)
};

}  // namespace plumb
