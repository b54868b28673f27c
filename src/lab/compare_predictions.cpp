#include "lab/compare_predictions.h"

#include <fmt/format.h>

#include <algorithm>

#include "kernels/embedding.h"
#include "kernels/rope.h"
#include "lab/model_words.h"
#include "lab/trace_attention.h"
#include "nn/depth.h"
#include "nn/feed_forward.h"
#include "nn/rotary.h"
#include "ops/linear.h"
#include "ops/norm.h"

namespace plumb {
namespace {

// The sub-layer of a place, with what its config says; none of a stack or the head.
struct Within {
  SublayerName name;
  LayerConfig layer;
  SublayerFormula formula;
  bool feed_forward = false;
};

std::optional<Within> within(const Predictor& p, const std::string& module) {
  const ModelConfig& c = p.model.config();
  for (const Side side : {Side::encoder, Side::decoder}) {
    for (int64_t i = 0; i < layers_of(c, side); ++i) {
      for (const char* part : {"attention", "cross_attention", "feed_forward"}) {
        if (module != fmt::format("{}.{}.{}", stack_name(side), i, part)) continue;
        return Within{{side, i, module, part},
                      resolved_layer(c, side, i),
                      sublayer_formula(c, side, i, part_named(part)),
                      std::string_view(part) == "feed_forward"};
      }
    }
  }
  return std::nullopt;
}

Tensor times(const Tensor& x, double factor) {
  Context context;
  return factor == 1 ? x : ops::norm(context, x, {.kind = NormKind::none}, factor);
}

// act(up), or act(gate) * up: what the second matrix of a feed-forward reads.
Tensor hidden_of(const Predictor& p, const Within& w) {
  const std::string& module = w.name.module;
  const LayerConfig& c = w.layer;
  if (Tensor inner = p.observed.value(module, "inner"); inner.defined()) return inner;
  Tensor up = p.observed.value(module, "up"), gate = p.observed.value(module, "gate");
  Context context;
  if (!up.defined()) return {};
  if (c.ffn_limit != 0 || c.up_offset != 0) bound(context, c.ffn_limit, c.up_offset, gate, up);
  return c.gated ? ops::gated(context, gate, up, c.activation) : ops::activation(context, up, c.activation);
}

Tensor value_of(const Predictor& p, const std::string& name) {
  const Parameter* parameter = p.model.parameters().find(name);
  return parameter ? f32_of(parameter->value) : Tensor();
}

// A linear map behind a place: its input, its parameters, and which of its outputs the place is.
struct Map {
  std::string parameter;  // without ".weight"
  Tensor input;
  int64_t first = 0, count = 0;
};

std::vector<Map> map_of(const Predictor& p, const Kept& place) {
  const auto w = within(p, place.module);
  const std::string& quantity = place.quantity;
  const int64_t count = place.value.width();
  if (!w) {
    if (quantity != "logits") return {};
    const char* stack = p.model.config().has_decoder() ? "decoder" : "encoder";
    const Tensor inner = p.observed.value("head", "inner");
    return {{"head", inner.defined() ? inner : p.observed.value(stack, "final"), 0, count}};
  }
  const LayerConfig& c = w->layer;
  const std::string at = place.module + ".";
  const bool cross = w->name.part == "cross_attention";
  const bool of_memory = cross && (quantity == "key" || quantity == "value");
  const Tensor input =
      of_memory ? p.observed.value("encoder", "final") : p.observed.value(place.module, "input");
  if (quantity == "query" || quantity == "key" || quantity == "value") {
    if (!c.qkv_fused || cross) return {{at + quantity, input, 0, count}};
    const int64_t q = c.heads * c.head_dim, kv = c.kv_heads * c.head_dim;
    return {{at + "qkv", input, quantity == "query" ? 0 : quantity == "key" ? q : q + kv, count}};
  }
  if (quantity == "gate" || quantity == "up") {
    if (!c.gate_up_fused) return {{at + quantity, input, 0, count}};
    return {{at + "gate_up", input, quantity == "gate" ? 0 : count, count}};
  }
  if (quantity != "raw" || c.parallel != Parallel::no) return {};
  if (w->feed_forward) return {{at + "down", hidden_of(p, *w), 0, count}};
  const Tensor inner = p.observed.value(place.module, "inner");
  return {{at + "output", inner.defined() ? inner : p.observed.value(place.module, "heads"), 0, count}};
}

// (out, in), whatever the file's order.
Tensor out_in(const Tensor& w, bool in_out) {
  return in_out ? transposed_values(w).reshape({w.size(1), w.size(0)}) : w;
}

// Columns map.first .. of x Wᵀ + b, W (out, in).
Tensor mapped(const Predictor& p, const Map& map, const Tensor& weight) {
  Context context;
  Tensor y = ops::linear(context, map.input, {weight, value_of(p, map.parameter + ".bias"), false});
  if (y.width() == map.count) return y;
  Tensor part = Tensor::empty({1, y.size(1), map.count});
  for (int64_t r = 0; r < y.rows(); ++r) {
    const float* row = y.f32() + r * y.width() + map.first;
    std::copy(row, row + map.count, part.f32() + r * map.count);
  }
  return part;
}

// W with the rows of this place's part turned by themselves.
Tensor with_turned_rows(const Tensor& w, int64_t first, int64_t count) {
  Tensor turned = w.clone();
  const Tensor part = transposed_values(w.rows_view(first, count));
  std::copy(part.f32(), part.f32() + part.numel(), turned.f32() + first * w.width());
  return turned;
}

// q or k with token t turned by first + step * t positions, or back by them.
struct Turn {
  int64_t first = 0, step = 0;
  bool back = false;
};
Tensor rotated(const LayerConfig& c, const Tensor& x, const Turn& turn) {
  const int64_t d = c.head_dim;
  std::vector<int32_t> positions;
  for (int64_t t = 0; t < x.rows(); ++t)
    positions.push_back(static_cast<int32_t>(std::abs(turn.first + turn.step * t)));
  const RotaryTable table = Rotary(c).table(*std::ranges::max_element(positions) + 1);
  Tensor y = x.clone();
  rope({.x = y.f32(),
        .rows = y.rows(),
        .row_stride = y.width(),
        .heads = y.width() / d,
        .head_dim = d,
        .rotary_dim = table.rotary_dim,
        .interleaved = c.rope.interleaved,
        .cos = table.cos.f32(),
        .sin = table.sin.f32(),
        .positions = positions.data(),
        .inverse = turn.back || turn.first < 0});
  return y;
}

Tensor position_table(const Predictor& p, const std::string& stack) {
  const ModelConfig& c = p.model.config();
  if (c.positions == Positions::learned) return value_of(p, stack + ".position_embedding.weight");
  if (c.positions != Positions::sinusoidal) return {};
  Tensor table = Tensor::empty({c.max_length, c.width});
  sinusoidal_table(c.sinusoidal_split ? Sinusoid::halves : Sinusoid::interleaved, c.max_length, c.width,
                   table.f32());
  return table;
}

// Embeddings with row t + offset of the position table in place of row t, for the tokens that have one.
std::optional<Prediction> embedded_from(const Tensor& x, const Tensor& table, int64_t offset) {
  const int64_t tokens = x.size(1), width = x.width();
  const int64_t first = std::max<int64_t>(0, -offset), last = std::min(tokens, table.size(0) - offset);
  if (last - first < std::max<int64_t>(1, tokens / 2)) return std::nullopt;
  Tensor moved = Tensor::empty({last - first, width});
  for (int64_t t = first; t < last; ++t) {
    for (int64_t i = 0; i < width; ++i) {
      moved.f32()[(t - first) * width + i] =
          x.f32()[t * width + i] - table.f32()[t * width + i] + table.f32()[(t + offset) * width + i];
    }
  }
  return Prediction{fmt::format("{}", offset), moved, first, last};
}

// (1, T, H D): what each query reads of the values (1, S, K D) under the weights (H, T, S).
Tensor read_values(const Tensor& weights, const Tensor& values, const LayerConfig& c) {
  const int64_t queries = weights.size(1), keys = weights.size(2), d = c.head_dim;
  Tensor heads = Tensor::zeros({1, queries, c.heads * d});
  for (int64_t h = 0; h < c.heads; ++h) {
    for (int64_t t = 0; t < queries; ++t) {
      float* to = heads.f32() + t * heads.width() + h * d;
      for (int64_t s = 0; s < keys; ++s) {
        const float w = weights.f32()[(h * queries + t) * keys + s];
        const float* value = values.f32() + s * values.width() + h / (c.heads / c.kv_heads) * d;
        for (int64_t i = 0; i < d; ++i) to[i] += w * value[i];
      }
    }
  }
  return heads;
}

struct OtherView {
  const char* what;
  AttentionView view;
};
std::vector<OtherView> other_views(const AttentionView& own) {
  std::vector<OtherView> all;
  if (!own.causal) all.push_back({"sees fewer keys (it has a causal mask)", {true, own.window}});
  if (own.causal)
    all.push_back({"sees more keys (it has no causal mask: later tokens, too)", {false, own.window}});
  if (own.window > 0) all.push_back({"sees more keys (it has no window)", {own.causal, 0}});
  if (own.causal && own.window > 0)
    all.push_back({"sees more keys (it has neither causal mask nor window)", {false, 0}});
  return all;
}

// N_out of a sum, or the sum where there is none.
Tensor finished(const Predictor& p, const Within& w, const Tensor& sum) {
  if (!w.formula.norm_out) return sum;
  Context context;
  return ops::norm(context, sum, norm_weights(p.model.parameters(), w.name.module + ".norm_out", w.layer));
}

}  // namespace

Tensor transposed_values(const Tensor& w) {
  const int64_t rows = w.rows(), width = w.width();
  Tensor turned = Tensor::empty(w.shape());
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t i = 0; i < width; ++i) turned.f32()[i * rows + r] = w.f32()[r * width + i];
  }
  return turned;
}

int64_t head_dim_of(const Predictor& p, const Kept& place) {
  const auto w = within(p, place.module);
  for (const char* quantity : {"query", "key", "value", "q", "k", "heads"}) {
    if (w && !w->feed_forward && place.quantity == quantity) return w->layer.head_dim;
  }
  return 0;
}

std::vector<Prediction> without_norm(const Predictor& p, const Kept& place) {
  const auto seen = [&](const char* quantity) { return p.observed.value(place.module, quantity); };
  const ModelConfig& c = p.model.config();
  const auto w = within(p, place.module);
  const std::string at = place.module + ".", &quantity = place.quantity;
  if (!w) {
    const Side side = place.module == "encoder" ? Side::encoder : Side::decoder;
    // Of several streams it norms the mean, which nobody is shown.
    if (quantity == "final" && has_final_norm(c, side) && sublayer_formula(c, side, 0).streams == 1)
      return {{at + "final_norm", seen("output")}};
    if (place.module == "head" && quantity == "inner") return {{"head.norm", seen("hidden")}};
    return {};
  }
  const SublayerFormula& f = w->formula;
  if (quantity == "stream" && c.embedding_norm && f.streams == 1 && w->name.layer == 0 &&
      w->name.part == "attention") {
    const std::string stack = stack_name(w->name.side);
    return {{stack + ".embedding_norm", p.observed.value(stack, "embedding")}};
  }
  if (quantity == "input" && f.norm_in) {
    const Tensor x =
        w->feed_forward && w->layer.parallel != Parallel::no
            ? p.observed.value(place.module.substr(0, place.module.rfind('.')) + ".attention", "stream")
            : seen(f.mixing == Mixing::none ? "stream" : "read");
    return {{at + "norm_in", times(x, f.s)}};
  }
  if ((quantity == "q" || quantity == "k") && w->layer.qk_norm != QkNorm::none) {
    const bool rotary = c.positions == Positions::rope && w->layer.rotary && w->name.part == "attention";
    const Tensor projected = seen(quantity == "q" ? "query" : "key");
    return {{at + (quantity == "q" ? "query_norm" : "key_norm"),
             rotary ? rotated(w->layer, projected, {0, 1}) : projected}};
  }
  if (quantity == "inner") return {{at + "norm_inner", seen(w->feed_forward ? "hidden" : "heads")}};
  if (quantity == "raw" && f.norm_inner && w->layer.parallel == Parallel::no) {
    for (Map& map : map_of(p, place)) {
      map.input = seen(w->feed_forward ? "hidden" : "heads");
      const Parameter* weight = p.model.parameters().find(map.parameter + ".weight");
      if (weight && map.input.defined())
        return {{at + "norm_inner", mapped(p, map, out_in(f32_of(weight->value), weight->in_out))}};
    }
  }
  if (quantity == "branch" && f.norm_branch) return {{at + "norm_branch", seen("raw")}};
  if (quantity == "output" && f.norm_out) return {{at + "norm_out", seen("sum")}};
  return {};
}

std::vector<Prediction> without_residual(const Predictor& p, const Kept& place) {
  const auto w = within(p, place.module);
  const bool sum = place.quantity == "sum", output = place.quantity == "output";
  if (!w || !(sum || output) || w->formula.alpha == 0 || w->formula.mixing != Mixing::none) return {};
  Context context;
  const Tensor gate = gate_of(p.model.parameters(), place.module, w->formula);
  const Tensor branch = p.observed.value(place.module, "branch");
  const Tensor alone = ops::residual(context, {.x = branch, .branch = branch, .alpha = 0, .gate = gate});
  return {{place.module, sum ? alone : finished(p, *w, alone)}};
}

std::vector<Prediction> with_transposed_matrix(const Predictor& p, const Kept& place) {
  std::vector<Prediction> all;
  for (const Map& map : map_of(p, place)) {
    const std::string name = map.parameter + ".weight";
    const Parameter* parameter = p.model.parameters().find(name);
    if (!parameter || !map.input.defined()) continue;
    const Tensor stored = f32_of(parameter->value), w = out_in(stored, parameter->in_out);
    // The file's own matrix turned and its shape left; the part that this place reads turned by itself.
    all.push_back({name, mapped(p, map, out_in(transposed_values(stored), parameter->in_out))});
    if (map.count != w.rows())
      all.push_back({name, mapped(p, map, with_turned_rows(w, map.first, map.count))});
    if (stored.size(0) != stored.size(1)) {  // turned from the other order of the same numbers
      const Tensor other =
          transposed_values(stored.reshape({stored.size(1), stored.size(0)})).reshape(stored.shape());
      all.push_back({name, mapped(p, map, out_in(other, parameter->in_out))});
    }
  }
  return all;
}

Tensor positions_in(const Predictor& p, const Kept& place) {
  const Tensor table = place.quantity == "embedding" ? position_table(p, place.module) : Tensor();
  const int64_t rows = place.value.rows();
  if (!table.defined() || table.size(0) < rows || place.value.width() != table.width()) return {};
  return table.rows_view(0, rows).reshape(place.value.shape());
}

std::vector<Prediction> with_moved_positions(const Predictor& p, const Kept& place) {
  constexpr int64_t kMost = 32;
  const ModelConfig& c = p.model.config();
  const auto w = within(p, place.module);
  const Tensor table = place.quantity == "embedding" ? position_table(p, place.module) : Tensor();
  const bool rotary = w && (place.quantity == "q" || place.quantity == "k") &&
                      c.positions == Positions::rope && w->layer.rotary && w->name.part == "attention";
  std::vector<Prediction> all;
  for (int64_t size = 1; size <= kMost; ++size) {
    for (const int64_t offset : {size, -size}) {
      if (table.defined()) {
        if (auto moved = embedded_from(place.value, table, offset)) all.push_back(std::move(*moved));
      } else if (rotary) {
        all.push_back(
            {fmt::format("{}", offset), rotated(w->layer, place.value, {offset, 0}), 0, place.value.rows()});
      }
    }
  }
  return all;
}

std::vector<Prediction> with_other_pairing(const Predictor& p, const Kept& place) {
  const ModelConfig& c = p.model.config();
  const auto w = within(p, place.module);
  if (!w || w->name.part != "attention" || !(place.quantity == "q" || place.quantity == "k")) return {};
  if (c.positions != Positions::rope || !w->layer.rotary) return {};
  LayerConfig paired = w->layer;
  paired.rope.interleaved = !paired.rope.interleaved;
  return {{paired.rope.interleaved ? "neighbours" : "halves",
           rotated(paired, rotated(w->layer, place.value, {0, 1, true}), {0, 1})}};
}

std::vector<Prediction> with_other_mask(const Predictor& p, const Kept& place) {
  const auto w = within(p, place.module);
  const bool raw = place.quantity == "raw";
  if (!w || w->name.part != "attention" || !(raw || place.quantity == "heads")) return {};
  // Between the heads and the output projection there may be more than the projection.
  if (raw && (w->formula.norm_inner || w->formula.head_scale || w->layer.parallel != Parallel::no)) return {};
  const auto seen = [&](const char* quantity) { return p.observed.value(place.module, quantity); };
  const Tensor q = seen("q"), k = seen("k"), value = seen("value");
  if (!q.defined() || !k.defined() || !value.defined()) return {};
  const ModelConfig& c = p.model.config();
  std::vector<Prediction> all;
  for (const OtherView& other : other_views(view_of(c, w->name))) {
    Tensor heads =
        read_values(attention_weights(c, w->name, other.view, q, k, seen("sinks")), value, w->layer);
    if (raw) {
      Map map = map_of(p, place).at(0);
      map.input = heads;
      const Parameter* weight = p.model.parameters().find(map.parameter + ".weight");
      if (!weight) return {};
      heads = mapped(p, map, out_in(f32_of(weight->value), weight->in_out));
    }
    all.push_back({other.what, heads});
  }
  return all;
}

}  // namespace plumb
