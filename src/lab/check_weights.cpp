// Rules on weights: broken values, copies, inits, gates, tied tables.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>

#include "lab/check.h"
#include "plumb/config_fields.h"

namespace plumb {
namespace {

bool is_matrix(const CheckTensor& t) {
  return t.role == Role::matrix && t.value.shape().rank() >= 2;
}

void not_finite(const CheckSubject& s, Findings& f) {
  for (const CheckTensor& t : s.tensors) {
    if (t.moments.not_finite > 0)
      f.add(t.name, fmt::format("{} of {} values are NaN or infinite", t.moments.not_finite, t.moments.count),
            "none");
  }
}

// As the last matrices of Fixup's branches do.
bool starts_at_zero(const CheckTensor& t) {
  return t.parameter && !t.parameter->init.empty() &&
         std::ranges::all_of(t.parameter->init, [](const InitPart& part) { return part.std == 0; });
}

void constant_matrix(const CheckSubject& s, Findings& f) {
  for (const CheckTensor& t : s.tensors) {
    if (is_matrix(t) && t.constant() && t.value.numel() > 1 && !(t.low == 0 && starts_at_zero(t)))
      f.add(t.name, fmt::format("every value is {:g}", t.low), "a matrix of full rank");
  }
}

void duplicate_matrices(const CheckSubject& s, Findings& f) {
  std::map<std::pair<uint64_t, std::string>, const CheckTensor*> first;
  for (const CheckTensor& t : s.tensors) {
    if (!is_matrix(t) || t.copy || t.constant() || t.name.find(".experts.") != std::string::npos) continue;
    const auto [it, fresh] = first.emplace(std::pair{t.hash, t.value.shape().str()}, &t);
    if (!fresh) f.add(t.name, "the same bits as " + it->second->name, "weights of its own");
  }
}

// Rank by elimination with complete pivoting of a block of at most 128 x 128 at even strides.
int64_t block_rank(const CheckTensor& t, int64_t& size) {
  const Tensor wide = t.f32();
  const int64_t rows = wide.rows(), width = wide.width();
  const int64_t n = size = std::min<int64_t>({rows, width, 128});
  std::vector<double> a(static_cast<size_t>(n * n));
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < n; ++j) a[i * n + j] = wide.f32()[i * rows / n * width + j * width / n];
  double first = 0;
  for (int64_t k = 0; k < n; ++k) {
    int64_t pi = k, pj = k;
    for (int64_t i = k; i < n; ++i)
      for (int64_t j = k; j < n; ++j)
        if (std::abs(a[i * n + j]) > std::abs(a[pi * n + pj])) pi = i, pj = j;
    const double pivot = std::abs(a[pi * n + pj]);
    if (k == 0) first = pivot;
    if (pivot <= 1e-5 * first) return k;
    for (int64_t j = 0; j < n; ++j) std::swap(a[k * n + j], a[pi * n + j]);
    for (int64_t i = 0; i < n; ++i) std::swap(a[i * n + k], a[i * n + pj]);
    for (int64_t i = k + 1; i < n; ++i) {
      const double m = a[i * n + k] / a[k * n + k];
      for (int64_t j = k; j < n; ++j) a[i * n + j] -= m * a[k * n + j];
    }
  }
  return n;
}

void low_rank(const CheckSubject& s, Findings& f) {
  for (const CheckTensor& t : s.tensors) {
    // What starts at 0 is as yet the sum of few updates.
    if (!is_matrix(t) || t.constant() || t.moments.not_finite > 0 || starts_at_zero(t)) continue;
    int64_t size = 0;
    const int64_t rank = block_rank(t, size);
    if (size >= 8 && 2 * rank < size)
      f.add(t.name, fmt::format("a block of {0} x {0} has rank {1}", size, rank), fmt::format("{}", size));
  }
}

// Standard deviation of the outputs first .. first + count - 1 of a matrix.
double part_std(const Tensor& wide, bool in_out, int64_t first, int64_t count) {
  double sum = 0, squares = 0;
  int64_t n = 0;
  for (int64_t r = 0; r < wide.rows(); ++r) {
    for (int64_t c = 0; c < wide.width(); ++c) {
      const int64_t output = in_out ? c : r;
      if (output < first || output >= first + count) continue;
      const double v = wide.f32()[r * wide.width() + c];
      sum += v;
      squares += v * v;
      ++n;
    }
  }
  const double mean = sum / static_cast<double>(n);
  return std::sqrt(std::max(0.0, squares / static_cast<double>(n) - mean * mean));
}

// The parts of an untrained matrix whose spread is not the one it should have been drawn with. `tolerance`
// is widened to five standard errors of a normal sample's spread.
void compare_init(const CheckTensor& t, const Parameter& expected, double tolerance, bool as_gain,
                  Findings& f) {
  const bool as_drawn =
      !expected.init.empty() && expected.unit == UnitLength::none && expected.starts_as.empty();
  if (!as_drawn || t.value.shape() != expected.shape || t.moments.not_finite > 0) return;
  const Tensor wide = t.f32();
  const int64_t outputs = expected.in_out ? wide.width() : wide.shape()[0], inputs = wide.numel() / outputs;
  int64_t first = 0;
  for (const InitPart& part : expected.init) {
    const double found = part_std(wide, expected.in_out, first, part.count);
    const double allowed = std::max(tolerance, 5 / std::sqrt(2.0 * static_cast<double>(part.count * inputs)));
    if (part.std == 0 ? found != 0 : std::abs(found / part.std - 1) > allowed) {
      const double unit = as_gain ? std::sqrt(2.0 / static_cast<double>(inputs + part.count)) : 1;
      const std::string rows =
          expected.init.size() > 1 ? fmt::format(" outputs {} to {}", first, first + part.count - 1) : "";
      f.add(t.name + rows, fmt::format("{} {:.4g}", as_gain ? "gain" : "std", found / unit),
            fmt::format("{} {:.4g}", as_gain ? "gain" : "std", part.std / unit));
    }
    first += part.count;
  }
}

bool scales_init(const ModelConfig& c, Side side) {
  return layers_of(c, side) > 0 && sublayer_formula(c, side, 0).beta != 1;
}

// DeepNorm and Sub-LN: Xavier with a gain on V, output and feed-forward, and 1 on Q and K.
void gains_of_placement(const CheckSubject& s, Findings& f) {
  if (!s.table || !s.untrained()) return;
  if (!scales_init(*s.config, Side::encoder) && !scales_init(*s.config, Side::decoder)) return;
  ModelConfig xavier = *s.config;
  xavier.init = Init::xavier;
  const Transformer published(xavier);
  for (const CheckTensor& t : s.tensors) {
    if (!t.parameter || t.role != Role::matrix || t.parameter->name.find("router") != std::string::npos)
      continue;
    const bool layer = t.parameter->name.starts_with("encoder.") || t.parameter->name.starts_with("decoder.");
    if (layer) compare_init(t, *published.parameters().find(t.parameter->name), 0.03, true, f);
  }
}

void init_of_config(const CheckSubject& s, Findings& f) {
  if (!s.table || !s.untrained()) return;
  if (scales_init(*s.config, Side::encoder) || scales_init(*s.config, Side::decoder)) return;
  for (const CheckTensor& t : s.tensors)
    if (t.parameter) compare_init(t, *t.parameter, 0.1, false, f);
}

void scaled_gains_without_xavier(const CheckSubject& s, Findings& f) {
  if (!s.config || init_of(*s.config) == Init::xavier) return;
  by_layers(s, f, [](const LayerView& v) -> std::optional<LayerFault> {
    if (v.formula.beta == 1) return {};
    return LayerFault{"init: " + enum_name(init_of(v.config)),
                      fmt::format("init: xavier, of which gain {:.4g} is taken", v.formula.beta)};
  });
}

bool trained(const CheckSubject& s) {
  if (s.training) return true;
  const CheckTensor* table = s.find("token_embedding.weight");
  return table && s.config && std::abs(table->std() / s.config->init_std - 1) > 0.1;
}

void gates_stayed_zero(const CheckSubject& s, Findings& f) {
  int64_t gates = 0;
  for (const CheckTensor& t : s.tensors) {
    if (!t.parameter || t.role != Role::gate) continue;
    if (t.low != 0 || t.high != 0) return;
    ++gates;
  }
  if (gates > 0 && trained(s))
    f.add("gates of the sub-layers", fmt::format("all {} are 0 in a trained model: no branch is used", gates),
          "values that moved");
}

void extreme_gates(const CheckSubject& s, Findings& f) {
  for (const CheckTensor& t : s.tensors) {
    if (t.role != Role::gate || !t.parameter || t.moments.not_finite > 0) continue;
    const bool scale = t.value.numel() > 1;
    if (t.moments.max_abs > 10)
      f.add(t.name, fmt::format("a gate of {:.4g}", t.moments.max_abs), "at most about 10");
    if (scale && t.moments.max_abs < 1e-8)
      f.add(t.name, "every gate is 0", "values that a branch gets through");
  }
}

// RMS of the same matrix in each layer.
void layer_out_of_line(const CheckSubject& s, Findings& f) {
  std::map<std::string, std::vector<const CheckTensor*>> alike;
  for (const CheckTensor& t : s.tensors) {
    if (is_matrix(t) && t.moments.not_finite == 0 && !t.constant()) alike[pattern_of(t.name)].push_back(&t);
  }
  for (const auto& [pattern, tensors] : alike) {
    if (tensors.size() < 4) continue;
    std::vector<double> rms;
    for (const CheckTensor* t : tensors) rms.push_back(t->moments.rms);
    std::nth_element(rms.begin(), rms.begin() + rms.size() / 2, rms.end());
    const double median = rms[rms.size() / 2];
    for (const CheckTensor* t : tensors) {
      const double ratio = t->moments.rms / median;
      if (ratio > 20 || ratio < 0.05)
        f.add(t->name,
              fmt::format("RMS {:.3g}, {:.3g} times the median of the layers", t->moments.rms, ratio),
              fmt::format("about {:.3g}", median));
    }
  }
}

void dead_rows(const CheckSubject& s, Findings& f) {
  for (const CheckTensor& t : s.tensors) {
    if (!is_matrix(t) || t.constant() || 20 * t.moments.zeros < t.moments.count) continue;
    const Tensor wide = t.f32();
    const int64_t rows = wide.rows(), width = wide.width();
    std::vector<bool> row_lives(rows), column_lives(width);  // a unit is a column of an (in, out) matrix
    for (int64_t i = 0; i < wide.numel(); ++i) {
      if (wide.f32()[i] != 0) row_lives[i / width] = column_lives[i % width] = true;
    }
    const auto report = [&](const std::vector<bool>& lives, const char* what) {
      const auto dead = std::count(lives.begin(), lives.end(), false), all = std::ssize(lives);
      if (20 * dead >= all) f.add(t.name, fmt::format("{} of {} {} are 0", dead, all, what), "none");
    };
    report(row_lives, "rows");
    report(column_lives, "columns");
  }
}

bool ends_with_any(const std::string& name, std::initializer_list<const char*> ends) {
  return std::any_of(ends.begin(), ends.end(), [&](const char* end) { return name.ends_with(end); });
}

struct TiedPair {
  const CheckTensor *table = nullptr, *head = nullptr;
};

TiedPair tied_pair(const CheckSubject& s) {
  TiedPair pair;
  for (const CheckTensor& t : s.tensors) {
    if (ends_with_any(t.name, {"lm_head.weight", "embed_out.weight", "cls.predictions.decoder.weight"}) ||
        t.name == "head.weight")
      pair.head = &t;
    const bool encoder =
        t.name.find("encoder.") != std::string::npos && t.name.find("decoder.") == std::string::npos;
    if (ends_with_any(t.name, {"embed_tokens.weight", "wte.weight", "word_embeddings.weight",
                               "embed_in.weight", "shared.weight", "token_embedding.weight"}) &&
        (!pair.table || !encoder) && !t.copy)
      pair.table = &t;
  }
  return pair;
}

bool same_bits(const CheckTensor& a, const CheckTensor& b) {
  return a.hash == b.hash && a.value.shape() == b.value.shape() && a.value.dtype() == b.value.dtype();
}

std::optional<bool> tied_flag(const CheckSubject& s) {
  for (const char* t5 : {"t5", "mt5", "umt5"})  // their flag is about encoder and decoder
    if (s.model_type() == t5) return {};
  if (s.config) {
    const bool of_tokens = s.config->head == Head::language_model;
    return of_tokens ? std::optional(s.config->tied_embeddings) : std::nullopt;
  }
  if (s.json.raw("tie_word_embeddings").is_boolean()) return s.json.flag("tie_word_embeddings", true);
  return {};
}

void tied_flag_lies(const CheckSubject& s, Findings& f) {
  const TiedPair pair = tied_pair(s);
  const std::optional<bool> tied = tied_flag(s);
  if (!tied || !pair.table || !pair.head || !*tied || same_bits(*pair.table, *pair.head)) return;
  f.add(pair.head->name, "differs from " + pair.table->name + ", and tie_word_embeddings is true",
        "the same values, or tie_word_embeddings: false");
}

void tied_without_flag(const CheckSubject& s, Findings& f) {
  const TiedPair pair = tied_pair(s);
  const std::optional<bool> tied = tied_flag(s);
  if (!tied || *tied || !pair.table || !pair.head || !same_bits(*pair.table, *pair.head)) return;
  f.add(pair.head->name, "the same bits as " + pair.table->name + ", and tie_word_embeddings is false",
        "tie_word_embeddings: true, or a head of its own");
}

void unscaled_deep_pre_norm(const CheckSubject& s, Findings& f) {
  if (!s.recipe() || !s.config || init_of(*s.config) != Init::normal) return;
  by_layers(s, f, [](const LayerView& v) -> std::optional<LayerFault> {
    if (v.layer.placement != Placement::pre_norm || v.layers < 12) return {};
    return LayerFault{fmt::format("init: normal in {} layers", v.layers), "init: scaled-normal"};
  });
}

constexpr Rule kRules[] = {
    {"PL301", Severity::error, "A tensor holds values that are not finite.",
     "Wortsman 2023, arXiv 2309.14322", "Go back to a checkpoint from before the divergence.", not_finite},
    {"PL302", Severity::warning, "Every value of a matrix is the same.",
     "Zhang 2019 (Fixup), arXiv 1901.09321 (the only published use is the start of training)",
     "Look for a tensor that was never loaded or never trained.", constant_matrix},
    {"PL303", Severity::warning, "Two matrices hold the same bits.", "Lan 2019 (ALBERT), arXiv 1909.11942",
     "Say that layers are shared, or look for a conversion that copied one.", duplicate_matrices},
    {"PL304", Severity::warning, "A matrix has less than half of its rank.", "Dong 2021, arXiv 2103.03404",
     "Look for repeated or zero rows; a merged adapter without its base is one cause.", low_rank},
    {"PL305", Severity::warning,
     "Fresh weights lack the placement's gain: it belongs on V, output and feed-forward, not on Q and K.",
     "Wang 2022, arXiv 2203.00555; arXiv 2210.06423",
     "Draw V, output and feed-forward with the gain, Q and K with 1.", gains_of_placement},
    {"PL306", Severity::warning, "Fresh weights are not drawn as the config says.",
     "Glorot and Bengio 2010; Radford 2019 (GPT-2)", "Set init and init_std to what was drawn.",
     init_of_config},
    {"PL307", Severity::warning, "DeepNorm's or Sub-LN's gain is taken of another init than Xavier's.",
     "Wang 2022, arXiv 2203.00555", "Leave init unset.", scaled_gains_without_xavier},
    {"PL308", Severity::warning, "Every gate is still 0 after training.",
     "Bachlechner 2020, arXiv 2003.04887", "See that the optimizer reaches the gates.", gates_stayed_zero},
    {"PL309", Severity::warning, "A learned gate on a branch is extreme.",
     "Touvron 2021 (CaiT), arXiv 2103.17239",
     "Lower the rate of the gates, or start them at the published value.", extreme_gates},
    {"PL310", Severity::warning, "One layer's matrix is twenty times larger or smaller than the others'.",
     "Takase 2023, arXiv 2312.16903", "Look for a layer that was scaled twice or not at all.",
     layer_out_of_line},
    {"PL311", Severity::warning, "A twentieth or more of a matrix's rows or columns are 0.",
     "Shazeer 2017, arXiv 1701.06538; pruned files",
     "Take the dead units out, or look for parts that were not loaded.", dead_rows},
    {"PL312", Severity::error, "The head differs from the embedding, and the config says that they are one.",
     "transformers, tie_word_embeddings; Press and Wolf 2016, arXiv 1608.05859",
     "Set tie_word_embeddings to false.", tied_flag_lies},
    {"PL313", Severity::warning,
     "The head is the embedding bit for bit, and the config says that they are two.",
     "Press and Wolf 2016, arXiv 1608.05859", "Set tie_word_embeddings to true.", tied_without_flag},
    {"PL314", Severity::note, "A deep pre-norm stack starts without smaller output projections.",
     "Radford 2019 (GPT-2); Takase 2023, arXiv 2312.16903", "Leave init unset, or set it to scaled-normal.",
     unscaled_deep_pre_norm},
};

}  // namespace

const RuleGroup kWeightRules{"weights", kRules};

}  // namespace plumb
