// LoRA and DoRA: a small change of chosen linear maps that is trained while the model itself stays as it is,
// in the layout of PEFT: a folder with adapter_config.json and adapter_model.safetensors.
//   LoRA: Hu 2021, 2106.09685; DoRA: Liu 2024, 2402.09353; rsLoRA: Kalajdzievski 2023, 2312.03732.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace plumb {

struct AdapterOptions {
  int64_t rank = 0;    // 0: no adapter
  double alpha = 0;    // the change is alpha / rank B A, of rsLoRA alpha / sqrt(rank) B A; 0: the rank
  double dropout = 0;  // of what A reads
  bool dora = false;   // a magnitude of each output is trained, too
  bool rslora = false;
  // Linear maps by the names of the family's file, without ".weight": whole ones ("h.0.attn.c_attn", with or
  // without what stands before it) or what they end in ("q_proj"); or one regular expression for whole names;
  // or "all-linear": every map of the layers but routers and routed experts. Empty: all-linear.
  std::vector<std::string> targets;

  bool operator==(const AdapterOptions&) const = default;
};

// Whether a folder holds an adapter.
bool is_adapter(const std::string& folder);
// The folder of the model that an adapter changes, by its adapter_config.json; "" where that does not say.
// Throws Error(file, config, unsupported).
std::string adapter_base(const std::string& folder);

}  // namespace plumb
