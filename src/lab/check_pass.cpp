#include "lab/check_pass.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "kernels/loss.h"
#include "kernels/reduce.h"
#include "kernels/rope.h"
#include "lab/trace_pass.h"
#include "nn/depth.h"
#include "nn/rotary.h"
#include "ops/linear.h"
#include "ops/norm.h"

namespace plumb {
namespace {

// Measures what every observer sees, and keeps of what a close one sees what attention and routing follow
// from.
class Collector : public Observer {
 public:
  explicit Collector(std::vector<CheckSite>& sites) : sites_(sites) {}

  bool closely() const override { return true; }
  void forward(const Site& site, const Tensor& value) override {
    const std::string_view quantity = site.quantity, module = site.module;
    const bool of_stack = module.find('.') == std::string_view::npos;
    if (quantity == "stream" || quantity == "branch" || (of_stack && quantity == "output")) {
      const Moments m = moments(value.numel(), value.f32());
      sites_.push_back({site.module, site.quantity, m.max_abs, m.rms, median_abs(value.numel(), value.f32()),
                        m.not_finite});
    }
    const bool heads = quantity == "query" || quantity == "key" || quantity == "q" || quantity == "k";
    if ((heads && module.ends_with(".attention")) ||
        (quantity == "input" && module.ends_with(".feed_forward"))) {
      kept_[{site.module, site.quantity}] = value.without_grad();
    }
  }
  void backward(const Site&, const Tensor&, const Tensor&) override {}

  // (1, T, C); undefined for what the pass did not show.
  Tensor kept(const std::string& module, const std::string& quantity) const {
    const auto it = kept_.find({module, quantity});
    return it == kept_.end() ? Tensor() : it->second;
  }

 private:
  std::vector<CheckSite>& sites_;
  std::map<std::pair<std::string, std::string>, Tensor> kept_;
};

// What stands around one layer of the pass.
struct LayerSite {
  const Transformer& model;
  const Collector& seen;
  Side side;
  LayerConfig layer;
  std::string prefix;  // decoder.3
};

// Queries (T, H, D) or keys (T, K, D) of a layer.
struct Heads {
  std::vector<float> x;
  int64_t heads = 0;
};

// As they met in the pass.
Heads met(const LayerSite& l, bool query) {
  const Tensor x = l.seen.kept(l.prefix + ".attention", query ? "q" : "k");
  return {{x.f32(), x.f32() + x.numel()}, query ? l.layer.heads : l.layer.kv_heads};
}

// As projected and normed, before rotary positions.
Heads unturned(const LayerSite& l, bool query) {
  const std::string module = l.prefix + ".attention";
  Tensor x = l.seen.kept(module, query ? "query" : "key");
  if (l.layer.qk_norm != QkNorm::none) {
    const int64_t group = l.layer.qk_norm == QkNorm::whole ? x.width() : l.layer.head_dim;
    Context context;
    x = ops::norm(context, x.reshape({x.numel() / group, group}),
                  norm_weights(l.model.parameters(), module + (query ? ".query_norm" : ".key_norm"), l.layer),
                  1);
  }
  return {{x.f32(), x.f32() + x.numel()}, query ? l.layer.heads : l.layer.kv_heads};
}

void turn(const LayerSite& l, Heads& h, bool interleaved) {
  const int64_t d = l.layer.head_dim, rows = static_cast<int64_t>(h.x.size()) / (h.heads * d);
  const RotaryTable table = Rotary(l.layer).table(rows);
  std::vector<int32_t> positions(static_cast<size_t>(rows));
  for (int64_t t = 0; t < rows; ++t) positions[t] = static_cast<int32_t>(t);
  rope({.x = h.x.data(),
        .rows = rows,
        .row_stride = h.heads * d,
        .heads = h.heads,
        .head_dim = d,
        .rotary_dim = table.rotary_dim,
        .interleaved = interleaved,
        .cos = table.cos.f32(),
        .sin = table.sin.f32(),
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

CheckAttention attention_of(const LayerSite& l) {
  const ModelConfig& c = l.model.config();
  const AttentionSums own = attention_sums(l, met(l, true), met(l, false));
  CheckAttention a{.module = l.prefix + ".attention",
                   .max_logit = own.max_logit,
                   .entropy = own.entropy,
                   .distance = own.distance,
                   .other_distance = own.distance,
                   .rotary = c.positions == Positions::rope && l.layer.rotary};
  // Between the projection and the rotation only a norm of one kind is made again here.
  const LayerConfig& n = l.layer;
  if (n.qk_norm == QkNorm::own_gains || n.qk_norm_late || n.qkv_limit > 0) a.rotary = false;
  if (!a.rotary) return a;
  Heads q = unturned(l, true), k = unturned(l, false);
  turn(l, q, !l.layer.rope.interleaved);
  turn(l, k, !l.layer.rope.interleaved);
  a.other_distance = attention_sums(l, q, k).distance;
  return a;
}

CheckRouting routing_of(const LayerSite& l, const Tensor& input) {
  const std::string module = l.prefix + ".feed_forward";
  Context context;
  const Tensor logits = ops::linear(
      context, input,
      {l.model.parameters().find(module + ".router.weight")->value, {}, l.model.config().linear_in_out});
  CheckRouting r{.module = module, .tokens = std::vector<int64_t>(logits.width())};
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

// Nats of each token but the first.
std::vector<float> losses_of(const Transformer& model, const Tokens& tokens,
                             const std::vector<int32_t>& ids) {
  Context context;
  const Tensor logits = model.logits(context, model.decode(context, tokens));
  std::vector<float> losses(ids.size() - 1);
  cross_entropy({.rows = std::ssize(losses),
                 .vocabulary = logits.width(),
                 .logits = logits.f32(),
                 .targets = ids.data() + 1,
                 .row_nll = losses.data()});
  return losses;
}

// With the same weights under the other style of pairing dims beside it.
void compare_losses(const Transformer& model, const Tokens& tokens, CheckPass& pass) {
  ModelConfig c = model.config();
  c.layer.rope.interleaved = !c.layer.rope.interleaved;
  for (LayerRun& run : c.decoder_runs) run.layer.rope.interleaved = !run.layer.rope.interleaved;
  Transformer other(c);
  const auto &from = model.parameters().all(), &to = other.parameters().all();
  for (size_t i = 0; i < to.size(); ++i) to[i]->value = from[i]->value;
  const std::vector<float> own = losses_of(model, tokens, pass.ids),
                           others = losses_of(other, tokens, pass.ids);
  const auto n = static_cast<double>(own.size());
  double squares = 0;
  for (size_t i = 0; i < own.size(); ++i) {
    pass.loss += own[i] / n;
    pass.other_loss += others[i] / n;
  }
  const double mean = pass.loss - pass.other_loss;
  for (size_t i = 0; i < own.size(); ++i) squares += std::pow(double{own[i]} - others[i] - mean, 2);
  pass.loss_error = std::sqrt(squares / n / std::max(1.0, n - 1));
}

void measure_layers(const Transformer& model, const Collector& seen, CheckPass& pass) {
  const ModelConfig& c = model.config();
  for (const Side side : {Side::encoder, Side::decoder}) {
    for (int64_t i = 0; i < layers_of(c, side); ++i) {
      const LayerSite l{model, seen, side, resolved_layer(c, side, i),
                        std::string(stack_name(side)) + "." + std::to_string(i)};
      if (seen.kept(l.prefix + ".attention", "q").defined()) pass.attention.push_back(attention_of(l));
      const Tensor input = seen.kept(l.prefix + ".feed_forward", "input");
      if (input.defined() && l.layer.experts > 0) pass.routing.push_back(routing_of(l, input));
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
  measure_layers(model, collector, pass);
  if (c.positions == Positions::rope && !c.has_encoder() && c.head == Head::language_model) {
    compare_losses(model, tokens, pass);
  }
  return pass;
}

}  // namespace plumb
