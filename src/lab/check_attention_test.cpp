#include <cmath>

#include "base/file.h"
#include "base/json.h"
#include "lab/check_cases.h"

namespace plumb::check_test {
namespace {

Change heads(int64_t heads, int64_t kv_heads, int64_t head_dim = 0) {
  return layer([=](LayerConfig& l) {
    l.heads = heads;
    l.kv_heads = kv_heads;
    l.head_dim = head_dim;
  });
}

Change llama_file(const nlohmann::json& patch) {
  return [patch](Made& m) {
    m.config.model_type = "llama";
    m.config.layer = family_default("llama").layer;
    m.config.init = Init::normal;
    m.config_patch = patch;
  };
}

// Queries and keys that are the same for every token and live in the fast pairs of the halves' layout, so
// that they meet best near by.
Change local_by_halves(bool said_interleaved) {
  return [=](Made& m) {
    m.tokenizer = true;
    m.config.width = 64;
    m.config.layer.heads = 2;
    m.config.layer.attention_bias = true;
    m.weights = [](ParameterTable& t) {
      for (int i = 0; i < 2; ++i) {
        for (const char* part : {".attention.query.bias", ".attention.key.bias"}) {
          float* b = t.find("decoder." + std::to_string(i) + part)->value.f32();
          for (int d = 0; d < 64; ++d) b[d] = d % 16 < 8 ? 1.5f : 0.0f;
        }
      }
    };
    m.config_patch = {{"rope_interleaved", said_interleaved}};
  };
}

}  // namespace

std::vector<Case> attention_cases() {
  return {
      {"PL401", "five_of_eight", heads(8, 5), heads(8, 4)},
      {"PL401", "file", llama_file({{"num_key_value_heads", 3}}), llama_file(nullptr)},
      {"PL401", "unknown_family", llama_file({{"model_type", "qwen3"}, {"num_key_value_heads", 3}}),
       llama_file({{"model_type", "qwen3"}})},
      {"PL402", "three_of_32", heads(3, 0), heads(3, 0, 12)},
      {"PL402", "file", llama_file({{"head_dim", nullptr}, {"num_attention_heads", 5}}), llama_file(nullptr)},
      {"PL403", "odd", heads(4, 0, 9), heads(4, 0, 10)},
      {"PL404", "unscaled", layer([](LayerConfig& l) {
         l.heads = 1;
         l.attention_scale = 1;
       }),
       layer([](LayerConfig& l) {
         l.heads = 1;
         l.attention_scale = 1;
         l.qk_norm = QkNorm::per_head;
       })},
      {"PL405", "interleaved_said", local_by_halves(true), local_by_halves(false)},
      {"PL405", "random_weights_say_nothing", local_by_halves(true),
       [](Made& m) {
         m.tokenizer = true;
         m.config.layer.rope.interleaved = true;
       }},
      {"PL406", "ten_thousand_for_a_million",
       recipe([](ModelConfig& c, TrainOptions&) { c.max_length = 1 << 20; }),
       recipe([](ModelConfig& c, TrainOptions&) {
         c.max_length = 1 << 20;
         c.layer.rope.base = 1e9;
       })},
      {"PL407", "gpt2_table",
       [](Made& m) {
         m.config = family_default("gpt2");
         m.config.vocab_size = 99;
         m.config.eos_ids = {2};
         m.config_patch = {{"n_positions", 77}};
       },
       [](Made& m) {
         m.config = family_default("gpt2");
         m.config.vocab_size = 99;
         m.config.eos_ids = {2};
       }},
      {"PL408", "one", layer([](LayerConfig& l) { l.window = 1; }),
       layer([](LayerConfig& l) { l.window = 2; })},
      {"PL409", "bag_of_words", recipe([](ModelConfig& c, TrainOptions&) {
         c.encoder_layers = 2;
         c.decoder_layers = 0;
         c.positions = Positions::none;
       }),
       recipe([](ModelConfig& c, TrainOptions&) { c.positions = Positions::none; })},
      {"PL410", "hot_queries", weights([](ParameterTable& t) {
         scale(t, "attention.query", 3000);
         scale(t, "attention.key", 1000);
       })},
      {"PL411", "one_key_each", weights([](ParameterTable& t) {
         scale(t, "attention.query", 30000);
         scale(t, "attention.key", 30000);
       })},
  };
}

}  // namespace plumb::check_test
