// A comparison as text.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "lab/compare_data.h"
#include "lab/trace_table.h"

namespace plumb {
namespace {

std::string difference_words(double difference, double tolerance) {
  const std::string number = std::isinf(difference) ? "all"
                             : difference == 0      ? "0"
                                                    : fmt::format("{:.1e}", difference);
  return number + (difference > tolerance ? " *" : "  ");
}

// What a place is to a reader: the columns of the table.
size_t column_of(const std::string& quantity) {
  if (quantity == "stream" || quantity == "embedding") return 0;
  if (quantity == "input") return 1;
  if (quantity == "raw" || quantity == "branch") return 3;
  if (quantity == "sum" || quantity == "output" || quantity == "final" || quantity == "logits") return 4;
  return 2;
}

std::string places_text(const ComparisonData& d) {
  std::vector<std::string> modules;
  std::map<std::string, std::vector<double>> worst;  // by module and column; below 0: nothing compared
  for (const PlaceDifference& p : d.places) {
    const bool stack_end = p.module.find('.') == std::string::npos && p.quantity != "embedding";
    const std::string module = stack_end && p.module != "head" ? p.module + "'s end" : p.module;
    auto [row, fresh] = worst.try_emplace(module, std::vector<double>(5, -1));
    if (fresh) modules.push_back(module);
    double& cell = row->second[column_of(p.quantity)];
    cell = std::max(cell, p.difference);
  }
  std::vector<TextRow> rows{{"place", "x  ", "N(x)  ", "inside  ", "F  ", "y  "}};
  for (const std::string& module : modules) {
    TextRow row{module};
    for (const double v : worst[module]) row.push_back(v < 0 ? "" : difference_words(v, d.tolerance));
    rows.push_back(row);
  }
  return text_table(rows, 1);
}

std::string weights_text(const ComparisonData& d) {
  constexpr size_t kMost = 40;
  std::vector<TextRow> rows{{"tensor", "|a - b| / |b|  "}};
  size_t differ = 0;
  for (const PlaceDifference& p : d.places) {
    if (p.difference <= d.tolerance || ++differ > kMost) continue;
    rows.push_back({p.module, difference_words(p.difference, d.tolerance)});
  }
  if (differ == 0) return "";
  std::string text = text_table(rows, 1);
  if (differ > kMost) text += fmt::format("  and {} more\n", differ - kMost);
  return text;
}

std::string only_in(const std::string& name, const std::vector<std::string>& places) {
  if (places.empty()) return "";
  constexpr size_t kMost = 4;
  std::string text = fmt::format("Only in {}, not compared:", name);
  for (size_t i = 0; i < std::min(places.size(), kMost); ++i) text += " " + places[i];
  return text + (places.size() > kMost ? fmt::format(" and {} more\n", places.size() - kMost) : "\n");
}

std::string first_words(const ComparisonData& d) {
  const PlaceDifference& p = d.places[*d.first];
  const bool missing = d.weights && std::isinf(p.difference);
  std::string text = "First difference: " + p.name();
  if (missing) {
    text += " is in one of them only";
  } else if (std::isinf(p.difference)) {
    text += p.by_token.empty() ? " has another number of columns" : " is not finite in one of them, or zero";
  } else {
    text += fmt::format(" by {:.3g} of its size", p.difference);
    if (!d.weights) {
      const auto worst = std::max_element(p.by_token.begin(), p.by_token.end()) - p.by_token.begin();
      const auto beyond =
          std::count_if(p.by_token.begin(), p.by_token.end(), [&](double x) { return x > d.tolerance; });
      text += fmt::format(" at token {}; {} of {} tokens are beyond the tolerance", worst, beyond,
                          p.by_token.size());
    }
  }
  text += "\n";
  if (d.fault) return text + fmt::format("Kind: {}. {}\n", fault_name(d.fault->kind), d.fault->words);
  return text +
         "Kind: none of those that are recognised (missing norm, missing residual, transposed matrix, "
         "permutation of heads, position offset, rotary pairing, attention mask, scale, shift)\n";
}

}  // namespace

std::string comparison_text(const ComparisonData& d) {
  std::string text = fmt::format("A {}\nB {}\n", d.a, d.b);
  if (d.a == "A" && d.b == "B") text.clear();
  const std::string what =
      d.weights ? fmt::format("{} tensors", d.places.size())
                : fmt::format("{} places of {} tokens{}", d.places.size(), d.tokens,
                              d.decoder_tokens ? fmt::format(" and {}", d.decoder_tokens) : "");
  text += fmt::format("{} compared, tolerance {:g}; * marks what is beyond it\n", what, d.tolerance);
  for (const std::string& line : d.config) text += "  config " + line + "\n";
  text += d.weights ? weights_text(d) : places_text(d);
  if (!d.weights) text += only_in("A", d.only_a) + only_in("B", d.only_b);
  if (d.first) return text + "\n" + first_words(d);
  const auto worst = std::max_element(d.places.begin(), d.places.end(), [](const auto& x, const auto& y) {
    return x.difference < y.difference;
  });
  return text + fmt::format("\nEqual within the tolerance: the largest difference is {:.1e}, at {}\n",
                            worst->difference, worst->name());
}

}  // namespace plumb
