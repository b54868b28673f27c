#include "lab/check_cases.h"

namespace plumb::check_test {
namespace {

Change train(int64_t layers, Placement placement, const std::function<void(TrainOptions&)>& change) {
  return recipe([=](ModelConfig& c, TrainOptions& o) {
    c.decoder_layers = layers;
    c.layer.placement = placement;
    change(o);
  });
}

Change options(const std::function<void(TrainOptions&)>& change) {
  return train(4, Placement::pre_norm, change);
}

}  // namespace

std::vector<Case> training_cases() {
  return {
      {"PL801", "no_warmup", train(12, Placement::post_norm, [](TrainOptions& o) { o.warmup = 0; }),
       train(12, Placement::post_norm, [](TrainOptions& o) { o.warmup = 200; })},
      {"PL801", "deep_norm_needs_none",
       train(12, Placement::post_norm, [](TrainOptions& o) { o.warmup = 0; }),
       train(48, Placement::deep_norm, [](TrainOptions& o) { o.warmup = 0; })},
      {"PL802", "eighteen", train(18, Placement::post_norm, [](TrainOptions& o) { o.warmup = 200; }),
       train(18, Placement::deep_norm, [](TrainOptions&) {})},
      {"PL803", "tenth", options([](TrainOptions& o) { o.lr = 0.1; }),
       recipe([](ModelConfig& c, TrainOptions& o) {
         o.lr = 0.1;
         o.weight_decay = 0.01;
         c.layer.qk_norm = QkNorm::per_head;
       })},
      {"PL804", "too_long", options([](TrainOptions& o) { o.length = 65; }),
       options([](TrainOptions& o) { o.length = 64; })},
      {"PL805", "never_warm", options([](TrainOptions& o) { o.steps = o.warmup = 50; }),
       options([](TrainOptions& o) { o.warmup = 50; })},
      {"PL806", "no_clip", train(24, Placement::pre_norm, [](TrainOptions& o) { o.clip = 0; }),
       train(24, Placement::pre_norm, [](TrainOptions&) {})},
      {"PL807", "strong_decay", options([](TrainOptions& o) { o.weight_decay = 20; }),
       options([](TrainOptions&) {})},
      {"PL808", "large_eps", options([](TrainOptions& o) { o.eps = 1e-3; }), options([](TrainOptions&) {})},
      {"PL809", "half", recipe([](ModelConfig& c, TrainOptions&) { c.attention_dropout = 0.5; }),
       recipe([](ModelConfig& c, TrainOptions&) { c.dropout = 0.1; })},
      {"PL810", "small_stream", train(24, Placement::pre_norm, [](TrainOptions&) {}),
       recipe([](ModelConfig& c, TrainOptions&) {
         c.decoder_layers = 24;
         c.embedding_norm = true;
       })},
  };
}

}  // namespace plumb::check_test
