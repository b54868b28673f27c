// A trace as a page.
#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "lab/model_words.h"
#include "lab/page.h"
#include "lab/trace_data.h"
#include "lab/trace_table.h"

namespace plumb {
namespace {

OrderedJson number(double x) {
  return std::isfinite(x) ? OrderedJson(x) : OrderedJson(nullptr);
}

std::string section(const std::string& title, const std::string& content) {
  return fmt::format("<section>\n<h2>{}</h2>\n{}</section>\n", escaped(title), content);
}

std::string figure(const std::string& id, const std::string& title, const std::string& words) {
  return fmt::format(
      "<figure id=\"{}\" class=\"wide\"><figcaption><h3>{}</h3><p>{}</p></figcaption></figure>\n", id,
      escaped(title), escaped(words));
}

OrderedJson measures_of(const TraceData& d) {
  OrderedJson j;
  for (const char* key : {"stream.rms", "branch.rms", "step.added"}) j[key] = {OrderedJson::array()};
  for (const SublayerNumbers& s : d.sublayers) {
    j["stream.rms"][0].push_back(number(s.stream.rms));
    j["branch.rms"][0].push_back(number(s.branch.rms));
    j["step.added"][0].push_back(s.added ? number(*s.added) : OrderedJson(nullptr));
  }
  if (!d.gradient) return j;
  for (const char* key : {"stream.grad_rms", "gradient.shortcut", "gradient.branch", "gradient.straight"})
    j[key] = {OrderedJson::array()};
  for (const GradientShare& g : d.gradient->shares) {
    j["stream.grad_rms"][0].push_back(number(g.rms));
    j["gradient.shortcut"][0].push_back(number(g.shortcut));
    j["gradient.branch"][0].push_back(number(g.branch));
    j["gradient.straight"][0].push_back(number(g.straight));
  }
  return j;
}

// Rows are attentions that read the same keys, columns those keys.
OrderedJson received_maps(const TraceData& d) {
  OrderedJson maps = OrderedJson::array();
  const std::vector<std::string>* keys = nullptr;
  for (const AttentionNumbers& a : d.attention) {
    if (&d.keys_of(a.module) != keys) {
      keys = &d.keys_of(a.module);
      OrderedJson map = {{"title", "Share of a layer's attention that each token receives"},
                         {"unit", ""},
                         {"rows", OrderedJson::array()},
                         {"columns", OrderedJson::array()},
                         {"values", std::vector<OrderedJson>(keys->size(), OrderedJson::array())}};
      for (size_t i = 0; i < keys->size(); ++i)
        map["columns"].push_back(fmt::format("{} {}", i, quoted_token((*keys)[i])));
      maps.push_back(map);
    }
    maps.back()["rows"].push_back(a.module);
    for (size_t s = 0; s < a.received.size(); ++s) maps.back()["values"][s].push_back(number(a.received[s]));
  }
  return maps;
}

// Rows are attentions, columns heads.
OrderedJson entropy_maps(const TraceData& d) {
  size_t heads = 0;
  for (const AttentionNumbers& a : d.attention) heads = std::max(heads, a.heads.size());
  OrderedJson map = {{"title", "Entropy over ln n: 1 even, 0 one key"},
                     {"unit", "head "},
                     {"rows", OrderedJson::array()},
                     {"columns", OrderedJson::array()},
                     {"values", OrderedJson::array()}};
  for (const AttentionNumbers& a : d.attention) map["rows"].push_back(a.module);
  for (size_t h = 0; h < heads; ++h) {
    map["columns"].push_back(fmt::format("{}", h));
    OrderedJson column = OrderedJson::array();
    for (const AttentionNumbers& a : d.attention)
      column.push_back(h < a.heads.size() ? number(a.heads[h].entropy) : OrderedJson(nullptr));
    map["values"].push_back(column);
  }
  return OrderedJson::array({map});
}

OrderedJson data_of(const TraceData& d) {
  OrderedJson j = {{"measured", "measured on this text"},
                   {"probe", {{"step", {0}}}},
                   {"sites", OrderedJson::array()},
                   {"measures", measures_of(d)},
                   {"formulas", OrderedJson::object()},
                   {"maps", {{"received", received_maps(d)}, {"entropy", entropy_maps(d)}}}};
  for (const SublayerName& s : sublayers_of(d.config)) {
    j["sites"].push_back(s.module);
    j["formulas"][s.module] = formula_data(sublayer_formula(d.config, s.side, s.layer, part_named(s.part)),
                                           resolved_layer(d.config, s.side, s.layer));
  }
  return j;
}

std::string input_html(const TraceData& d) {
  std::string html = "<p class=\"words\">" + escaped(model_in_words(d.config)) + "</p>\n<p>It reads";
  for (const std::string& t : d.tokens) html += " <code>" + escaped(quoted_token(t)) + "</code>";
  if (!d.decoder_tokens.empty()) html += "</p>\n<p>The decoder reads";
  for (const std::string& t : d.decoder_tokens) html += " <code>" + escaped(quoted_token(t)) + "</code>";
  return html + "</p>\n";
}

std::string shapes_html(const TraceData& d) {
  std::vector<std::vector<std::string>> rows{{"where", "step", "shape", "what"}};
  for (const ShapeStep& s : d.shapes) rows.push_back({s.place, s.step, s.shape, s.words});
  return "<p class=\"lead\">(1, T, C) is (batch, tokens, width of the stream).</p>\n" +
         html_table("The shape of each step", rows);
}

std::string norms_html(const TraceData& d) {
  if (d.norms.empty()) return "";
  std::vector<std::vector<std::string>> rows{
      {"norm", "kind", "mean before", "spread", "RMS", "mean after", "spread", "RMS"}};
  for (const NormNumbers& n : d.norms) {
    rows.push_back({n.module, n.kind, digits(n.before.mean), digits(n.before.spread), digits(n.before.rms),
                    digits(n.after.mean), digits(n.after.spread), digits(n.after.rms)});
  }
  return html_table("Each norm, before and after; spread: within a token", rows);
}

}  // namespace

std::string trace_page(const TraceData& d, const std::string& name) {
  std::string order;
  for (const std::string& l : d.order) order += "<p>" + escaped(l) + "</p>\n";
  std::string body =
      section("Input", input_html(d)) + section("1. Shapes", shapes_html(d)) +
      section("2. Order", order + figure("diagram", "The sub-layers of a layer",
                                         "As this model has them, with this text's values on the edges."));
  body += section(
      "3. Numbers",
      norms_html(d) +
          figure("stream", "Stream and branches", "RMS before each sub-layer, and of what it computes.") +
          figure("added", "Branch against stream", "RMS of what is added over RMS of what is kept.") +
          figure("received", "Where attention goes", "By layer, all heads and queries together.") +
          figure("entropy", "How spread it is", "By layer and head, over the keys that a query sees."));
  if (d.gradient) {
    body += section(
        "4. The way back",
        fmt::format("<p>{} loss of the text: {:.4f} over {} targets.</p>\n",
                    d.gradient->masked ? "Masked-token" : "Next-token", d.gradient->loss,
                    d.gradient->targets) +
            figure(
                "gradient", "How the gradient came",
                "Share of the gradient at each sub-layer's stream that came by its shortcut and through its "
                "branch; straight: what the end's gradient alone would be here by shortcuts all the way."));
  }
  return walk_page({"trace", name, body, script_data(data_of(d)), "trace.js"});
}

}  // namespace plumb
