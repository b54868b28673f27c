#include "model/cost.h"

#include <algorithm>

#include "model/families.h"
#include "model/transformer.h"
#include "nn/depth.h"

namespace plumb {
namespace {

bool of_head(const ModelConfig& config, const Parameter& p) {
  if (p.name.starts_with("head.")) return true;
  const bool tied = config.tied_embeddings && config.head == Head::language_model;
  const std::string table = config.has_decoder() ? "decoder.token_embedding.weight" : "";
  return tied && (p.name == "token_embedding.weight" || p.name == table);
}

// The share of a parameter's numbers that one token is multiplied with. Look-ups multiply nothing.
double multiplied_share(const ModelConfig& config, const Parameter& p) {
  if (p.role == Role::statistic) return 0;
  if (config.head == Head::sequence_classification && of_head(config, p)) return 0;  // one token of them all
  if (p.role == Role::embedding) return of_head(config, p) ? 1 : 0;
  const bool mixes = p.name.ends_with(".maps.weight");
  if (!mixes && p.name.find(".experts.") == p.name.npos) return 1;
  const Side side = p.name.starts_with("encoder.") ? Side::encoder : Side::decoder;
  const int64_t layer = std::stoll(p.name.substr(p.name.find('.') + 1));
  if (mixes) {
    const SublayerFormula f = sublayer_formula(config, side, layer);
    return f.mixing == Mixing::free ? static_cast<double>(f.streams) : 1;
  }
  const LayerConfig& c = layer_config(config, side, layer);
  return static_cast<double>(c.experts_per_token) / static_cast<double>(c.experts);
}

template <class Each>
void each_layer(const ModelConfig& config, Each&& each) {
  for (int64_t i = 0; i < config.encoder_layers; ++i) each(Side::encoder, i);
  for (int64_t i = 0; i < config.decoder_layers; ++i) each(Side::decoder, i);
}

// Attention's two products for one token: H heads of D over the keys.
double attention_flops(const ModelConfig& config, int64_t length) {
  double flops = 0;
  each_layer(config, [&](Side side, int64_t i) {
    const LayerConfig c = resolved_layer(config, side, i);
    const int64_t keys = c.window > 0 ? std::min(c.window, length) : length;
    const bool cross = side == Side::decoder && config.has_encoder();
    flops += 2.0 * static_cast<double>(c.heads * (c.head_dim + c.value_dim)) *
             static_cast<double>(keys + (cross ? length : 0));
  });
  return flops;
}

// What n streams take of one token: the sum that a branch reads, n^2 + n products for each column to make the
// next ones.
double mixing_flops(const ModelConfig& config) {
  double flops = 0;
  each_layer(config, [&](Side side, int64_t i) {
    const SublayerFormula f = sublayer_formula(config, side, i);
    if (f.mixing == Mixing::none) return;
    const auto n = static_cast<double>(f.streams);
    flops += static_cast<double>(sublayers_of_layer(config, side) * config.width) * 2 * (n + n * n + n);
  });
  return flops;
}

// Numbers that one layer keeps of a token for its backward pass: the stream and its normed form around each
// sub-layer (of several streams: them, their normed form, what is read of them, and their maps), queries,
// keys, values, heads, and the feed-forward's hidden values before their activation.
int64_t kept_numbers(const ModelConfig& config, Side side, int64_t index) {
  const LayerConfig c = resolved_layer(config, side, index);
  const SublayerFormula f = sublayer_formula(config, side, index);
  const bool cross = side == Side::decoder && config.has_encoder();
  const int64_t sublayers = sublayers_of_layer(config, side);
  const int64_t norms = f.norm_in + f.norm_out;
  const int64_t q = c.heads * c.head_dim, heads = c.heads * c.value_dim;
  const int64_t active = c.experts > 0 ? c.experts_per_token + c.shared_experts : 1;
  const int64_t hidden =
      c.experts > 0 ? c.experts_per_token * c.ffn_width + c.shared_experts * c.shared_width : c.ffn_width;
  int64_t kept = sublayers * config.width * (1 + norms + f.norm_branch);
  if (f.mixing != Mixing::none) {
    const int64_t n = f.streams, map = n * (n + 2);
    kept += sublayers * (2 * n * config.width + 2 * map + config.width);
  }
  kept += (cross ? 2 : 1) * (q + c.kv_heads * (c.head_dim + c.value_dim) + heads + c.heads);
  kept += 2 * (c.q_rank + c.kv_rank) + c.rope_dim;
  kept += hidden * (c.gated ? 2 : 1);
  if (c.experts > 0) kept += active * 2 * config.width + c.experts;
  // nGPT: the way from the stream to the branch, queries scaled twice, and the scaled hidden values.
  if (f.unit) kept += sublayers * config.width + (cross ? 4 : 2) * q + hidden * (c.gated ? 2 : 1);
  const int64_t keys = c.kv_heads * c.head_dim;
  if (c.qkv_limit > 0) kept += (cross ? 2 : 1) * (q + keys + c.kv_heads * c.value_dim);  // what was cut off
  // What was cut off, beside what is left of it; a shift alone keeps what it shifted, too.
  if (c.ffn_limit != 0 || c.up_offset != 0) kept += hidden * (c.ffn_limit != 0 ? 2 : 1);
  if (c.qk_norm == QkNorm::own_gains) kept += q + keys;
  if (f.norm_inner) kept += (cross ? 2 : 1) * heads + 2 * hidden;
  return kept;
}

}  // namespace

std::vector<ParameterInfo> parameter_infos(const ModelConfig& config, const ParameterTable& table) {
  std::vector<ParameterInfo> infos;
  for (const auto& p : table.all()) {
    infos.push_back({.name = p->name,
                     .file_name = file_name(config, p->name).name,
                     .shape = p->shape.dims(),
                     .role = std::string(role_name(p->role)),
                     .stored = std::string(p->value.defined() ? dtype_name(p->value.dtype()) : ""),
                     .init = p->init_words(),
                     .decays = p->decays(),
                     .trainable = p->trainable});
  }
  return infos;
}

ModelCost model_cost(const ModelConfig& config, const ParameterTable& table, int64_t length) {
  ModelCost cost;
  double multiplied = 0, frozen = 0;
  int64_t numbers = 0, trained = 0, kept = 2 * (config.width + config.embedding_width);
  for (const auto& p : table.all()) {
    numbers += p->shape.numel();
    if (p->role != Role::statistic) cost.parameters += p->shape.numel();
    if (p->trainable) trained += p->shape.numel();
    const double share = multiplied_share(config, *p) * static_cast<double>(p->shape.numel());
    multiplied += share;
    if (!p->trainable) frozen += share;
    if (!of_head(config, *p)) continue;
    cost.head_flops_per_token += 2 * share;
    cost.head_training_flops_per_token += (p->trainable ? 6 : 4) * share;
  }
  cost.multiplied = static_cast<int64_t>(multiplied);
  cost.flops_per_token = 2 * multiplied + attention_flops(config, length) + mixing_flops(config);
  cost.training_flops_per_token = 3 * cost.flops_per_token - 2 * frozen;
  cost.weight_bytes = 4 * numbers;
  cost.optimizer_bytes = 12 * trained;
  each_layer(config, [&](Side side, int64_t i) {
    const LayerConfig c = resolved_layer(config, side, i);
    kept += kept_numbers(config, side, i);
    if (side == Side::decoder)
      cost.cache_bytes_per_token +=
          4 * (c.kv_rank > 0 ? c.kv_rank + c.rope_dim : 2 * c.kv_heads * c.head_dim);
  });
  cost.activation_bytes_per_token = 4 * kept;
  return cost;
}

std::vector<ParameterInfo> model_parameters(const ModelConfig& config) {
  return parameter_infos(config, Transformer(config).parameters());
}

ModelCost model_cost(const ModelConfig& config, int64_t length) {
  return model_cost(config, Transformer(config).parameters(), length);
}

}  // namespace plumb
