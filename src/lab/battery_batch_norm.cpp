// What BatchNorm does in a Transformer, against LayerNorm in the same places.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "lab/battery.h"

namespace plumb::battery {
namespace {

ModelConfig with(NormKind norm) {
  ModelConfig c = small_config(Placement::pre_norm, 4);
  c.layer.norm = norm;
  return c;
}

Tensor training_output(const Transformer& model, const Tensor& ids, const Tensor& mask = {}) {
  Context context{.training = true};
  return model.decode(context, {.ids = ids, .mask = mask});
}

double mean_loss(const Transformer& model, const Rows& rows, bool training) {
  Context context{.training = training};
  const Tensor h = model.decode(context, {.ids = rows.ids});
  const double n = static_cast<double>(rows.targets.numel());
  return model.loss(context, h, rows.targets, {.scale = 1 / n}).nll / n;
}

// RMS of the change of the first positions (of row 0) between two outputs.
double early_change(const Tensor& a, const Tensor& b, int64_t positions) {
  double sum = 0;
  for (int64_t i = 0; i < positions * a.width(); ++i)
    sum += std::pow(static_cast<double>(a.f32()[i]) - b.f32()[i], 2);
  return std::sqrt(sum / static_cast<double>(positions * a.width()));
}

// The last token of every row is another one: nothing before it may notice.
double leak(const Transformer& model) {
  const Rows rows = random_rows(3);
  const Tensor before = training_output(model, rows.ids);
  for (int64_t b = 0; b < rows.ids.size(0); ++b) {
    int32_t& last = rows.ids.data<int32_t>()[(b + 1) * kLength - 1];
    last = static_cast<int32_t>((last + 7) % kVocabulary);
  }
  return early_change(before, training_output(model, rows.ids), kLength - 1);
}

// The same row beside whole neighbours, and beside neighbours that are mostly padding.
double ragged(const Transformer& model) {
  const Rows rows = random_rows(4);
  Tensor mask = Tensor::empty(rows.ids.shape(), DType::u8);
  for (int64_t i = 0; i < mask.numel(); ++i) {
    mask.data<uint8_t>()[i] = i < kLength || i % kLength < 4;
  }
  return early_change(training_output(model, rows.ids), training_output(model, rows.ids, mask), kLength);
}

struct Gap {
  double loss = 0, gap = 0;  // in use (running statistics), and less the loss by the batch's own
};

}  // namespace

void batch_norm(const Setting& setting, BatteryExperiment& e) {
  e.x_name = "step";
  e.y_name = "loss";
  const auto layer = started(with(NormKind::layer_norm)), batch = started(with(NormKind::batch_norm));
  add(e, "LayerNorm: change before a token that was changed", leak(*layer), {}, 0,
      "0: a position sees the past only");
  add(e, "BatchNorm: change before a token that was changed", leak(*batch), 1e-4, {},
      "above 0: statistics over the sequence hold the future");
  add(e, "LayerNorm: change of a row when its neighbours are padded", ragged(*layer), {}, 1e-5,
      "0 but for rounding");
  add(e, "BatchNorm: change of a row when its neighbours are padded", ragged(*batch), 1e-2, {},
      "above 0: a row depends on its batch");

  std::vector<Gap> gaps(4);
  std::vector<Job> jobs;
  for (const NormKind norm : {NormKind::layer_norm, NormKind::batch_norm}) {
    for (const int64_t rows : {16, 1}) {
      Gap& gap = gaps[jobs.size()];
      jobs.push_back({.config = with(norm), .schedule = {.steps = 300, .rows = rows}});
      jobs.back().inspect = [&gap, &setting, rows](Transformer& model) {
        const Rows seen = setting.text->rows(99, 0, 64);
        gap.loss = mean_loss(model, seen, false);
        double own = 0;  // by statistics of batches as in training
        for (uint64_t i = 0; i < 16; ++i) own += mean_loss(model, setting.text->rows(99, i, rows), true) / 16;
        gap.gap = gap.loss - own;
      };
    }
  }
  const auto trained = train_all(*setting.text, jobs);
  const char* names[] = {"LayerNorm, batch 16", "LayerNorm, batch 1", "BatchNorm, batch 16",
                         "BatchNorm, batch 1"};
  for (size_t i = 0; i < 4; ++i) {
    note(e, std::string(names[i]) + ": loss in use", gaps[i].loss, "");
    BatteryCurve curve{.name = names[i]};
    for (size_t s = 9; s < trained[i].losses.size(); s += 10) {
      double sum = 0;
      for (size_t k = s - 9; k <= s; ++k) sum += trained[i].losses[k] / 10;
      curve.x.push_back(static_cast<double>(s + 1));
      curve.y.push_back(sum);
    }
    e.curves.push_back(curve);
  }
  note(e, "LayerNorm, batch 16: loss in use less that by the batch's own statistics", gaps[0].gap,
       "0 but for the sample of text");
  note(e, "BatchNorm, batch 16: loss in use less that by the batch's own statistics", gaps[2].gap,
       "above LayerNorm's");
  add(e, "small batch: what a batch of 1 costs BatchNorm in use, less what it costs LayerNorm",
      (gaps[3].loss - gaps[2].loss) - (gaps[1].loss - gaps[0].loss), 0.05, {},
      "above 0 (Shen 2020, 2003.07845)");
  add(e, "train/eval gap of a batch of 1, BatchNorm less LayerNorm", gaps[3].gap - gaps[1].gap, 0.05, {},
      "above 0: the statistics in use are not those it learnt by");
}

}  // namespace plumb::battery
