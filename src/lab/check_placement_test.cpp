#include <cmath>

#include "lab/check_cases.h"

namespace plumb::check_test {
namespace {

Change placed(Placement placement, int64_t layers, const std::function<void(ModelConfig&)>& more = {}) {
  return recipe([=](ModelConfig& c, TrainOptions&) {
    c.layer.placement = placement;
    c.decoder_layers = layers;
    if (more) more(c);
  });
}

Change family(const std::string& type, const std::function<void(ModelConfig&)>& more = {}) {
  return recipe([=](ModelConfig& c, TrainOptions&) {
    const int64_t vocabulary = c.vocab_size;
    c = family_default(type);
    c.vocab_size = vocabulary;
    if (more) more(c);
  });
}

}  // namespace

std::vector<Case> placement_cases() {
  const auto marian = [](bool before) {
    return [before](Made& m) {
      m.config = family_default("marian");
      m.config.vocab_size = 60;
      m.config.eos_ids = {0};
      m.config.pad_id = m.config.decoder_start_id = 59;
      m.config_patch = {{"normalize_before", before}};
    };
  };
  return {
      {"PL101", "marian_pre_norm", marian(true), marian(false)},
      {"PL101", "bert_pre_norm",
       family("bert", [](ModelConfig& c) { c.layer.placement = Placement::pre_norm; }), family("bert")},
      {"PL101", "gpt2_norms_branches",
       family("gpt2",
              [](ModelConfig& c) {
                c.layer.norm_in = false;
                c.layer.norm_branch = true;
              }),
       family("gpt2")},
      {"PL102", "pre_norm_flag_norms_the_output", layer([](LayerConfig& l) {
         l.placement = Placement::pre_norm;
         l.norm_in = false;
         l.norm_branch = true;
       }),
       layer([](LayerConfig& l) {
         l.placement = Placement::reordered;
         l.qk_norm = QkNorm::whole;
       })},
      {"PL103", "pre_norm", placed(Placement::pre_norm, 4, [](ModelConfig& c) { c.final_norm = false; }),
       placed(Placement::pre_norm, 4)},
      {"PL103", "re_zero_needs_none",
       placed(Placement::sandwich, 4, [](ModelConfig& c) { c.final_norm = false; }),
       placed(Placement::re_zero, 4, [](ModelConfig& c) { c.final_norm = false; })},
      {"PL104", "post_norm", placed(Placement::post_norm, 4, [](ModelConfig& c) { c.final_norm = true; }),
       placed(Placement::post_norm, 4)},
      {"PL105", "labml",
       placed(Placement::deep_norm, 18,
              [](ModelConfig& c) {
                c.layer.alpha = 1;
                c.layer.gate_value = std::pow(36.0, 0.25);
              }),
       placed(Placement::deep_norm, 18)},
      {"PL106", "fixed_alpha",
       placed(Placement::deep_norm, 18, [](ModelConfig& c) { c.layer.alpha = 2.828; }),
       placed(Placement::deep_norm, 32, [](ModelConfig& c) { c.layer.alpha = 2.8284; })},
      {"PL107", "post_norm_with_alpha",
       placed(Placement::post_norm, 6, [](ModelConfig& c) { c.layer.alpha = 2; }),
       placed(Placement::deep_norm, 6)},
      {"PL108", "half_the_stream",
       placed(Placement::pre_norm, 12, [](ModelConfig& c) { c.layer.alpha = 0.5; }),
       placed(Placement::pre_norm, 12, [](ModelConfig& c) { c.layer.alpha = 0.98; })},
      {"PL109", "plain", placed(Placement::plain, 12), placed(Placement::plain, 2)},
      {"PL110", "no_gain",
       placed(Placement::sandwich, 4, [](ModelConfig& c) { c.layer.norm_affine = false; }),
       placed(Placement::pre_norm, 4, [](ModelConfig& c) { c.layer.norm_affine = false; })},
      {"PL111", "both", placed(Placement::deep_norm, 12, [](ModelConfig& c) { c.layer.norm_inner = true; }),
       placed(Placement::sub_ln, 12)},
      {"PL112", "scaled",
       placed(Placement::layer_norm_scaling, 12, [](ModelConfig& c) { c.init = Init::scaled_normal; }),
       placed(Placement::layer_norm_scaling, 12)},
      {"PL113", "one_at_24",
       placed(Placement::layer_scale, 24, [](ModelConfig& c) { c.layer.gate_value = 1; }),
       placed(Placement::layer_scale, 24)},
      {"PL114", "one", placed(Placement::re_zero, 12, [](ModelConfig& c) { c.layer.gate_value = 1; }),
       placed(Placement::re_zero, 12)},
      {"PL115", "olmo2_without_qk_norm", placed(Placement::reordered, 16),
       placed(Placement::reordered, 16, [](ModelConfig& c) { c.layer.qk_norm = QkNorm::whole; })},
      {"PL116", "mix_ln_upside_down",
       placed(Placement::pre_norm, 8,
              [](ModelConfig& c) {
                LayerConfig post = c.layer;
                post.placement = Placement::post_norm;
                c.decoder_runs = {{.first = 6, .count = 2, .layer = post}};
              }),
       placed(Placement::pre_norm, 8,
              [](ModelConfig& c) {
                LayerConfig post = c.layer;
                post.placement = Placement::post_norm;
                c.decoder_runs = {{.first = 0, .count = 2, .layer = post}};
              })},
      {"PL117", "llama_with_layer_norm",
       family("llama", [](ModelConfig& c) { c.layer.norm = NormKind::layer_norm; }), family("llama")},
  };
}

}  // namespace plumb::check_test
