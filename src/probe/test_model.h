// What the probe's tests share: a small model, passes of it, and an observer that keeps what it is shown.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/json.h"
#include "model/run_observer.h"
#include "model/transformer.h"
#include "plumb/probe.h"

namespace plumb::probe_test {

inline constexpr double kDigits = 1e-5;  // six significant digits are written, and the stream is f32

struct Shown {
  std::vector<double> values, gradient;
  int64_t width = 0;
};

inline void append(std::vector<double>& to, const Tensor& t) {
  to.insert(to.end(), t.f32(), t.f32() + t.numel());
}

// Copies what it is shown, and shows it to the probe too.
struct Copies : Observer {
  explicit Copies(Observer* o) : other(o) {}

  void forward(const Site& site, const Tensor& value) override {
    Shown& s = shown[{site.module, site.quantity}];
    append(s.values, value);
    s.width = value.width();
    order.emplace_back(site.module, site.quantity);
    other->forward(site, value);
  }
  void backward(const Site& site, const Tensor& value, const Tensor& gradient) override {
    append(shown[{site.module, site.quantity}].gradient, gradient);
    other->backward(site, value, gradient);
  }
  void sequence(const std::string& stack, const Tensor& mask) override { other->sequence(stack, mask); }
  void attention(const std::string& module, const ops::AttentionInput& input) override {
    other->attention(module, input);
  }
  void streams(const std::string& module, const Tensor& x, const Tensor& res) override {
    other->streams(module, x, res);
  }
  void logits(const Tensor& logits) override { other->logits(logits); }

  Observer* other;
  std::map<std::pair<std::string, std::string>, Shown> shown;
  std::vector<std::pair<std::string, std::string>> order;
};

inline ModelConfig config_of(Placement placement) {
  ModelConfig c;
  c.vocab_size = 50;
  c.width = 24;
  c.max_length = 32;
  c.decoder_layers = 3;
  c.layer.placement = placement;
  c.layer.norm = NormKind::layer_norm;
  c.layer.norm_bias = c.layer.attention_bias = c.layer.attention_output_bias = c.layer.ffn_bias = true;
  c.layer.gate_value = placement == Placement::re_zero ? std::optional(0.3) : std::nullopt;
  c.layer.heads = 3;
  c.layer.ffn_width = 40;
  c.tied_embeddings = false;
  return c;
}

struct Batch {
  Tokens tokens;
  Tensor targets;
};

// Ids that all differ, so that a row of the embedding has the gradient of one element of the stream.
inline Batch batch_of(int64_t first) {
  std::vector<int32_t> ids(2 * 7), targets(2 * 7);
  for (size_t i = 0; i < ids.size(); ++i) {
    ids[i] = static_cast<int32_t>(first + static_cast<int64_t>(i));
    targets[i] = static_cast<int32_t>((7 * i + 3) % 50);
  }
  return {{.ids = Tensor::of<int32_t>({2, 7}, ids)}, Tensor::of<int32_t>({14}, targets)};
}

struct Pass {
  Observer* observer = nullptr;
  bool recompute = false;
  bool plain = false;
};

inline double run_batch(const Transformer& model, const Batch& batch, const Pass& pass,
                        double scale = 1.0 / 14) {
  Tape tape;
  Context context{.tape = &tape,
                  .training = true,
                  .plain = pass.plain,
                  .recompute = pass.recompute,
                  .random = {5, random_stream(1)},
                  .observer = pass.observer};
  Tensor memory;
  if (model.config().has_encoder()) memory = model.encode(context, batch.tokens);
  const Tensor h = model.decode(context, batch.tokens, memory);
  const LossSums sums = model.loss(context, h, batch.targets, {.scale = scale});
  tape.backward();
  return sums.loss * scale;
}

struct Fixture {
  explicit Fixture(const ModelConfig& config) : model(config) {
    model.parameters().initialize(3);
    model.parameters().set_gradients();
    // Away from the start, where biases are zero and gains are one.
    for (const auto& p : model.parameters().all()) {
      const bool drawn = p->role == Role::matrix && !p->name.ends_with(".maps.weight");
      if (drawn || p->role == Role::embedding || p->role == Role::statistic) continue;
      for (int64_t i = 0; i < p->value.numel(); ++i) {
        p->value.f32()[i] += 0.05f * static_cast<float>(std::sin(1.0 + static_cast<double>(i)));
      }
    }
  }
  Transformer model;
};

inline std::vector<float> gradient_of(const Parameter& p) {
  const Tensor g = p.value.grad();
  return g.defined() ? std::vector<float>(g.f32(), g.f32() + g.numel()) : std::vector<float>();
}

inline double norm_of(const std::vector<double>& x) {
  double s = 0;
  for (double v : x) s += v * v;
  return std::sqrt(s);
}

inline std::filesystem::path new_file(const std::string& name) {
  const auto folder = std::filesystem::path(testing::TempDir()) / ("probe_" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  std::filesystem::remove(folder / name);
  return folder / name;
}

inline std::vector<Json> records(const std::filesystem::path& path) {
  std::vector<Json> result;
  const std::string text = read_file(path.string());
  for (size_t begin = 0, end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
    result.push_back(parse_json(text.substr(begin, end - begin), path.string()));
  }
  return result;
}

inline const Json& entry(const Json& record, const char* list, const std::string& at) {
  for (const Json& j : record.at(list)) {
    if (j.at("at") == at) return j;
  }
  throw std::runtime_error("no " + at + " in " + list);
}

inline void expect_near(const Json& got, double expected, const std::string& what) {
  ASSERT_TRUE(got.is_number()) << what;
  EXPECT_NEAR(got.get<double>(), expected, kDigits * std::abs(expected) + 1e-12) << what;
}

}  // namespace plumb::probe_test
