#include "lab/sublayers.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "lab/model_words.h"

namespace plumb {
namespace {

const double* measure(const std::vector<ProbeLine::Place>& places, const std::string& at, const char* name) {
  for (const auto& place : places) {
    if (place.at != at) continue;
    const auto found = place.measures.find(name);
    return found == place.measures.end() ? nullptr : &found->second;
  }
  return nullptr;
}

}  // namespace

std::optional<SublayerPlace> sublayer_place(const std::string& at) {
  SublayerPlace place;
  if (at.starts_with("encoder.")) {
    place.side = Side::encoder;
  } else if (!at.starts_with("decoder.")) {
    return std::nullopt;
  }
  const char *begin = at.data() + 8, *end = at.data() + at.size();
  const auto [next, fault] = std::from_chars(begin, end, place.layer);
  if (fault != std::errc() || next == end || *next != '.' || place.layer < 0) return std::nullopt;
  place.part.assign(next + 1, end);
  if (place.part != "attention" && place.part != "cross_attention" && place.part != "feed_forward") {
    return std::nullopt;
  }
  return place;
}

std::string in_words(const SublayerPlace& place, bool both) {
  const char* part = place.part == "feed_forward"      ? "feed-forward"
                     : place.part == "cross_attention" ? "cross-attention"
                                                       : "attention";
  const char* stack = !both ? "" : place.side == Side::encoder ? "encoder " : "decoder ";
  return fmt::format("{}layer {}'s {}", stack, place.layer, part);
}

void add_contributions(RunRecords& run) {
  if (!run.config) return;
  for (ProbeLine& record : run.probe) {
    for (auto& site : record.sites) {
      const auto place = sublayer_place(site.at);
      const auto ratio = site.measures.find("step.ratio");
      if (!place || ratio == site.measures.end()) continue;
      const int64_t layers =
          place->side == Side::encoder ? run.config->encoder_layers : run.config->decoder_layers;
      if (place->layer >= layers) continue;
      const SublayerFormula f =
          sublayer_formula(*run.config, place->side, place->layer, part_named(place->part));
      const auto factor = [&](GateKind kind, double constant, const char* parameter) {
        if (kind == GateKind::constant) return constant;
        const double* learned = measure(record.parameters, site.at + parameter, "rms");
        return learned ? *learned : std::nan("");
      };
      double g = factor(f.gate, f.gate_value, ".gate"), alpha = factor(f.shortcut, f.alpha, ".shortcut");
      if (std::isnan(g) || std::isnan(alpha) || alpha == 0) continue;
      if (f.unit) {  // as nGPT stores it
        g *= f.gate_value * std::sqrt(static_cast<double>(run.config->width));
        alpha = 1 - g;
      }
      site.measures["step.added"] = std::abs(g / alpha) * ratio->second;
    }
  }
}

}  // namespace plumb
