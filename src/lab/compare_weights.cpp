// The kinds of fault in a weight itself.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "lab/compare_predictions.h"

namespace plumb {
namespace {

// Where a parameter's outputs, or the inputs of an output projection, are heads side by side.
struct Heads {
  std::string part;  // "query", or "" of the whole
  int64_t first = 0, count = 0;
  bool inputs = false;
};

struct AttentionName {
  Side side;
  int64_t layer;
  std::string leaf;  // "query", "qkv", "output"
};

std::optional<AttentionName> attention_name(const ModelConfig& config, const std::string& parameter) {
  for (const SublayerName& s : sublayers_of(config)) {
    if (s.part == "feed_forward" || !parameter.starts_with(s.module + ".")) continue;
    const std::string rest = parameter.substr(s.module.size() + 1);
    return AttentionName{s.side, s.layer, rest.substr(0, rest.find('.'))};
  }
  return std::nullopt;
}

std::vector<Heads> heads_of(const LayerConfig& c, const AttentionName& name, bool bias) {
  if (name.leaf == "query") return {{"", 0, c.heads}};
  if (name.leaf == "key" || name.leaf == "value") return {{"", 0, c.kv_heads}};
  if (name.leaf == "output" && !bias) return {{"", 0, c.heads, true}};
  if (name.leaf != "qkv") return {};
  return {
      {"queries", 0, c.heads}, {"keys", c.heads, c.kv_heads}, {"values", c.heads + c.kv_heads, c.kv_heads}};
}

std::optional<Fault> permuted(const Predictor& p, const Parameter& parameter, const Tensor& mine,
                              const Tensor& other) {
  const ModelConfig& config = p.model.config();
  const auto name = attention_name(config, parameter.name);
  if (!name) return std::nullopt;
  const LayerConfig c = resolved_layer(config, name->side, name->layer);
  const bool bias = mine.shape().rank() == 1;
  std::string words;
  for (const Heads& part : heads_of(c, *name, bias)) {
    // The dim of heads is the first of (out, in) for outputs, the last for inputs; (in, out) is the other
    // way.
    const bool first_dim = bias || part.inputs == parameter.in_out;
    const auto block = [&](const Tensor& t, int64_t head) {
      std::vector<float> values;
      const int64_t begin = (part.first + head) * c.head_dim, end = begin + c.head_dim;
      const int64_t width = bias ? 1 : t.width();
      for (int64_t i = 0; i < t.numel(); ++i) {
        const int64_t at = first_dim ? i / width : i % width;
        if (at >= begin && at < end) values.push_back(t.f32()[i]);
      }
      return values;
    };
    const auto order = permutation_of(mine, other, part.count, block);
    if (order.empty()) continue;
    words += fmt::format("{}{}are in the order {}", words.empty() ? "" : ", ",
                         part.part.empty() ? "" : part.part + " ", fmt::join(order, ", "));
  }
  if (words.empty()) return std::nullopt;
  return Fault{FaultKind::head_permutation,
               fmt::format("the heads of {}'s {} {} of {}'s", p.other, parameter.name, words, p.mine)};
}

std::optional<Fault> turned(const Predictor& p, const Parameter& parameter, const Tensor& mine,
                            const Tensor& other, const Judge& judge) {
  if (mine.shape().rank() != 2) return std::nullopt;
  const Tensor one = transposed_values(mine),
               two = transposed_values(mine.reshape({mine.size(1), mine.size(0)})).reshape(mine.shape());
  if (!judge.right(relative_difference(one, other)) && !judge.right(relative_difference(two, other)))
    return std::nullopt;
  return Fault{FaultKind::transposed,
               fmt::format("{}'s {} is {}'s transposed", p.other, parameter.name, p.mine)};
}

// Rows of a position table from another start; rows that only one of them has are left out.
std::optional<Fault> moved_rows(const Predictor& p, const Parameter& parameter, const Tensor& mine,
                                const Tensor& other, const Judge& judge) {
  if (!parameter.name.ends_with("position_embedding.weight")) return std::nullopt;
  const int64_t rows = mine.size(0), most = std::min<int64_t>(32, rows / 2);
  for (int64_t size = 1; size <= most; ++size) {
    for (const int64_t offset : {size, -size}) {
      const Tensor from = mine.rows_view(std::max<int64_t>(0, offset), rows - size),
                   to = other.rows_view(std::max<int64_t>(0, -offset), rows - size);
      if (!judge.right(relative_difference(from, to))) continue;
      return Fault{FaultKind::position_offset, fmt::format("row 0 of {}'s {} is row {} of {}'s", p.other,
                                                           parameter.name, offset, p.mine)};
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<Fault> recognise_weight(const Predictor& p, const Parameter& parameter, const Tensor& other,
                                      double tolerance) {
  const Tensor mine = f32_of(parameter.value);
  const Judge judge{tolerance, relative_difference(mine, other)};
  auto fault = turned(p, parameter, mine, other, judge);
  if (!fault) fault = permuted(p, parameter, mine, other);
  if (!fault) fault = moved_rows(p, parameter, mine, other, judge);
  if (!fault) fault = scale_or_shift(mine, other, judge, fmt::format("{}'s {}", p.other, parameter.name));
  return fault;
}

}  // namespace plumb
