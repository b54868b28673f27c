#include "model/classifier.h"

#include <fmt/format.h>

#include <algorithm>

#include "ops/embedding.h"
#include "ops/norm.h"
#include "plumb/error.h"

namespace plumb {
namespace {

// An answer's first or last tokens, as classes of T positions.
Tensor within(const Tensor& positions, int64_t batch, int64_t length, const char* name) {
  if (!positions.defined() || positions.numel() != batch)
    throw Error(ErrorKind::input, fmt::format("the targets lack the {} of {} answers", name, batch));
  Tensor t = positions.clone();
  for (int64_t b = 0; b < batch; ++b) {
    int32_t& p = t.data<int32_t>()[b];
    if (p < 0 || p >= length) p = kIgnore;
  }
  return t;
}

int64_t targets_in(const Tensor& t) {
  const int32_t* values = t.data<int32_t>();
  return t.numel() - std::count(values, values + t.numel(), kIgnore);
}

}  // namespace

int64_t ClassTargets::terms() const {
  if (classes.defined()) return targets_in(classes);
  if (values.defined()) return values.numel();
  return starts.defined() ? 2 * starts.numel() : 0;
}

int64_t class_count(const ModelConfig& config) {
  return config.head == Head::question_answering ? 2 : static_cast<int64_t>(config.labels.size());
}

Classifier::Classifier(const Builder& b, int64_t inputs)
    : head_(b.config.head),
      problem_(b.config.problem),
      pad_id_(b.config.pad_id),
      dropout_(b.config.head_dropout),
      site_(b.site()) {
  const int64_t classes = class_count(b.config);
  weight_ = b.table.add(
      {.name = b.name("weight"), .shape = {classes, inputs}, .init = {{classes, head_std(b.config)}}});
  if (b.config.head_bias)
    bias_ = b.table.add({.name = b.name("bias"), .shape = {classes}, .role = Role::bias});
}

Tensor Classifier::ends(const Tensor& ids, const Tensor& mask) const {
  const int64_t batch = ids.size(0), length = ids.size(1);
  if (pad_id_ < 0 && mask.defined()) {
    const uint8_t* m = mask.data<uint8_t>();
    if (std::any_of(m, m + mask.numel(), [](uint8_t real) { return real == 0; })) {
      throw Error(
          ErrorKind::input,
          "sequences are padded, and the model has no padding token (pad_id) that tells where they end");
    }
  }
  Tensor rows = Tensor::empty({batch}, DType::i32);
  for (int64_t b = 0; b < batch; ++b) {
    const int32_t* row = ids.data<int32_t>() + b * length;
    int64_t last = length - 1;
    while (last > 0 && row[last] == pad_id_) --last;
    rows.data<int32_t>()[b] = static_cast<int32_t>(b * length + last);
  }
  return rows;
}

Tensor Classifier::scores(Context& context, const Tensor& hidden, const Tensor& ids,
                          const Tensor& mask) const {
  Tensor x = hidden;
  if (head_ == Head::sequence_classification)
    x = ops::gather_rows(context, hidden.reshape({hidden.rows(), hidden.width()}), ends(ids, mask));
  x = ops::dropout(context, x, dropout_, site_);
  Tensor y = ops::linear(context, x, {weight_->value, bias_ ? bias_->value : Tensor(), false});
  if (context.observer) context.observer->logits(y.reshape({y.rows(), y.width()}));
  return y;
}

void Classifier::check_classes(const Tensor& classes, int64_t count, int64_t bound) const {
  if (!classes.defined() || classes.numel() != count) {
    throw Error(ErrorKind::input,
                fmt::format("there are {} targets for {} {}", classes.defined() ? classes.numel() : 0, count,
                            head_ == Head::token_classification ? "tokens" : "sequences"));
  }
  for (int64_t i = 0; i < count; ++i) {
    const int32_t c = classes.data<int32_t>()[i];
    if (c != kIgnore && (c < 0 || c >= bound))
      throw Error(ErrorKind::input, fmt::format("target {} is class {} of {}", i, c, bound));
  }
}

LossSums Classifier::of_sequences(Context& context, const Tensor& scores, const ClassTargets& targets,
                                  double scale) const {
  Problem problem = problem_;
  if (problem == Problem::by_targets) {
    const bool one = scores.width() == 1;
    problem = one                        ? Problem::regression
              : targets.values.defined() ? Problem::multi_label
                                         : Problem::single_label;
  }
  if (problem == Problem::single_label) {
    check_classes(targets.classes, scores.rows(), scores.width());
    return ops::cross_entropy(context, scores, targets.classes, {.scale = scale});
  }
  if (!targets.values.defined() || targets.values.numel() != scores.numel()) {
    throw Error(ErrorKind::input,
                fmt::format("targets are numbers, one for each of the {} scores; there are {}",
                            scores.shape().str(), targets.values.defined() ? targets.values.numel() : 0));
  }
  return problem == Problem::regression ? ops::squared_error(context, scores, targets.values, scale)
                                        : ops::sigmoid_cross_entropy(context, scores, targets.values, scale);
}

LossSums Classifier::loss(Context& context, const Tensor& scores, const ClassTargets& targets,
                          double scale) const {
  if (head_ == Head::sequence_classification) return of_sequences(context, scores, targets, scale);
  if (head_ == Head::token_classification) {
    check_classes(targets.classes, scores.rows(), scores.width());
    return ops::cross_entropy(context, scores, targets.classes, {.scale = scale});
  }
  const int64_t batch = scores.size(0), length = scores.size(1);
  const std::vector<Tensor> parts = ops::split_columns(context, scores, {1, 1});
  LossSums sums = ops::cross_entropy(context, parts[0].reshape({batch, length}),
                                     within(targets.starts, batch, length, "starts"), {.scale = scale});
  sums += ops::cross_entropy(context, parts[1].reshape({batch, length}),
                             within(targets.ends, batch, length, "ends"), {.scale = scale});
  return sums;
}

}  // namespace plumb
