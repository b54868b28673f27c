// The cases of `plumb bench`: each measures one thing and returns its rate beside the roof measured in the
// same run. Weights are random, times the best of several.
#pragma once

#include <cstdint>
#include <string>

#include "plumb/config.h"
#include "tensor/dtype.h"

namespace plumb::bench {

struct BenchRow {
  std::string name;   // decode f32
  std::string shape;  // 12 layers, 768 wide, 124 M parameters, 64 tokens before
  double rate = 0;
  std::string unit;  // GB/s, GF/s, tokens/s
  double peak = 0;   // in the same unit; 0: there is none
  double share = 0;  // rate / peak
};

ModelConfig gpt2_124m();  // GPT-2's smallest shape, 50257 tokens, tied

// A batch of one, `tokens` steps behind a prompt of 64. The rate is that of the weights' bytes, each
// multiplied weight once a token, against `read_bandwidth` in bytes/s; tokens/s is in the name of the second
// row.
struct DecodeRows {
  BenchRow bandwidth, tokens;
};
DecodeRows bench_decode(const ModelConfig& config, DType weights, double read_bandwidth, int64_t tokens = 24);

// One prompt read at once, logits of its last position alone; products of layers and attention's visible
// half, against `peak` in GF/s, as gemm_peak() gives it.
BenchRow bench_prefill(const ModelConfig& config, DType weights, int64_t length, double peak);

}  // namespace plumb::bench
