// What to try, by signature and course; what the run has already is not proposed.
#include <fmt/format.h>

#include <cstdlib>

#include "lab/diagnose_rules.h"

namespace plumb {
namespace {

double number(const RunRecords& run, std::string_view key, double fallback) {
  const std::string text = setting(run, key);
  return text.empty() ? fallback : std::strtod(text.c_str(), nullptr);
}

class Remedies {
 public:
  explicit Remedies(const RunRecords& run) : run_(run) {}

  void add(std::string flag, std::string why) { all_.push_back({std::move(flag), std::move(why)}); }
  void lower_rate() {
    const double lr = number(run_, "lr", 0);
    add(lr > 0 ? fmt::format("--lr {:.2g}", lr / 3) : "--lr", "smaller steps: a third of the learning rate");
  }
  void warm_up() {
    const double warmup = number(run_, "warmup", 0), steps = number(run_, "steps", 0);
    if (steps > 0 && warmup >= steps / 10) return;
    add(steps > 0 ? fmt::format("--warmup {:.0f}", std::max(1.0, steps / 10)) : "--warmup",
        "the first updates are the ones that a fresh model bears least");
  }
  void norm_queries() {
    if (run_.config && run_.config->layer.qk_norm != QkNorm::none) return;
    add("--qk-norm per-head", "norms on queries and keys bound the logits (Wortsman 2023, 2309.14322)");
  }
  void clip() {
    if (number(run_, "clip", 1) == 0) add("--clip 1", "bounds what one step can do");
  }
  void z_loss() {
    if (number(run_, "z-loss", 0) == 0)
      add("--z-loss 1e-4", "pulls log Z to 0, which the loss alone leaves free (Chowdhery 2022, 2204.02311)");
  }
  void pre_norm() {
    if (setting(run_, "placement") == "post-norm")
      add("--placement pre-norm",
          "deep post-norm stacks need a warm-up to leave the start at all (Xiong 2020, 2002.04745)");
  }
  std::vector<Remedy> take() { return std::move(all_); }

 private:
  const RunRecords& run_;
  std::vector<Remedy> all_;
};

}  // namespace

std::vector<Remedy> remedies_for(const RunRecords& run, Signature signature) {
  Remedies r(run);
  switch (signature) {
    case Signature::attention_logit_growth:
    case Signature::entropy_collapse:
      r.norm_queries();
      r.lower_rate();
      r.warm_up();
      break;
    case Signature::output_logit_drift:
      r.z_loss();
      r.lower_rate();
      if (number(run, "weight-decay", 0.1) == 0) r.add("--weight-decay 0.1", "holds the head's weights back");
      break;
    case Signature::embedding_gradient_spike:
      if (run.config && !run.config->embedding_norm)
        r.add("--embedding-norm",
              "a stream of size 1 from the start keeps its gradient small (Takase 2023, 2312.16903)");
      r.clip();
      r.lower_rate();
      break;
    case Signature::dead_branch:
      r.lower_rate();
      if (!run.config || run.config->layer.activation == Activation::relu)
        r.add("--activation silu", "relu has a half-line that passes no gradient");
      r.warm_up();
      break;
    case Signature::massive_activations:
      r.add("--placement sandwich",
            "a norm on each branch bounds what it adds to the stream (Kim 2025, 2502.02732)");
      r.lower_rate();
      break;
    case Signature::precision_overflow:
      r.lower_rate();
      r.clip();
      r.warm_up();
      if (setting(run, "dtype") == "bf16") r.add("--dtype f32", "tells rounding from growth");
      break;
    case Signature::data_spike:
      r.add("--text",
            "look at what the text holds there: another language, binary, one line again and again");
      if (setting(run, "spike") != "skip") r.add("--spike skip", "leaves the update of such a step out");
      r.clip();
      break;
  }
  return r.take();
}

std::vector<Remedy> remedies_for(const RunRecords& run, const LossCourse& course) {
  Remedies r(run);
  if (course.course == Course::sound) return {};
  r.pre_norm();
  if (course.course == Course::diverged) {
    r.lower_rate();
    r.warm_up();
    r.clip();
    return r.take();
  }
  r.warm_up();
  std::vector<double> updates;
  for (const Series& s : site_series(run, "weights.update_ratio")) {
    if (!s.values.empty()) updates.push_back(s.values.back());
  }
  const double usual = median_of(updates), lr = number(run, "lr", 0);
  if (usual < 1e-4) {
    r.add(lr > 0 ? fmt::format("--lr {:.2g}", lr * 10) : "--lr",
          fmt::format("an update changes the weights by {:.1g} of their size: larger steps", usual));
  } else {
    r.lower_rate();
  }
  return r.take();
}

}  // namespace plumb
