#include "probe/model_measures.h"

#include <cmath>

#include "kernels/reduce.h"
#include "model/batch_pass.h"

namespace plumb {
namespace {

constexpr double kEpsilon = 1e-3;
// Layers left out of a stack, one pass each, and the layers that these passes run in all: a pass over few
// tokens costs by its layers, so a thousand of them are not dropped one by one.
constexpr int64_t kDropped = 12, kLayersRun = 288;

// Rows of hidden states that have a target.
Tensor with_target(const Tensor& hidden, const Batch& b) {
  const int64_t width = hidden.width();
  Tensor rows = Tensor::empty({b.target_count, width});
  int64_t n = 0;
  for (size_t r = 0; r < b.targets.size(); ++r) {
    if (b.targets[r] == kIgnoreTarget) continue;
    std::copy_n(hidden.f32() + static_cast<int64_t>(r) * width, width, rows.f32() + n++ * width);
  }
  return rows;
}

bool in_layer(const Parameter& p) {
  if (p.role != Role::matrix) return false;
  for (const char* stack : {"encoder.", "decoder."}) {
    if (p.name.starts_with(stack) && std::isdigit(static_cast<unsigned char>(p.name[8]))) return true;
  }
  return false;
}

// Moves each element by `size` up or down.
void add_signs(float* x, int64_t n, float size, RandomKey key) {
  constexpr int64_t kBits = 128;  // of a block
#pragma omp parallel for schedule(static)
  for (int64_t block = 0; block < (n + kBits - 1) / kBits; ++block) {
    const auto words = random_block(key, static_cast<uint64_t>(block));
    const int64_t end = std::min(n, (block + 1) * kBits);
    for (int64_t i = block * kBits; i < end; ++i) {
      const bool up = words[i / 32 % 4] >> (i % 32) & 1;
      x[i] += up ? size : -size;
    }
  }
}

}  // namespace

ModelMeasures::ModelMeasures(const Transformer& model, Batch batch)
    : model_(model), batch_(std::move(batch)) {}

ModelMeasures::Function ModelMeasures::run(const DroppedLayer* dropped) const {
  Context context{.dropped = dropped};
  const Tensor hidden = batch_hidden(context, model_, batch_);
  const Tensor targets = Tensor::of<int32_t>({static_cast<int64_t>(batch_.targets.size())}, batch_.targets);
  const LossSums sums = model_.loss(context, hidden, targets, {});
  return {with_target(hidden, batch_), sums.nll / static_cast<double>(sums.count)};
}

std::vector<DropLoss> ModelMeasures::drop_losses(double loss) const {
  std::vector<DropLoss> result;
  const ModelConfig& c = model_.config();
  const auto drop = [&](const char* stack, int64_t layers) {
    if (layers == 0) return;
    const int64_t count = std::min({layers, kDropped, kLayersRun / layers});
    for (int64_t n = 0; n < count; ++n) {  // the first and the last among them
      const DroppedLayer layer{stack, count == 1 ? 0 : n * (layers - 1) / (count - 1)};
      result.push_back({layer.stack + "." + std::to_string(layer.layer), run(&layer).loss - loss});
    }
  };
  drop("encoder", c.encoder_layers);
  drop("decoder", c.decoder_layers);
  return result;
}

std::optional<double> ModelMeasures::perturbation(const Function& at) const {
  std::vector<std::pair<Parameter*, Tensor>> kept;
  for (const auto& p : model_.parameters().all()) {
    if (!in_layer(*p)) continue;
    if (!p->value.requires_grad()) continue;  // frozen, or only read
    kept.emplace_back(p.get(), p->value.clone());
  }
  if (kept.empty()) return std::nullopt;
  for (size_t i = 0; i < kept.size(); ++i) {
    const Tensor& w = kept[i].first->value;
    const double rms = std::sqrt(sum_of_squares(w.numel(), w.f32()) / static_cast<double>(w.numel()));
    add_signs(w.f32(), w.numel(), static_cast<float>(kEpsilon * rms), {7, random_stream(i)});
  }
  const double moved = rms_of_difference(run().output, at.output);
  for (auto& [p, old] : kept) std::copy_n(old.f32(), old.numel(), p->value.f32());
  return moved * moved / (kEpsilon * kEpsilon);
}

double rms_of_difference(const Tensor& a, const Tensor& b) {
  PLUMB_CHECK(a.numel() == b.numel(), "{} and {}", a.shape().str(), b.shape().str());
  double sum = 0;
  for (int64_t i = 0; i < a.numel(); ++i) sum += std::pow(double{a.f32()[i]} - double{b.f32()[i]}, 2);
  return std::sqrt(sum / static_cast<double>(a.numel()));
}

}  // namespace plumb
