#include "lab/placement_diagram.h"

#include <fmt/format.h>

#include <algorithm>

#include "lab/page.h"

namespace plumb {
namespace {

constexpr int kColumn = 350, kCaption = 30, kFirstBox = 80, kBetween = 46;
constexpr int kStream = 52, kBranch = 216, kSecond = 328;  // where the lines run down

// What the branch goes through, from the top.
std::vector<std::string> boxes_of(const DrawnSublayer& d) {
  const SublayerFormula& f = d.formula;
  const std::string norm = d.norm == NormKind::shift ? "+ b, learned" : "norm";
  std::vector<std::string> boxes;
  boxes.reserve(7);
  if (f.streams > 1) boxes.push_back(fmt::format("H_pre, {} streams", f.streams));
  if (f.norm_in) boxes.push_back(norm);
  if (f.s != 1) boxes.push_back(fmt::format("× {:.3g}", f.s));
  std::string branch = "F";
  if (f.norm_inner) branch += d.norm == NormKind::shift ? ", + b inside" : ", norm inside";
  if (f.head_scale) branch += ", heads scaled";
  boxes.push_back(std::move(branch));
  if (f.norm_branch) boxes.push_back(norm);
  if (f.gate != GateKind::constant)
    boxes.push_back(fmt::format("× g, from {:.3g}", f.gate_value));
  else if (f.gate_value != 1)
    boxes.push_back(fmt::format("× {:.3g}", f.gate_value));
  if (f.streams > 1) boxes.emplace_back("H_post");
  return boxes;
}

std::string text(int x, int y, const std::string& words, const char* anchor = "start") {
  return fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"{}\">{}</text>\n", x, y, anchor, escaped(words));
}

std::string box(int x, int y, int width, const std::string& words) {
  return fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"30\" rx=\"6\"/>\n", x - width / 2, y - 15,
                     width) +
         text(x, y + 5, words, "middle");
}

std::string line(const std::string& path, const char* kind) {
  return fmt::format("<path d=\"{}\" class=\"{}\"/>\n", path, kind);
}

std::string plus(int x, int y) {
  return fmt::format("<circle cx=\"{}\" cy=\"{}\" r=\"12\"/>\n", x, y) +
         line(fmt::format("M{} {} h12 m-6 -6 v12", x - 6, y), "ink");
}

struct Column {
  std::vector<std::string> boxes;
  int sum = 0, end = 0;  // where the add is, and the last of the drawing

  explicit Column(const DrawnSublayer& d) : boxes(boxes_of(d)) {
    sum = 70 + static_cast<int>(boxes.size()) * kBetween;
    end = sum + (d.formula.norm_out ? 96 : 56);
  }
};

// The second stream, of branches alone, which the branch joins too.
std::string second_stream(const SublayerFormula& f, const Column& c) {
  std::string svg = line(fmt::format("M{} 8 V{}", kSecond, c.sum - 12), "stream") +
                    line(fmt::format("M{} {} H{}", kBranch, c.sum, kSecond - 14), "branch") +
                    line(fmt::format("M{} {} V{}", kSecond, c.sum + 12, c.end - 8), "stream");
  if (f.dual != 1) svg += text(kBranch + 30, c.sum - 6, fmt::format("× {:.3g}", f.dual));
  return svg + plus(kSecond, c.sum) + text(kSecond + 8, 20, "r") + text(kSecond + 8, c.end - 10, "r'");
}

std::string drawn(const DrawnSublayer& d, const Column& c) {
  const SublayerFormula& f = d.formula;
  const bool cut = f.alpha == 0 && f.shortcut == GateKind::constant;
  std::string svg = line(fmt::format("M{} 8 V{}", kStream, cut ? 40 : c.sum - 14), cut ? "end" : "stream");
  svg += line(fmt::format("M{} 40 H{} V{} H{}", kStream, kBranch, c.sum, kStream + 14), "branch");
  svg += line(fmt::format("M{} {} V{}", kStream, c.sum + 12, c.end - 8), "stream");
  svg += plus(kStream, c.sum);
  const std::string factor = cut                                ? "no shortcut"
                             : f.unit                           ? "× 1 − g"
                             : f.streams > 1                    ? "H_res"
                             : f.shortcut != GateKind::constant ? "× a, learned"
                             : f.alpha != 1                     ? fmt::format("× {:.4g}", f.alpha)
                                                                : "";
  if (!factor.empty()) svg += text(kStream - (cut ? 40 : -8), c.sum - 24, factor);
  for (size_t i = 0; i < c.boxes.size(); ++i)
    svg += box(kBranch, kFirstBox + static_cast<int>(i) * kBetween, 150, c.boxes[i]);
  if (f.norm_out) svg += box(kStream, c.sum + 42, 88, d.norm == NormKind::shift ? "+ b" : "norm");
  if (f.dual != 0) svg += second_stream(f, c);
  return svg + text(20, 20, "x") + text(20, c.end - 10, "y");
}

}  // namespace

std::string placement_diagram(const std::vector<DrawnSublayer>& sublayers) {
  std::string columns, words;
  int height = 0;
  const int top = sublayers.front().caption.empty() ? 0 : kCaption;
  for (size_t i = 0; i < sublayers.size(); ++i) {
    const DrawnSublayer& d = sublayers[i];
    const Column column(d);
    height = std::max(height, column.end + top);
    columns += fmt::format("<g transform=\"translate({} {})\">\n{}</g>\n", static_cast<int>(i) * kColumn + 8,
                           top, drawn(d, column));
    if (!d.caption.empty()) columns += text(static_cast<int>(i) * kColumn + 20, 20, d.caption + ":");
    words += (i > 0 ? "; " : "") + (d.caption.empty() ? "" : d.caption + ": ") + d.formula.str();
  }
  const int width = static_cast<int>(sublayers.size()) * kColumn + 16;
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" role=\"img\" "
      "aria-label=\"{2}\" font-family=\"sans-serif\" font-size=\"13\">\n"
      "<style>svg{{background:#fff}}rect{{fill:#f4f3f0;stroke:#5c6370}}circle{{fill:#fff;stroke:#5c6370}}"
      "path{{fill:none;stroke-width:2}}.stream{{stroke:#0067a5;marker-end:url(#blue)}}"
      ".branch{{stroke:#c44601;marker-end:url(#red)}}.end{{stroke:#0067a5}}.ink{{stroke:#1c1e22}}text{{fill:#"
      "1c1e22}}</style>\n"
      "<defs><marker id=\"blue\" viewBox=\"0 0 8 8\" refX=\"6\" refY=\"4\" markerWidth=\"4\" "
      "markerHeight=\"4\" "
      "orient=\"auto\"><path d=\"M0 0 L8 4 L0 8 z\" style=\"fill:#0067a5;stroke:none\"/></marker>"
      "<marker id=\"red\" viewBox=\"0 0 8 8\" refX=\"6\" refY=\"4\" markerWidth=\"4\" markerHeight=\"4\" "
      "orient=\"auto\"><path d=\"M0 0 L8 4 L0 8 z\" "
      "style=\"fill:#c44601;stroke:none\"/></marker></defs>\n{3}</svg>\n",
      width, height, escaped(words), columns);
}

}  // namespace plumb
