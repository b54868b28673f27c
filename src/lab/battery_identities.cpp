// What has to be equal whatever the weights are: placements and norms that are the same function, and what a
// formula leaves unchanged.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/random.h"
#include "kernels/reduce.h"
#include "lab/battery.h"
#include "ops/norm.h"
#include "plumb/config_fields.h"

namespace plumb::battery {
namespace {

double relative_difference(const Tensor& a, const Tensor& b) {
  return rms_difference(a, b) / rms(a);
}

double difference(const ModelConfig& a, const ModelConfig& b) {
  const Rows rows = random_rows(1);
  return relative_difference(output_of(*started(a), rows), output_of(*started(b), rows));
}

// How much the output changes when a matrix is multiplied by 100.
double change_by_scaling(const ModelConfig& config, const std::string& matrix) {
  const auto model = started(config);
  const Rows rows = random_rows(1);
  const Tensor before = output_of(*model, rows);
  const Tensor& w = weight(*model, matrix).value;
  for (int64_t i = 0; i < w.numel(); ++i) w.f32()[i] *= 100;
  return relative_difference(before, output_of(*model, rows));
}

void add_change_by_scaling(BatteryExperiment& e) {
  const auto add_one = [&](const std::string& name, const ModelConfig& c, const char* part, bool unchanged) {
    const double change =
        change_by_scaling(c, fmt::format("decoder.{}.{}.weight", c.decoder_layers / 2, part));
    if (unchanged)
      add(e, name, change, {}, 1e-5, "0 but for eps");
    else
      add(e, name, change, 0.1, {}, "the control: it changes");
  };
  ModelConfig attention = small_config(Placement::pre_norm, 4);
  add_one("pre-norm: change by W_Q x 100", attention, "attention.query", false);
  attention.layer.qk_norm = QkNorm::per_head;
  add_one("pre-norm, QK-norm: change by W_Q x 100 (Dehghani 2023)", attention, "attention.query", true);
  attention.layer.qk_norm = QkNorm::whole;
  add_one("pre-norm, QK-norm over all heads: change by W_Q x 100", attention, "attention.query", true);
  for (const Placement p : {Placement::sandwich, Placement::sub_ln, Placement::pre_norm}) {
    add_one(enum_name(p) + ": change by W_1 x 100 with ReLU", small_config(p, 8), "feed_forward.up",
            p != Placement::pre_norm);
  }
}

Tensor drawn(uint64_t stream, double mean) {
  Tensor t = Tensor::empty({kLength, kWidth});
  for (int64_t i = 0; i < t.numel(); ++i)
    t.f32()[i] = static_cast<float>(mean + random_normal({3, stream}, static_cast<uint64_t>(i)));
  return t;
}

Tensor normed(NormKind kind, double gain) {
  Context context;
  const int64_t gains = kind == NormKind::scale_norm ? 1 : kWidth;
  ops::NormWeights w{.kind = kind, .eps = 1e-12, .gain = Tensor::empty({gains})};
  std::fill_n(w.gain.f32(), gains, static_cast<float>(gain));
  return ops::norm(context, drawn(1, 0.5), w);
}

// Largest |cosine| between a row's gradient behind a norm and what it is orthogonal to: the row, without its
// mean where the norm takes it off, and there the row of ones too.
double gradient_overlap(NormKind kind) {
  Tensor x = drawn(1, 0.5);
  const Tensor gain = drawn(2, 1).rows_view(0, 1).reshape({kWidth});
  x.set_requires_grad();
  Tape tape;
  Context context{.tape = &tape};
  const Tensor y = ops::norm(context, x, {.kind = kind, .eps = 1e-12, .gain = gain});
  seed_gradient(y, drawn(3, 0));
  tape.backward();
  const Tensor gradient = x.grad();
  double most = 0;
  for (int64_t r = 0; r < kLength; ++r) {
    const float *row = x.f32() + r * kWidth, *g = gradient.f32() + r * kWidth;
    const double mean = kind == NormKind::layer_norm ? std::accumulate(row, row + kWidth, 0.0) / kWidth : 0;
    double with_row = 0, with_ones = 0, row_size = 0, size = 0;
    for (int64_t i = 0; i < kWidth; ++i) {
      with_row += g[i] * (row[i] - mean);
      with_ones += g[i];
      row_size += (row[i] - mean) * (row[i] - mean);
      size += static_cast<double>(g[i]) * g[i];
    }
    most = std::max(most, std::abs(with_row) / std::sqrt(row_size * size));
    if (kind == NormKind::layer_norm) most = std::max(most, std::abs(with_ones) / std::sqrt(kWidth * size));
  }
  return most;
}

void add_norms(BatteryExperiment& e) {
  add(e, "ScaleNorm with g = sqrt(C) less RMSNorm",
      relative_difference(normed(NormKind::rms_norm, 1),
                          normed(NormKind::scale_norm, std::sqrt(static_cast<double>(kWidth)))),
      {}, 1e-6, "0 (Nguyen and Salazar 2019)");
  add(e, "LayerNorm: largest cosine of a gradient with the centred row, or with ones",
      gradient_overlap(NormKind::layer_norm), {}, 1e-5, "0 (Ba 2016)");
  add(e, "RMSNorm: largest cosine of a gradient with the row", gradient_overlap(NormKind::rms_norm), {}, 1e-5,
      "0 (Zhang and Sennrich 2019)");
}

// Gradients where all tokens of a row are one: attention is uniform whatever queries and keys are, so theirs
// vanish and only that of the values stays.
void add_identical_tokens(BatteryExperiment& e) {
  ModelConfig c = small_config(Placement::pre_norm, 4);
  c.positions = Positions::none;
  const auto model = started(c);
  const Rows rows = random_rows(1);
  for (int64_t i = 0; i < rows.ids.numel(); ++i)
    rows.ids.data<int32_t>()[i] = static_cast<int32_t>(7 + i / kLength);
  loss_and_gradients(*model, rows);
  double query_key = 0, value = kAbove;
  for (int64_t l = 0; l < c.decoder_layers; ++l) {
    const auto size = [&](const char* part) {
      return gradient_norm_of(weight(*model, fmt::format("decoder.{}.attention.{}.weight", l, part)));
    };
    query_key = std::max({query_key, size("query"), size("key")});
    value = std::min(value, size("value"));
  }
  add(e, "pre-norm, identical tokens: largest gradient of W_Q and W_K", query_key, {}, 1e-6,
      "0 (Noci 2022); calibrated 4e-8, 5e-8");
  add(e, "pre-norm, identical tokens: least gradient of W_V", value, 1e-2, {},
      "does not vanish; calibrated 1.4");
}

// How far the longest or shortest vector behind a stack is from length 1.
double length_error(Placement p) {
  const Tensor x = output_of(*started(small_config(p, 12)), random_rows(1));
  double most = 0;
  for (int64_t r = 0; r < x.rows(); ++r)
    most = std::max(most, std::abs(std::sqrt(sum_of_squares(x.width(), x.f32() + r * x.width())) - 1));
  return most;
}

}  // namespace

void identities(const Setting&, BatteryExperiment& e) {
  {
    Ends ends;
    loss_and_gradients(*started(small_config(Placement::re_zero, 12)), random_rows(1), &ends);
    add(e, "re-zero, 12 layers: output less input", relative_difference(ends.first, ends.last), {}, 0,
        "0: the identity (Bachlechner 2020)");
  }
  {
    ModelConfig c = small_config(Placement::pre_norm, 12);
    c.layer.alpha = 0.9;
    c.layer.gate_value = 0;
    Ends ends;
    loss_and_gradients(*started(c), random_rows(1), &ends);
    add(e, "pre-norm, 24 shortcuts of 0.9, branches closed: |gradient below / that above / 0.9^24 - 1|",
        std::abs(ends.bottom / ends.top / std::pow(0.9, 24) - 1), {}, 1e-5, "0 (He 2016)");
  }
  {
    ModelConfig gemma = small_config(Placement::sandwich, 4), peri = small_config(Placement::pre_norm, 4);
    gemma.layer.norm_unit_offset = true;
    peri.layer.norm_branch = true;
    add(e, "sandwich as Gemma stores it, gain 1 + 0, less Peri-LN", difference(peri, gemma), {}, 0,
        "0 (Kim 2025)");
  }
  {
    ModelConfig sigma = small_config(Placement::pre_norm, 4);
    sigma.layer.reparam = Reparam::sigma;
    add(e, "pre-norm, sigma-reparam: output at init less that of the matrices themselves",
        difference(small_config(Placement::pre_norm, 4), sigma), {}, 1e-6,
        "0: gamma starts at sigma(W) (Zhai 2023)");
  }
  for (const Placement p : {Placement::hyper_connections, Placement::mhc}) {
    add(e, enum_name(p) + ", 4 streams: output at init less pre-norm's",
        difference(small_config(Placement::pre_norm, 4), small_config(p, 4)), {}, 1e-5,
        "0 (Zhu 2024; Xie 2025)");
  }
  add(e, "ngpt, 12 layers: largest | |h| - 1 | behind the last", length_error(Placement::ngpt), {}, 1e-6,
      "0 (Loshchilov 2024)");
  add_norms(e);
  add_change_by_scaling(e);
  add_identical_tokens(e);
}

}  // namespace plumb::battery
