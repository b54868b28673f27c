#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <vector>

#include "bench/bench.h"
#include "infer/decoding.h"
#include "infer/logits.h"
#include "kernels/bandwidth.h"
#include "kernels/gemm.h"

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

std::vector<BenchRow> bench_decode(const ModelConfig& config, DType weights) {
  constexpr int kRounds = 5;
  constexpr int64_t kBefore = 64, kTokens = 12;  // of a round
  const auto model = made(config, weights);
  Decoding decoding(*model, std::vector<std::vector<int32_t>>{prompt(kBefore, config.vocab_size)}, {},
                    {.slots = kBefore + kRounds * kTokens});
  const double bytes = multiplied(*model).bytes;
  const Round round = median_round(
      kRounds, [] { return memory_bandwidth().read; },
      [&] {
        const auto start = Clock::now();
        for (int64_t i = 0; i < kTokens; ++i) {
          decoding.step(std::vector<int32_t>{greedy(decoding.logits(0))});
        }
        return bytes * kTokens / seconds_since(start);
      });
  const std::string name = fmt::format("decode {}", dtype_name(weights));
  const std::string shape = shape_words(*model, kBefore);
  return {{.name = name,
           .shape = shape,
           .rate = round.rate * 1e-9,
           .unit = "GB/s",
           .peak = round.roof * 1e-9,
           .share = round.share()},
          {.name = name, .shape = shape, .rate = round.rate / bytes, .unit = "tokens/s"}};
}

BenchRow bench_prefill(const ModelConfig& config, DType weights, int64_t length) {
  const auto model = made(config, weights);
  const std::vector<std::vector<int32_t>> prompts = {prompt(length, config.vocab_size)};
  const auto read = [&] { const Decoding decoding(*model, prompts, {}, {.slots = length}); };
  read();  // the first one finds its memory
  const Multiplied m = multiplied(*model);
  double attention = 0;
  for (int64_t i = 0; i < config.decoder_layers; ++i) {
    const LayerConfig l = resolved_layer(config, Side::decoder, i);
    attention += 2.0 * static_cast<double>(l.heads * l.head_dim) * static_cast<double>(length * (length + 1));
  }
  const double flops = 2.0 * static_cast<double>(m.layers * length + m.head) + attention;
  const Round round = median_round(
      7, [&] { return gemm_peak(weights); },
      [&] {
        const auto start = Clock::now();
        read();
        read();
        return 2e-9 * flops / seconds_since(start);
      });
  return {.name = fmt::format("prefill {}", dtype_name(weights)),
          .shape = shape_words(*model, length),
          .rate = round.rate,
          .unit = "GF/s",
          .peak = round.roof,
          .share = round.share()};
}

}  // namespace plumb::bench
