#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <vector>

#include "bench/bench.h"
#include "infer/decoding.h"
#include "infer/logits.h"

namespace plumb::bench {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::unique_ptr<Transformer> made(const ModelConfig& config, DType weights) {
  auto model = std::make_unique<Transformer>(config);
  model->parameters().initialize(1);
  model->parameters().hold_as(weights);
  return model;
}

// Numbers that a token is multiplied with: all but tables that are only looked up.
struct Multiplied {
  int64_t layers = 0, head = 0;  // numbers
  double bytes = 0;
};
Multiplied multiplied(const Transformer& model) {
  Multiplied m;
  for (const auto& p : model.parameters().all()) {
    const bool head = p->name == "head.weight" ||
                      (model.config().tied_embeddings && p->name.ends_with("token_embedding.weight"));
    if (p->role == Role::embedding && !head) continue;
    (head ? m.head : m.layers) += p->value.numel();
    m.bytes += static_cast<double>(p->value.bytes());
  }
  return m;
}

std::vector<int32_t> prompt(int64_t length, int64_t vocabulary) {
  std::vector<int32_t> ids(length);
  for (int64_t i = 0; i < length; ++i) ids[i] = static_cast<int32_t>(i * 7919 % vocabulary);
  return ids;
}

std::string shape_words(const Transformer& model, int64_t length) {
  const ModelConfig& c = model.config();
  return fmt::format("{} layers, {} wide, {:.0f} M parameters, {} tokens", c.decoder_layers, c.width,
                     static_cast<double>(model.parameters().count()) * 1e-6, length);
}

BenchRow row(const std::string& name, const std::string& shape, double rate, const std::string& unit,
             double peak) {
  return {.name = name,
          .shape = shape,
          .rate = rate,
          .unit = unit,
          .peak = peak,
          .share = peak > 0 ? rate / peak : 0};
}

}  // namespace

ModelConfig gpt2_124m() {
  ModelConfig c;
  c.vocab_size = 50257;
  c.width = 768;
  c.max_length = 1024;
  c.decoder_layers = 12;
  c.positions = Positions::learned;
  c.linear_in_out = true;
  LayerConfig& l = c.layer;
  l.heads = 12;
  l.norm = NormKind::layer_norm;
  l.norm_bias = l.qkv_fused = l.attention_bias = l.attention_output_bias = l.ffn_bias = true;
  l.activation = Activation::gelu_tanh;
  l.gated = false;
  return c;
}

DecodeRows bench_decode(const ModelConfig& config, DType weights, double read_bandwidth, int64_t tokens) {
  constexpr int64_t kBefore = 64;
  const auto model = made(config, weights);
  Decoding decoding(*model, std::vector<std::vector<int32_t>>{prompt(kBefore, config.vocab_size)}, {},
                    {.slots = kBefore + tokens});
  double best = 1e30;
  for (int64_t i = 0; i < tokens; ++i) {
    const auto start = Clock::now();
    const int32_t id = greedy(decoding.logits(0));
    decoding.step(std::vector<int32_t>{id});
    best = std::min(best, seconds_since(start));
  }
  const std::string name = fmt::format("decode {}", dtype_name(weights));
  const std::string shape = shape_words(*model, kBefore);
  return {row(name, shape, multiplied(*model).bytes / best * 1e-9, "GB/s", read_bandwidth * 1e-9),
          row(name, shape, 1 / best, "tokens/s", 0)};
}

BenchRow bench_prefill(const ModelConfig& config, DType weights, int64_t length, double peak) {
  const auto model = made(config, weights);
  const std::vector<std::vector<int32_t>> prompts = {prompt(length, config.vocab_size)};
  double best = 1e30;
  for (int run = 0; run < 4; ++run) {
    const auto start = Clock::now();
    const Decoding decoding(*model, prompts, {}, {.slots = length});
    best = std::min(best, seconds_since(start));
  }
  const Multiplied m = multiplied(*model);
  double attention = 0;
  for (int64_t i = 0; i < config.decoder_layers; ++i) {
    const LayerConfig l = resolved_layer(config, Side::decoder, i);
    attention += 2.0 * static_cast<double>(l.heads * l.head_dim) * static_cast<double>(length * (length + 1));
  }
  const double flops = 2.0 * static_cast<double>(m.layers * length + m.head) + attention;
  return row(fmt::format("prefill {}", dtype_name(weights)), shape_words(*model, length), flops / best * 1e-9,
             "GF/s", peak);
}

}  // namespace plumb::bench
