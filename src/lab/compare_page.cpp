// A comparison as a page.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "lab/compare_data.h"
#include "lab/page.h"

namespace plumb {
namespace {

constexpr double kFloor = 1e-9;  // smaller differences are drawn as this, on a logarithmic scale

OrderedJson drawn(double difference) {
  return std::isfinite(difference) ? OrderedJson(std::max(difference, kFloor)) : OrderedJson(nullptr);
}

// Places by token; of an encoder-decoder a map for each number of tokens.
OrderedJson token_maps(const ComparisonData& d) {
  OrderedJson maps = OrderedJson::array();
  for (const PlaceDifference& p : d.places) {
    if (p.by_token.empty()) continue;
    auto same = std::find_if(maps.begin(), maps.end(),
                             [&](const OrderedJson& m) { return m["columns"].size() == p.by_token.size(); });
    if (same == maps.end()) {
      OrderedJson map = {{"title", "Difference by place and token"},
                         {"unit", "token "},
                         {"rows", OrderedJson::array()},
                         {"columns", OrderedJson::array()},
                         {"values", std::vector<OrderedJson>(p.by_token.size(), OrderedJson::array())}};
      for (size_t t = 0; t < p.by_token.size(); ++t) map["columns"].push_back(fmt::format("{}", t));
      maps.push_back(map);
      same = maps.end() - 1;
    }
    (*same)["rows"].push_back(p.name());
    for (size_t t = 0; t < p.by_token.size(); ++t) (*same)["values"][t].push_back(drawn(p.by_token[t]));
  }
  return maps;
}

}  // namespace

std::string comparison_page(const ComparisonData& d, const std::string& title) {
  OrderedJson data = {
      {"sites", OrderedJson::array()},
      {"places", OrderedJson::array()},
      {"difference", OrderedJson::array()},
      {"tolerance", std::max(d.tolerance, kFloor)},
      {"floor", kFloor},
      {"maps", token_maps(d)},
      {"first", d.first ? "First beyond it: " + d.places[*d.first].name() : "Nothing is beyond it."}};
  for (const PlaceDifference& p : d.places) {
    data["places"].push_back(p.name());
    data["difference"].push_back(drawn(p.difference));
  }
  std::string body =
      "<section><h2>What was found</h2>\n<pre class=\"recipe\" tabindex=\"0\">" +
      escaped(comparison_text(d)) +
      "</pre></section>\n<section><h2>Pictures</h2>\n"
      "<figure id=\"differences\" class=\"wide\"><figcaption><h3>Difference by place</h3>"
      "<p>Relative, in the order of the pass; below 1e-9 drawn as that.</p></figcaption></figure>\n";
  if (!d.weights) {
    body +=
        "<figure id=\"tokens\" class=\"wide\"><figcaption><h3>Difference by place and token</h3>"
        "<p>Which tokens differ, from which place on.</p></figcaption></figure>\n";
  }
  return walk_page({"compare", title, body + "</section>\n", script_data(data), "compare.js"});
}

}  // namespace plumb
