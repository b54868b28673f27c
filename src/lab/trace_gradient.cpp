#include "lab/trace_gradient.h"

#include <cmath>

#include "kernels/loss.h"
#include "kernels/reduce.h"
#include "lab/model_words.h"
#include "ops/norm.h"
#include "plumb/error.h"

namespace plumb {
namespace {

// Each column times its factor, or all times the one.
Tensor scaled(const Tensor& t, const Tensor& factors) {
  Tensor y = t.clone();
  for (int64_t i = 0; i < y.numel(); ++i) y.f32()[i] *= factors.f32()[i % factors.numel()];
  return y;
}

Tensor difference(const Tensor& a, const Tensor& b) {
  Tensor y = a.clone();
  for (int64_t i = 0; i < y.numel(); ++i) y.f32()[i] -= b.f32()[i];
  return y;
}

double rms(const Tensor& t) {
  return std::sqrt(sum_of_squares(t.numel(), t.f32()) / static_cast<double>(t.numel()));
}

double share(const Tensor& part, const Tensor& whole) {
  const double all = sum_of_squares(whole.numel(), whole.f32());
  return all > 0 ? dot(part.numel(), part.f32(), whole.f32()) / all : std::nan("");
}

// What a gradient behind n streams' own map H_res is before it: H_res^T times it, token by token.
Tensor mixed_back(const Tensor& d, int64_t n, const Tensor& res) {
  Tensor y = Tensor::zeros(d.shape());
  const int64_t width = d.width() / n;
  for (int64_t r = 0; r < d.rows(); ++r) {
    for (int64_t k = 0; k < n * n; ++k) {
      const float m = res.f32()[r * n * n + k];
      const float* from = d.f32() + (r * n + k / n) * width;
      float* to = y.f32() + (r * n + k % n) * width;
      for (int64_t c = 0; c < width; ++c) to[c] += m * from[c];
    }
  }
  return y;
}

// dx of y = norm(x), given dy.
Tensor back_through(const Tensor& x, const ops::NormWeights& weights, const Tensor& dy) {
  Tape tape;
  Context context{.tape = &tape};
  Tensor in = x.clone();
  in.set_requires_grad();
  const Tensor y = ops::norm(context, in, weights);
  seed_gradient(y, dy);
  tape.backward();
  return in.grad().clone();
}

Tensor or_zeros(const Tensor& t, const Shape& shape) {
  return t.defined() ? t : Tensor::zeros(shape);
}

std::vector<int32_t> next_tokens(const std::vector<int32_t>& ids) {
  std::vector<int32_t> targets(ids.begin() + 1, ids.end());
  targets.push_back(kIgnore);
  return targets;
}

// Every sixth token from the third on becomes the mask, and a target; special ones stay.
std::vector<int32_t> mask_some(std::vector<int32_t>& ids, const Tokenizer& tokenizer) {
  const auto mask = tokenizer.special(TokenRole::mask);
  if (!mask)
    throw Error(ErrorKind::unsupported, "the gradient of an encoder needs a mask token in its tokenizer");
  std::vector<int32_t> targets(ids.size(), kIgnore);
  for (size_t t = ids.size() > 2 ? 2 : 0; t < ids.size(); t += 6) {
    if (tokenizer.is_special(ids[t])) continue;
    targets[t] = ids[t];
    ids[t] = *mask;
  }
  return targets;
}

}  // namespace

std::vector<GradientShare> gradient_shares(const Transformer& model, const Observed& observed) {
  std::vector<SublayerName> sublayers = sublayers_of(model.config());
  std::vector<GradientShare> shares(sublayers.size());
  Tensor straight;
  for (size_t i = sublayers.size(); i-- > 0;) {
    const SublayerName& s = sublayers[i];
    const SublayerFormula f = sublayer_formula(model.config(), s.side, s.layer, part_named(s.part));
    const Tensor x = observed.value(s.module, "stream");
    const Tensor whole = or_zeros(observed.gradient(s.module, "stream"), x.shape());
    const Tensor after = or_zeros(observed.gradient(s.module, "output"), x.shape());
    if (i + 1 == sublayers.size() || sublayers[i + 1].side != s.side) straight = after;  // a stack's end
    if (f.norm_out) {
      const auto weights = norm_weights(model.parameters(), s.module + ".norm_out",
                                        resolved_layer(model.config(), s.side, s.layer));
      straight = back_through(observed.value(s.module, "sum"), weights, straight);
    }
    const Tensor alpha = shortcut_of(model.parameters(), s.module, f);
    const Tensor res = observed.value(s.module, "res");
    const auto by_shortcut = [&](const Tensor& d) {
      return res.defined() ? mixed_back(d, f.streams, res) : scaled(d, alpha);
    };
    straight = by_shortcut(straight);
    const Tensor at_sum = f.norm_out ? or_zeros(observed.gradient(s.module, "sum"), x.shape()) : after;
    const Tensor shortcut = by_shortcut(at_sum), branch = difference(whole, shortcut);
    shares[i] = {s.module,
                 rms(whole),
                 rms(shortcut),
                 rms(branch),
                 rms(straight),
                 share(shortcut, whole),
                 share(branch, whole),
                 share(straight, whole)};
  }
  return shares;
}

LossGradient loss_gradient(Model& model, const Tokenizer& tokenizer, const PassInput& given) {
  const ModelConfig& c = model.config();
  if (c.head != Head::language_model) {
    throw Error(ErrorKind::unsupported, "a gradient needs a loss, and this model has no language-model head");
  }
  PassInput input = given;
  LossGradient result{.masked = !c.has_decoder()};
  std::vector<int32_t> targets;
  if (result.masked) {
    targets = mask_some(input.ids, tokenizer);
  } else {
    targets = next_tokens(c.has_encoder() ? input.decoder_ids : input.ids);
  }
  for (const int32_t target : targets) result.targets += target != kIgnore;
  if (result.targets == 0) {
    throw Error(ErrorKind::input,
                c.has_encoder() && c.has_decoder()
                    ? "the decoder reads no token after its start, and so has none to predict: give a target"
                    : "the text is too short for a loss: it has no token to predict");
  }
  model.make_trainable();
  Observed observed;
  Tape tape;
  Context context{.tape = &tape, .observer = &observed};
  const Transformer& transformer = model.transformer();
  const Tensor hidden = run_stacks(context, transformer, input);
  const double scale = 1 / static_cast<double>(result.targets);
  const auto count = static_cast<int64_t>(targets.size());
  result.loss =
      scale * transformer.loss(context, hidden, Tensor::of<int32_t>({count}, targets), {.scale = scale}).loss;
  tape.backward();
  result.shares = gradient_shares(transformer, observed);
  for (const auto& p : model.transformer().parameters().all()) p->value.clear_grad();
  return result;
}

}  // namespace plumb
