#include "lab/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "base/embedded.h"
#include "lab/model_words.h"
#include "plumb/config_fields.h"

namespace plumb {

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string filled(std::string_view page, const std::vector<std::pair<std::string, std::string>>& values) {
  std::string out;
  for (;;) {
    const size_t open = page.find("{{");
    if (open == std::string_view::npos) return out.append(page);
    const size_t close = page.find("}}", open);
    const std::string_view name = page.substr(open + 2, close - open - 2);
    const auto value =
        std::find_if(values.begin(), values.end(), [&](const auto& v) { return v.first == name; });
    PLUMB_CHECK(value != values.end(), "the page asks for {}", name);
    out.append(page.substr(0, open)).append(value->second);
    page.remove_prefix(close + 2);
  }
}

std::string script_data(const OrderedJson& value) {
  // "</script" must not end the element: no "<" is left inside.
  std::string text;
  for (const char c : dump_json(value, -1)) {
    if (c == '<') {
      text += "\\u003c";
    } else {
      text += c;
    }
  }
  return text;
}

OrderedJson formula_data(const SublayerFormula& f, const LayerConfig& layer) {
  return {{"text", f.str()},
          {"norm", norm_words(layer.norm)},
          {"norm_in", f.norm_in},
          {"norm_inner", f.norm_inner},
          {"norm_branch", f.norm_branch},
          {"norm_out", f.norm_out},
          {"head_scale", f.head_scale},
          {"alpha", f.alpha},
          {"shortcut", enum_name(f.shortcut)},
          {"unit", f.unit},
          {"dual", f.dual},
          {"s", f.s},
          {"gate", enum_name(f.gate)},
          {"gate_value", f.gate_value},
          {"streams", f.streams},
          {"parallel", layer.parallel != Parallel::no}};
}

namespace {

// A browser may break 1e-3 behind its hyphen, unless told.
bool is_number(const std::string& cell) {
  char* end = nullptr;
  std::strtod(cell.c_str(), &end);
  return !cell.empty() && *end == '\0';
}

}  // namespace

std::string html_table(const std::string& words, const std::vector<std::vector<std::string>>& rows) {
  std::string html = fmt::format(
      "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{0}\"><table>"
      "<caption>{0}</caption>\n",
      escaped(words));
  for (size_t r = 0; r < rows.size(); ++r) {
    html += r == 0 ? "<thead><tr>" : "<tr>";
    for (size_t i = 0; i < rows[r].size(); ++i) {
      const std::string cell = escaped(rows[r][i]);
      html += r == 0                  ? "<th scope=\"col\">" + cell + "</th>"
              : i == 0                ? "<th scope=\"row\">" + cell + "</th>"
              : is_number(rows[r][i]) ? "<td class=\"number\">" + cell + "</td>"
                                      : "<td>" + cell + "</td>";
    }
    html += r == 0 ? "</tr></thead><tbody>\n" : "</tr>\n";
  }
  return html + "</tbody></table></div>\n";
}

std::string page_script(std::string_view name) {
  std::string script;
  for (const std::string_view part :
       {std::string_view("report_common.js"), std::string_view("report_charts.js"),
        std::string_view("report_series.js"), std::string_view("report_heatmap.js"),
        std::string_view("report_diagram.js"), name}) {
    script += embedded_file(part);
  }
  return script;
}

std::string walk_page(const WalkPage& page) {
  return filled(embedded_file("walk.html"), {{"title", escaped(page.title)},
                                             {"kind", escaped(page.kind)},
                                             {"style", std::string(embedded_file("report.css"))},
                                             {"body", page.body},
                                             {"data", page.data},
                                             {"chart.js", std::string(embedded_file("chart.js"))},
                                             {"script", page_script(page.script)}});
}

}  // namespace plumb
