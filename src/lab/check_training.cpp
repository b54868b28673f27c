// Rules on how a model is to be trained: of recipes, and of run folders.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "lab/check.h"

namespace plumb {
namespace {

using Check = void (*)(const TrainOptions& o, const ModelConfig& c, Findings& f);

template <Check check>
void of_training(const CheckSubject& s, Findings& f) {
  if (s.training && s.config) check(*s.training, *s.config, f);
}

// The most layers of a stack of plain post-norm; 0 where there is none.
int64_t post_norm_layers(const ModelConfig& c) {
  int64_t most = 0;
  for (const Side side : {Side::encoder, Side::decoder}) {
    int64_t count = 0;
    for (int64_t i = 0; i < layers_of(c, side); ++i) {
      const SublayerFormula f = sublayer_formula(c, side, i);
      count +=
          f.norm_out && f.alpha <= 1 && f.shortcut == GateKind::constant && f.dual == 0 && !f.unit ? 1 : 0;
    }
    most = std::max(most, count);
  }
  return most;
}

bool has_qk_norm(const ModelConfig& c) {
  return c.layer.qk_norm != QkNorm::none;
}

void post_norm_without_warmup(const TrainOptions& o, const ModelConfig& c, Findings& f) {
  const int64_t layers = post_norm_layers(c);
  const int64_t needed = std::min<int64_t>(100, o.steps / 10);
  if (layers < 12 || o.warmup >= needed || o.lr < 3e-4) return;
  f.add("warmup",
        fmt::format("{} steps of warm-up for {} post-norm layers at lr {:g}", o.warmup, layers, o.lr),
        fmt::format("at least {}", needed));
}

void post_norm_too_deep(const TrainOptions& o, const ModelConfig& c, Findings& f) {
  const int64_t layers = post_norm_layers(c);
  if (layers < 18 || o.lr < 1e-3) return;
  f.add("placement", fmt::format("{} post-norm layers at lr {:g}", layers, o.lr),
        "deep-norm or pre-norm; such stacks stay at the unigram loss with any warm-up up to 200");
}

void high_rate_without_qk_norm(const TrainOptions& o, const ModelConfig& c, Findings& f) {
  if (o.optimizer == OptimizerKind::sgd || o.lr < 1e-2 || has_qk_norm(c)) return;
  f.add("lr", fmt::format("{:g} without a norm on queries and keys", o.lr), "qk_norm, or lr below 0.01");
}

void too_long(const TrainOptions& o, const ModelConfig& c, Findings& f) {
  if (o.length > c.max_length)
    f.add("length", fmt::format("{} tokens of a sequence", o.length),
          fmt::format("at most max-length = {}", c.max_length));
}

void never_warm(const TrainOptions& o, const ModelConfig&, Findings& f) {
  if (o.warmup > 0 && o.warmup >= o.steps)
    f.add("warmup", fmt::format("{} of {} steps", o.warmup, o.steps), "a part of the steps");
}

void no_clipping(const TrainOptions& o, const ModelConfig& c, Findings& f) {
  if (o.clip == 0 && o.optimizer != OptimizerKind::sgd && std::max(c.encoder_layers, c.decoder_layers) >= 12)
    f.add("clip", "0: no bound on the gradient", "1");
}

void decay_too_strong(const TrainOptions& o, const ModelConfig&, Findings& f) {
  const double shrink = o.lr * o.weight_decay;
  if (o.optimizer == OptimizerKind::sgd || shrink < 5e-3) return;
  f.add("weight-decay",
        fmt::format("lr x weight-decay = {:.3g}: matrices halve in {:.0f} steps without a gradient", shrink,
                    std::log(2) / shrink),
        "below 0.005");
}

void eps_of_adam(const TrainOptions& o, const ModelConfig&, Findings& f) {
  if (o.optimizer == OptimizerKind::sgd || o.eps < 1e-5) return;
  f.add("eps", fmt::format("{:g} beside the root of the second moment", o.eps),
        "1e-8; RMS of gradients falls to 1e-5");
}

void heavy_dropout(const TrainOptions&, const ModelConfig& c, Findings& f) {
  const std::pair<const char*, double> all[] = {{"dropout", c.dropout},
                                                {"attention-dropout", c.attention_dropout},
                                                {"embedding-dropout", c.embedding_dropout}};
  for (const auto& [name, p] : all)
    if (p >= 0.5) f.add(name, fmt::format("{:g}", p), "0 to 0.3");
}

void small_shortcut(const TrainOptions&, const ModelConfig& c, Findings& f) {
  const int64_t layers = std::max(c.encoder_layers, c.decoder_layers);
  const double stream = c.init_std * c.embedding_scale;
  const SublayerFormula first = sublayer_formula(c, c.has_decoder() ? Side::decoder : Side::encoder, 0);
  if (layers < 24 || stream > 0.1 || c.embedding_norm || !first.norm_in || first.norm_branch) return;
  f.add("embedding", fmt::format("a stream of RMS {:.3g} at the start of {} layers", stream, layers),
        "about 0.6: embedding-scale = sqrt(width), or embedding-norm");
}

constexpr Rule kRules[] = {
    {"PL801", Severity::warning, "A deep post-norm stack is trained with next to no warm-up.",
     "Xiong 2020, arXiv 2002.04745", "Warm up for some hundred steps, or use deep-norm or pre-norm.",
     of_training<post_norm_without_warmup>},
    {"PL802", Severity::warning, "A post-norm stack is too deep for its learning rate.",
     "Wang 2022, arXiv 2203.00555; Liu 2020, arXiv 2004.08249", "Use deep-norm, or a lower rate.",
     of_training<post_norm_too_deep>},
    {"PL803", Severity::warning, "The learning rate is high, and nothing bounds the attention logits.",
     "Wortsman 2023, arXiv 2309.14322; Dehghani 2023, arXiv 2302.05442",
     "Set qk-norm to per-head, or lower lr.", of_training<high_rate_without_qk_norm>},
    {"PL804", Severity::error, "The sequences are longer than the model's longest.",
     "Press 2021 (ALiBi), arXiv 2108.12409", "Raise max-length, or lower length.", of_training<too_long>},
    {"PL805", Severity::warning, "The run ends before the warm-up does.", "Vaswani 2017, arXiv 1706.03762",
     "Lower warmup, or raise steps.", of_training<never_warm>},
    {"PL806", Severity::note, "A deep stack is trained without clipping.", "Pascanu 2012, arXiv 1211.5063",
     "Set clip to 1.", of_training<no_clipping>},
    {"PL807", Severity::warning, "Weight decay shrinks matrices faster than a run can build them.",
     "Loshchilov and Hutter 2017, arXiv 1711.05101; Wortsman 2023, arXiv 2309.14322", "Lower weight-decay.",
     of_training<decay_too_strong>},
    {"PL808", Severity::warning, "AdamW's eps is of the size of the gradients.",
     "Wortsman 2023, arXiv 2309.14322", "Set eps to 1e-8.", of_training<eps_of_adam>},
    {"PL809", Severity::warning, "Half of the activations or more are dropped.",
     "Vaswani 2017, arXiv 1706.03762", "Lower the dropout to 0.1.", of_training<heavy_dropout>},
    {"PL810", Severity::note,
     "The stream of a deep pre-norm stack starts small, which makes gradients spike.",
     "Takase 2023, arXiv 2312.16903", "Scale the embedding by sqrt(width), or norm it.",
     of_training<small_shortcut>},
};

}  // namespace

const RuleGroup kTrainingRules{"training", kRules};

}  // namespace plumb
