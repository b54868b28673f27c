// Rules on mixtures of experts.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "lab/check.h"

namespace plumb {
namespace {

void more_than_there_are(const CheckSubject& s, Findings& f) {
  std::optional<int64_t> experts, chosen;
  if (s.config) {
    experts = s.config->layer.experts;
    chosen = s.config->layer.experts_per_token;
  } else {
    experts = whole(s.json, {"num_local_experts", "num_experts", "n_routed_experts"});
    chosen = whole(s.json, {"num_experts_per_tok", "num_experts_per_token"});
  }
  if (!experts || !chosen || *experts < 1 || (*chosen >= 1 && *chosen <= *experts)) return;
  f.add(s.recipe() ? "recipe" : "config.json",
        fmt::format("{} of {} experts for each token", *chosen, *experts), fmt::format("1 to {}", *experts));
}

// Only where chance does not explain it: an even router would have sent 20 tokens or more.
void unused_experts(const CheckSubject& s, Findings& f) {
  for (const CheckRouting& r : s.pass.routing) {
    const double even = static_cast<double>(r.sent) / static_cast<double>(r.tokens.size());
    const auto unused = std::count(r.tokens.begin(), r.tokens.end(), 0);
    if (even >= 20 && unused > 0)
      f.add(r.module,
            fmt::format("{} of {} experts received none of {} tokens", unused, r.tokens.size(),
                        s.pass.ids.size()),
            fmt::format("about {:.0f} each", even));
  }
}

void one_takes_all(const CheckSubject& s, Findings& f) {
  for (const CheckRouting& r : s.pass.routing) {
    const auto tokens = static_cast<int64_t>(s.pass.ids.size());
    const double even = static_cast<double>(r.sent) / static_cast<double>(r.tokens.size());
    const int64_t most = *std::max_element(r.tokens.begin(), r.tokens.end());
    if (tokens >= 40 && 20 * most >= 19 * tokens && static_cast<double>(most) >= 3 * even)
      f.add(r.module, fmt::format("one expert received {} of {} tokens", most, tokens),
            fmt::format("about {:.0f}", even));
  }
}

// "...experts.3.up.weight" to "...experts.#.up.weight"; "" for others.
std::string beside_experts(const std::string& name) {
  const size_t at = name.find("experts.");
  if (at == std::string::npos) return "";
  const size_t number = at + 8, end = name.find('.', number);
  return end == std::string::npos ? "" : name.substr(0, number) + "#" + name.substr(end);
}

double cosine(const CheckTensor& a, const CheckTensor& b) {
  const Tensor x = a.f32(), y = b.f32();
  const double lengths = a.moments.rms * b.moments.rms * static_cast<double>(x.numel());
  return lengths > 0 ? dot(x.numel(), x.f32(), y.f32()) / lengths : 0;
}

void duplicate_experts(const CheckSubject& s, Findings& f) {
  std::map<std::string, std::vector<const CheckTensor*>> beside;
  for (const CheckTensor& t : s.tensors) {
    const std::string key = beside_experts(t.name);
    if (!key.empty() && t.role == Role::matrix && !t.constant() && t.moments.not_finite == 0)
      beside[key].push_back(&t);
  }
  for (const auto& [key, experts] : beside) {
    for (size_t i = 1; i < experts.size(); ++i) {
      for (size_t j = 0; j < i; ++j) {
        const double c = cosine(*experts[i], *experts[j]);
        if (c < 0.999) continue;
        f.add(experts[i]->name, fmt::format("cosine {:.5f} with {}", c, experts[j]->name),
              "experts that differ");
        break;
      }
    }
  }
}

std::optional<std::pair<int64_t, int64_t>> first_equal_rows(const Tensor& x) {
  const int64_t width = x.width();
  for (int64_t later = 1; later < x.rows(); ++later) {
    for (int64_t row = 0; row < later; ++row) {
      const float *a = x.f32() + row * width, *b = x.f32() + later * width;
      if (std::equal(a, a + width, b)) return std::pair(row, later);
    }
  }
  return std::nullopt;
}

void router_rows_alike(const CheckSubject& s, Findings& f) {
  for (const CheckTensor& t : s.tensors) {
    const bool router = t.name.ends_with("router.weight") ||
                        t.name.ends_with("block_sparse_moe.gate.weight") ||
                        t.name.ends_with("mlp.gate.weight");
    if (!router || t.value.shape().rank() != 2 || t.moments.not_finite > 0) continue;
    if (const auto rows = first_equal_rows(t.f32()))
      f.add(t.name, fmt::format("the rows of experts {} and {} are equal", rows->first, rows->second),
            "a row of its own for each expert");
  }
}

void no_balance(const CheckSubject& s, Findings& f) {
  if (!s.training || !s.config || s.config->layer.experts < 2 || s.config->router_aux > 0) return;
  f.add("router_aux", "0: nothing spreads the tokens over the experts", "about 0.01");
}

void pointless_experts(const CheckSubject& s, Findings& f) {
  by_layers(s, f, [](const LayerView& v) -> std::optional<LayerFault> {
    const LayerConfig& l = v.layer;
    if (l.experts < 1 || (l.experts > 1 && l.experts_per_token < l.experts)) return {};
    return LayerFault{fmt::format("{} of {} experts for each token", l.experts_per_token, l.experts),
                      "fewer than there are; or a dense feed-forward"};
  });
}

constexpr Rule kRules[] = {
    {"PL501", Severity::error, "A token is to be sent to more experts than there are, or to none.",
     "Shazeer 2017, arXiv 1701.06538", "Set experts_per_token between 1 and the experts.",
     more_than_there_are},
    {"PL502", Severity::warning, "Experts receive no token of the sample text.",
     "Fedus 2021 (Switch), arXiv 2101.03961", "Train with a larger router_aux.", unused_experts},
    {"PL503", Severity::warning, "One expert receives nearly every token.", "Shazeer 2017, arXiv 1701.06538",
     "Train with a larger router_aux.", one_takes_all},
    {"PL504", Severity::warning, "Two experts of a layer are the same.",
     "Komatsuzaki 2022 (upcycling), arXiv 2212.05055", "Train on from the copies, or keep one.",
     duplicate_experts},
    {"PL505", Severity::warning,
     "The router has equal rows for two experts, so that neither can be preferred.",
     "Shazeer 2017, arXiv 1701.06538", "Draw the router's rows at random.", router_rows_alike},
    {"PL506", Severity::warning, "Experts are trained without a load-balancing loss.",
     "Fedus 2021 (Switch), arXiv 2101.03961", "Set router_aux to 0.01.", no_balance},
    {"PL507", Severity::note, "Every token goes to every expert: the router saves nothing.",
     "Shazeer 2017, arXiv 1701.06538", "Choose fewer experts per token, or a dense feed-forward.",
     pointless_experts},
};

}  // namespace

const RuleGroup kExpertRules{"experts", kRules};

}  // namespace plumb
