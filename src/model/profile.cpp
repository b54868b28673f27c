#include "model/profile.h"

#include <algorithm>
#include <cmath>

#include "kernels/reduce.h"

namespace plumb {
namespace {

double variance(const Tensor& t) {
  const Moments m = moments(t.numel(), t.f32());
  return m.rms * m.rms - m.mean * m.mean;
}

class Profile : public Observer {
 public:
  explicit Profile(const ParameterTable& table) : table_(table) {}

  void forward(const Site& site, const Tensor& value) override {
    const std::string quantity = site.quantity;
    if (quantity == "output") omega_squared_ = 1;  // the next stack begins anew
    if (quantity == "stream") stream_ = variance(value);
    if (quantity != "branch") return;
    const Parameter* shortcut = table_.find(site.module + ".shortcut");
    if (!shortcut) return;
    std::fill_n(shortcut->value.f32(), shortcut->value.numel(),
                static_cast<float>(std::sqrt(omega_squared_)));
    omega_squared_ = omega_squared_ * stream_ + variance(value);
  }
  void backward(const Site&, const Tensor&, const Tensor&) override {}

 private:
  const ParameterTable& table_;
  double stream_ = 0, omega_squared_ = 1;
};

bool profiled(const ModelConfig& c, Side side, int64_t layers) {
  for (int64_t i = 0; i < layers; ++i) {
    if (sublayer_formula(c, side, i).profiled) return true;
  }
  return false;
}

Tensor drawn_ids(const ModelConfig& c, RandomKey key) {
  const int64_t length = std::min<int64_t>(c.max_length, 64);
  std::vector<int32_t> ids(4 * length);
  for (size_t i = 0; i < ids.size(); ++i) {
    ids[i] = static_cast<int32_t>(random_below(key, i, c.vocab_size));
  }
  return Tensor::of<int32_t>({4, length}, ids);
}

}  // namespace

bool wants_profile(const ModelConfig& c) {
  return profiled(c, Side::encoder, c.encoder_layers) || profiled(c, Side::decoder, c.decoder_layers);
}

void profile_shortcuts(Transformer& model, const std::function<void(Context&)>& pass) {
  Profile profile(model.parameters());
  Context context{.observer = &profile};
  pass(context);
}

void profile_shortcuts(Transformer& model, uint64_t seed) {
  const ModelConfig& c = model.config();
  profile_shortcuts(model, [&](Context& context) {
    Tensor memory;
    if (c.has_encoder()) memory = model.encode(context, {.ids = drawn_ids(c, {seed, random_stream(1)})});
    if (c.has_decoder()) model.decode(context, {.ids = drawn_ids(c, {seed, random_stream(2)})}, memory);
  });
}

}  // namespace plumb
