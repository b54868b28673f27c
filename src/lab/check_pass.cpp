#include "lab/check_pass.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "kernels/loss.h"
#include "kernels/reduce.h"
#include "kernels/rope.h"
#include "ops/attention.h"
#include "ops/linear.h"
#include "ops/norm.h"

namespace plumb {
namespace {

class Collector : public Observer {
 public:
  explicit Collector(std::vector<CheckSite>& sites) : sites_(sites) {}

  void forward(const Site& site, const Tensor& value) override {
    const Moments m = moments(value.numel(), value.f32());
    sites_.push_back(
        {site.module, site.quantity, m.max_abs, m.rms, median_abs(value.numel(), value.f32()), m.not_finite});
    if (std::string_view(site.quantity) == "stream") streams_[site.module] = value.clone();
  }
  void backward(const Site&, const Tensor&, const Tensor&) override {}

  // (1, T, C); null for a module that has not run.
  const Tensor* stream(const std::string& module) const {
    const auto it = streams_.find(module);
    return it == streams_.end() ? nullptr : &it->second;
  }

 private:
  std::vector<CheckSite>& sites_;
  std::map<std::string, Tensor> streams_;
};

// What stands around one layer of the pass.
struct LayerSite {
  const Transformer& model;
  Side side;
  int64_t index;
  LayerConfig layer;
  SublayerFormula formula;
  std::string prefix;  // decoder.3

  Tensor value(const std::string& name) const {
    const Parameter* p = model.parameters().find(prefix + name);
    return p ? p->value : Tensor();
  }
};

Tensor normed(Context& context, const LayerSite& l, const std::string& norm, const Tensor& x, double s) {
  return ops::norm(context, x,
                   {.kind = l.layer.norm,
                    .eps = l.layer.norm_eps,
                    .unit_offset = l.layer.norm_unit_offset,
                    .gain = l.value(norm + ".gain"),
                    .bias = l.value(norm + ".bias"),
                    .alpha = l.value(norm + ".alpha"),
                    .running_mean = l.value(norm + ".running_mean"),
                    .running_var = l.value(norm + ".running_var")},
                   s);
}

Tensor branch_input(Context& context, const LayerSite& l, const std::string& sublayer, const Tensor& stream) {
  return l.formula.norm_in ? normed(context, l, sublayer + ".norm_in", stream, l.formula.s) : stream;
}

Tensor projected(Context& context, const LayerSite& l, const std::string& name, const Tensor& x) {
  return ops::linear(context, x,
                     {l.value(name + ".weight"), l.value(name + ".bias"), l.model.config().linear_in_out});
}

// Queries (T, H, D) or keys (T, K, D) of a layer, before rotary positions.
struct Heads {
  std::vector<float> x;
  int64_t heads = 0;
};

Heads heads_of(Context& context, const LayerSite& l, const Tensor& input, bool query) {
  const int64_t rows = input.rows(), d = l.layer.head_dim, q = l.layer.heads * d;
  Heads h{.heads = query ? l.layer.heads : l.layer.kv_heads};
  const int64_t width = h.heads * d;
  const bool fused = l.layer.qkv_fused;
  const Tensor all = projected(context, l,
                               fused   ? ".attention.qkv"
                               : query ? ".attention.query"
                                       : ".attention.key",
                               input);
  const int64_t first = fused && !query ? q : 0;
  Tensor part = Tensor::empty({rows, width});
  for (int64_t t = 0; t < rows; ++t)
    std::copy_n(all.f32() + t * all.width() + first, width, part.f32() + t * width);
  if (l.layer.qk_norm != QkNorm::none) {
    const int64_t group = l.layer.qk_norm == QkNorm::whole ? width : d;
    part = normed(context, l, query ? ".attention.query_norm" : ".attention.key_norm",
                  part.reshape({rows * width / group, group}), 1);
  }
  h.x.assign(part.f32(), part.f32() + rows * width);
  return h;
}

void turn(const LayerSite& l, Heads& h, bool interleaved) {
  const ModelConfig& c = l.model.config();
  const int64_t d = l.layer.head_dim, rows = static_cast<int64_t>(h.x.size()) / (h.heads * d);
  const int64_t turned = static_cast<int64_t>(static_cast<double>(d) * c.rope_fraction) / 2 * 2;
  std::vector<double> frequencies = rope_frequencies(c.rope_base, turned);
  for (double& f : frequencies) f /= c.rope_factor;
  const RopeTable table = rope_table(frequencies, rows);
  std::vector<int32_t> positions(static_cast<size_t>(rows));
  for (int64_t t = 0; t < rows; ++t) positions[t] = static_cast<int32_t>(t);
  rope({.x = h.x.data(),
        .rows = rows,
        .row_stride = h.heads * d,
        .heads = h.heads,
        .head_dim = d,
        .rotary_dim = turned,
        .interleaved = interleaved,
        .cos = table.cos.data(),
        .sin = table.sin.data(),
        .positions = positions.data()});
}

struct AttentionSums {
  double max_logit = 0, entropy = 0, distance = 0;
};

// The attention weights of every head and query from the third on. ALiBi's slopes are left out.
AttentionSums attention_sums(const LayerSite& l, const Heads& q, const Heads& k) {
  const int64_t d = l.layer.head_dim, rows = static_cast<int64_t>(q.x.size()) / (q.heads * d);
  const double scale =
      l.layer.attention_scale != 0 ? l.layer.attention_scale : 1 / std::sqrt(static_cast<double>(d));
  AttentionSums sums;
  std::vector<double> p(static_cast<size_t>(rows));
  for (int64_t h = 0; h < q.heads; ++h) {
    const int64_t kv = h * k.heads / q.heads;
    for (int64_t i = 2; i < rows; ++i) {
      const int64_t last = l.side == Side::decoder ? i : rows - 1;
      double top = -INFINITY, total = 0, uniform = 0, distance = 0, entropy = 0, seen = 0;
      for (int64_t j = 0; j <= last; ++j) {
        double z = 0;
        for (int64_t e = 0; e < d; ++e)
          z += static_cast<double>(q.x[(i * q.heads + h) * d + e]) * k.x[(j * k.heads + kv) * d + e];
        p[j] = z * scale;
        top = std::max(top, p[j]);
        sums.max_logit = std::max(sums.max_logit, std::abs(p[j]));
      }
      for (int64_t j = 0; j <= last; ++j) total += p[j] = std::exp(p[j] - top);
      for (int64_t j = 0; j <= last; ++j) {
        const double w = p[j] / total, away = static_cast<double>(std::abs(i - j));
        if (w > 0) entropy -= w * std::log(w);
        if (j == 0) continue;
        seen += w;
        distance += w * away;
        uniform += away / static_cast<double>(last);
      }
      sums.entropy += entropy / std::log(static_cast<double>(last + 1));
      sums.distance += seen > 0 ? distance / seen / uniform : 1;
    }
  }
  const double count = static_cast<double>(q.heads * std::max<int64_t>(1, rows - 2));
  sums.entropy /= count;
  sums.distance /= count;
  return sums;
}

CheckAttention attention_of(Context& context, const LayerSite& l, const Tensor& stream) {
  const Tensor input = branch_input(context, l, ".attention", stream);
  const Heads q = heads_of(context, l, input, true), k = heads_of(context, l, input, false);
  CheckAttention a{.module = l.prefix + ".attention"};
  const ModelConfig& c = l.model.config();
  a.rotary = c.positions == Positions::rope && l.layer.rotary;
  const auto with = [&](bool interleaved) {
    Heads tq = q, tk = k;
    if (a.rotary) {
      turn(l, tq, interleaved);
      turn(l, tk, interleaved);
    }
    return attention_sums(l, tq, tk);
  };
  const AttentionSums own = with(c.rope_interleaved);
  a.max_logit = own.max_logit;
  a.entropy = own.entropy;
  a.distance = own.distance;
  a.other_distance = a.rotary ? with(!c.rope_interleaved).distance : own.distance;
  return a;
}

CheckRouting routing_of(Context& context, const LayerSite& l, const Tensor& stream) {
  const Tensor logits =
      projected(context, l, ".feed_forward.router", branch_input(context, l, ".feed_forward", stream));
  CheckRouting r{.module = l.prefix + ".feed_forward", .tokens = std::vector<int64_t>(logits.width())};
  std::vector<int64_t> order(static_cast<size_t>(logits.width()));
  for (int64_t t = 0; t < logits.rows(); ++t) {
    const float* z = logits.f32() + t * logits.width();
    for (size_t e = 0; e < order.size(); ++e) order[e] = static_cast<int64_t>(e);
    const int64_t k = l.layer.experts_per_token;
    std::partial_sort(order.begin(), order.begin() + k, order.end(),
                      [&](int64_t a, int64_t b) { return z[a] > z[b]; });
    for (int64_t e = 0; e < k; ++e) ++r.tokens[order[e]];
    r.sent += k;
  }
  return r;
}

double mean_cosine(const Tensor& x) {  // (1, T, C)
  const int64_t rows = x.rows(), width = x.width();
  double sum = 0;
  int64_t pairs = 0;
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = i + 1; j < rows; ++j, ++pairs) {
      const float *a = x.f32() + i * width, *b = x.f32() + j * width;
      const double lengths = std::sqrt(dot(width, a, a) * dot(width, b, b));
      sum += lengths > 0 ? dot(width, a, b) / lengths : 0;
    }
  }
  return pairs > 0 ? sum / static_cast<double>(pairs) : 0;
}

double loss_of(const Transformer& model, const Tokens& tokens, const std::vector<int32_t>& ids) {
  std::vector<int32_t> targets(ids.begin() + 1, ids.end());
  targets.push_back(kIgnore);
  Context context;
  const LossSums sums = model.loss(context, model.decode(context, tokens),
                                   Tensor::of<int32_t>({static_cast<int64_t>(targets.size())}, targets), {});
  return sums.loss / static_cast<double>(ids.size() - 1);
}

// The same weights under the other style of pairing dims.
double other_loss_of(const Transformer& model, const Tokens& tokens, const std::vector<int32_t>& ids) {
  ModelConfig c = model.config();
  c.rope_interleaved = !c.rope_interleaved;
  Transformer other(c);
  const auto &from = model.parameters().all(), &to = other.parameters().all();
  for (size_t i = 0; i < to.size(); ++i) to[i]->value = from[i]->value;
  return loss_of(other, tokens, ids);
}

void measure_layers(Context& context, const Transformer& model, const Collector& seen, CheckPass& pass) {
  const ModelConfig& c = model.config();
  for (const Side side : {Side::encoder, Side::decoder}) {
    const int64_t layers = side == Side::encoder ? c.encoder_layers : c.decoder_layers;
    for (int64_t i = 0; i < layers; ++i) {
      const LayerSite l{model,
                        side,
                        i,
                        resolved_layer(c, side, i),
                        sublayer_formula(c, side, i),
                        (side == Side::encoder ? "encoder." : "decoder.") + std::to_string(i)};
      if (const Tensor* x = seen.stream(l.prefix + ".attention"))
        pass.attention.push_back(attention_of(context, l, *x));
      if (const Tensor* x = seen.stream(l.prefix + ".feed_forward"); x && l.layer.experts > 0)
        pass.routing.push_back(routing_of(context, l, *x));
    }
  }
}

}  // namespace

CheckPass check_pass(const Transformer& model, const std::vector<int32_t>& ids, bool of_text) {
  const ModelConfig& c = model.config();
  CheckPass pass{.ids = ids, .of_text = of_text};
  Collector collector(pass.sites);
  Context context{.observer = &collector};
  const Tokens tokens{.ids = Tensor::of<int32_t>({1, static_cast<int64_t>(ids.size())}, ids)};
  Tensor memory;
  if (c.has_encoder()) memory = model.encode(context, tokens);
  const Tensor last = c.has_decoder() ? model.decode(context, tokens, memory) : memory;
  pass.token_cosine = mean_cosine(last);
  Context quiet;
  measure_layers(quiet, model, collector, pass);
  if (c.positions == Positions::rope && !c.has_encoder() && c.head == Head::language_model) {
    pass.loss = loss_of(model, tokens, ids);
    pass.other_loss = other_loss_of(model, tokens, ids);
  }
  return pass;
}

}  // namespace plumb
