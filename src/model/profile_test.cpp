// Admin's init against its recursion, and what it is for: branches that stay a small part of the sum.
#include "model/profile.h"

#include <gtest/gtest.h>

#include <cmath>

#include "plumb/model.h"

namespace plumb {
namespace {

ModelConfig admin(int64_t encoder, int64_t decoder) {
  ModelConfig c;
  c.vocab_size = 30;
  c.width = 32;
  c.max_length = 32;
  c.encoder_layers = encoder;
  c.decoder_layers = decoder;
  c.embedding_scale = 50;  // the first stream is of the size of the others
  c.layer.placement = Placement::admin;
  return c;
}

// Variances as a slow pass over what the model shows, in order: x_i, f_i.
class Variances : public Observer {
 public:
  void forward(const Site& site, const Tensor& value) override {
    const std::string quantity = site.quantity;
    if (quantity != "stream" && quantity != "branch") return;
    double mean = 0, var = 0;
    const auto n = static_cast<double>(value.numel());
    for (int64_t i = 0; i < value.numel(); ++i) mean += value.f32()[i] / n;
    for (int64_t i = 0; i < value.numel(); ++i) var += std::pow(value.f32()[i] - mean, 2) / n;
    (quantity == "stream" ? of_stream : of_branch).push_back(var);
    if (quantity == "stream") modules.push_back(site.module);
  }
  void backward(const Site&, const Tensor&, const Tensor&) override {}

  std::vector<double> of_stream, of_branch;
  std::vector<std::string> modules;
};

TEST(Admin, ShortcutsFollowTheRecursion) {
  for (const int64_t encoder : {0, 2}) {
    const ModelConfig c = admin(encoder, 3);
    ASSERT_TRUE(wants_profile(c));
    Transformer model(c);
    model.parameters().initialize(4);
    const Tensor ids = Tensor::of<int32_t>({1, 8}, {3, 1, 4, 1, 5, 9, 2, 6});
    const auto pass = [&](Context& context) {
      const Tensor memory = encoder > 0 ? model.encode(context, {.ids = ids}) : Tensor();
      model.decode(context, {.ids = ids}, memory);
    };
    profile_shortcuts(model, pass);
    // With the omegas it chose, the pass repeats itself, so that the recursion can be read off it.
    Variances seen;
    Context context{.observer = &seen};
    pass(context);
    double omega_squared = 1;
    for (size_t i = 0; i < seen.modules.size(); ++i) {
      if (i > 0 && seen.modules[i].substr(0, 7) != seen.modules[i - 1].substr(0, 7)) omega_squared = 1;
      const Tensor omega = model.parameters().find(seen.modules[i] + ".shortcut")->value;
      for (int64_t k = 0; k < omega.numel(); ++k)
        ASSERT_NEAR(omega.f32()[k] / std::sqrt(omega_squared), 1, 1e-4) << seen.modules[i];
      omega_squared = omega_squared * seen.of_stream[i] + seen.of_branch[i];
    }
    EXPECT_GT(omega_squared, 1);
  }
}

TEST(Admin, AFreshModelIsProfiledAndASetAlphaIsNot) {
  const Model model = Model::create(admin(0, 4), 1);
  EXPECT_TRUE(model.fresh());
  const ParameterTable& table = model.transformer().parameters();
  EXPECT_EQ(table.find("decoder.0.attention.shortcut")->value.f32()[0], 1);
  EXPECT_NE(table.find("decoder.3.feed_forward.shortcut")->value.f32()[0], 1);
  ModelConfig c = admin(0, 4);
  c.layer.alpha = 1.5;
  EXPECT_FALSE(wants_profile(c));
  EXPECT_EQ(
      Model::create(c, 1).transformer().parameters().find("decoder.3.feed_forward.shortcut")->value.f32()[0],
      1.5f);
}

}  // namespace
}  // namespace plumb
