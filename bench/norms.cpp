// The residual add and the norm behind it, forward and backward, against the memory's bandwidth.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "bench/bench.h"
#include "kernels/bandwidth.h"
#include "kernels/norm.h"
#include "tensor/tensor.h"

namespace plumb::bench {
namespace {

using Clock = std::chrono::steady_clock;

// Of one call, over a few.
double seconds_of(const std::function<void()>& f) {
  constexpr int kCalls = 4;
  const auto start = Clock::now();
  for (int i = 0; i < kCalls; ++i) f();
  return std::chrono::duration<double>(Clock::now() - start).count() / kCalls;
}

Tensor filled(int64_t rows, int64_t width, float value) {
  Tensor t = Tensor::empty({rows, width});
  for (int64_t i = 0; i < t.numel(); ++i) t.f32()[i] = value + static_cast<float>(i % 97) * 0.01f;
  return t;
}

}  // namespace

// Arrays that are touched once in a call, so that the figure is the memory's and not a cache's: the forward
// reads x and branch and writes sum and y; the backward reads dy, dsum and sum and writes the stream's
// gradient in dsum's place.
std::vector<BenchRow> bench_residual_norm(RowNorm kind) {
  constexpr int64_t kRows = 65536, kWidth = 768;
  const Tensor x = filled(kRows, kWidth, 0.1f), branch = filled(kRows, kWidth, 0.3f),
               sum = filled(kRows, kWidth, 0), y = filled(kRows, kWidth, 0), gain = filled(1, kWidth, 1),
               bias = filled(1, kWidth, 0), stats = Tensor::empty({kRows, 2}, DType::f64),
               dgain = filled(1, kWidth, 0), dbias = filled(1, kWidth, 0);
  const float* bias_or_null = kind == RowNorm::layer ? bias.f32() : nullptr;
  const auto forward = [&] {
    norm_forward({.kind = kind,
                  .rows = kRows,
                  .width = kWidth,
                  .x = x.f32(),
                  .branch = branch.f32(),
                  .gain = gain.f32(),
                  .bias = bias_or_null,
                  .sum = sum.f32(),
                  .y = y.f32(),
                  .stats = stats.data<double>()});
  };
  const auto backward = [&] {
    norm_backward({.kind = kind,
                   .rows = kRows,
                   .width = kWidth,
                   .dy = y.f32(),
                   .dsum = branch.f32(),
                   .sum = sum.f32(),
                   .stats = stats.data<double>(),
                   .gain = gain.f32(),
                   .d_stream = branch.f32(),
                   .dgain = dgain.f32(),
                   .dbias = bias_or_null ? dbias.f32() : nullptr});
  };
  const double bytes = 4.0 * 4 * kRows * kWidth;
  const auto row = [&](const char* direction, const std::function<void()>& call) {
    call();  // the first one finds its memory
    const Round round = median_round(
        5, [] { return memory_bandwidth().copy; }, [&] { return bytes / seconds_of(call); });
    return BenchRow{
        .name = fmt::format("residual + {} {}", kind == RowNorm::layer ? "LayerNorm" : "RMSNorm", direction),
        .shape = fmt::format("{} x {}", kRows, kWidth),
        .rate = round.rate * 1e-9,
        .unit = "GB/s",
        .peak = round.roof * 1e-9,
        .share = round.share()};
  };
  return {row("forward", forward), row("backward", backward)};
}

}  // namespace plumb::bench
