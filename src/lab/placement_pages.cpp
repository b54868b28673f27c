// One page of documentation for each placement, with what the battery measured.
#include <fmt/format.h>

#include <algorithm>

#include "base/file.h"
#include "base/machine.h"
#include "lab/battery.h"
#include "lab/page.h"

namespace plumb {
namespace {

// When to use a placement, by name; one sentence or two, none of it measured here.
std::string when(const std::string& name) {
  const std::pair<const char*, const char*> all[] = {
      {"post-norm",
       "For checkpoints that were trained so (BERT, BART, Marian). From about 12 layers on it wants warm-up "
       "and a small learning rate; deeper, take deep-norm."},
      {"pre-norm",
       "The default of decoders since GPT-2: trains without warm-up at any depth. Its stream grows with "
       "depth, "
       "so deep layers change it less."},
      {"deep-norm",
       "For deep stacks (tens to a thousand layers) that should end in a norm: post-norm's quality with "
       "pre-norm's stability. The init belongs to it."},
      {"sandwich",
       "Where activations must stay bounded (half precision, long runs): every branch is normed before it is "
       "added, so that one layer cannot drown the others."},
      {"reordered",
       "OLMo 2's order: norm on the branch's output only. Together with QK-norm; without it attention's "
       "logits "
       "grow."},
      {"re-zero",
       "No norms at all: the model begins as the identity, each branch's gate grows from 0. A slower start."},
      {"layer-scale",
       "For deep vision-style stacks: pre-norm whose branches begin almost closed, channel by channel."},
      {"layer-norm-scaling",
       "For deep pre-norm stacks whose last layers do too little: inputs are scaled by one over the "
       "root of the layer. With a normal init, not a scaled one."},
      {"sub-ln",
       "Magneto: a second norm inside each branch, weights scaled up with depth. For one recipe across "
       "encoders, "
       "decoders and both."},
      {"mix-ln",
       "Post-norm in the first quarter of the layers, pre-norm above: for deep stacks whose upper layers a "
       "pure "
       "pre-norm leaves nearly idle. Watch the lower quarter as you would watch post-norm."},
      {"normformer",
       "Pre-norm whose attention heads are scaled, whose attention branch is normed before the add, and "
       "whose "
       "feed-forward has a norm inside: for gradients that pre-norm leaves too large below and too small "
       "above."},
      {"admin",
       "Post-norm that should train deep: a profiling pass over the data sets each shortcut's starting "
       "weight, so "
       "that no branch dominates at the start."},
      {"fixup",
       "Without norms, by init alone: branches start at 0, and learned shifts stand where norms would. To "
       "see what "
       "norms are for, or where their cost matters."},
      {"t-fixup",
       "Without norms and without warm-up, by the init of the embeddings and of each branch's matrices. For "
       "translation-style models of moderate depth."},
      {"resi-dual",
       "Two streams: one post-normed, one that sums the branches, joined at the end. Post-norm's diversity "
       "of layers "
       "with pre-norm's gradient."},
      {"plain", "Never to train with: the block without its shortcut, which shows why there is one."}};
  for (const auto& [key, words] : all) {
    if (name == key) return words;
  }
  return "";
}

void box(std::string& svg, int y, const std::string& words) {
  svg += fmt::format(
      "<rect x=\"130\" y=\"{}\" width=\"172\" height=\"30\" rx=\"6\"/><text x=\"216\" y=\"{}\" "
      "text-anchor=\"middle\">{}</text>\n",
      y - 15, y + 5, escaped(words));
}

// The block from its formula: the stream runs down on the left, the branch on the right.
std::string diagram(const SublayerFormula& f) {
  std::vector<std::string> boxes;
  if (f.norm_in) boxes.emplace_back("norm");
  if (f.s != 1) boxes.push_back(fmt::format("× {:.3g}", f.s));
  boxes.emplace_back(f.norm_inner ? "F, norm inside" : "F: attention, feed-forward");
  if (f.norm_branch) boxes.emplace_back("norm");
  if (f.gate != GateKind::constant) boxes.push_back(fmt::format("× g, from {:.3g}", f.gate_value));
  const int sum = 70 + static_cast<int>(boxes.size()) * 46, end = sum + (f.norm_out ? 62 : 12);
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 320 {}\" width=\"320\" role=\"img\" "
      "aria-label=\"{}\" font-family=\"sans-serif\" font-size=\"13\">\n"
      "<style>svg{{color:#1c1e22;background:#fff}}rect{{fill:#f4f3f0;stroke:#5c6370}}path{{fill:none;stroke-"
      "width:2}}"
      "text{{fill:#1c1e22}}</style>\n",
      end + 40, escaped(f.str()));
  svg += fmt::format("<path d=\"M52 8 V{}\" stroke=\"#0067a5\"{}/>\n", sum - 12,
                     f.alpha == 0 ? " stroke-dasharray=\"2 6\"" : "");
  svg += fmt::format("<path d=\"M52 40 H216 V{0} H66\" stroke=\"#c44601\"/>\n", sum);
  svg += "<text x=\"20\" y=\"20\">x</text>\n";
  if (f.alpha == 0) svg += fmt::format("<text x=\"60\" y=\"{}\">no shortcut</text>\n", sum / 2 + 20);
  if (f.alpha != 0 && f.alpha != 1)
    svg += fmt::format("<text x=\"60\" y=\"{}\">× {:.3g}</text>\n", sum / 2 + 20, f.alpha);
  for (size_t i = 0; i < boxes.size(); ++i) box(svg, 80 + static_cast<int>(i) * 46, boxes[i]);
  svg += fmt::format(
      "<circle cx=\"52\" cy=\"{0}\" r=\"12\" fill=\"#fff\" stroke=\"#5c6370\"/><path d=\"M46 {0} h12 M52 {1} "
      "v12\" "
      "stroke=\"#1c1e22\"/>\n",
      sum, sum - 6);
  svg += fmt::format("<path d=\"M52 {} V{}\" stroke=\"#0067a5\"/>\n", sum + 12, end + 30);
  if (f.norm_out)
    svg += fmt::format(
        "<rect x=\"8\" y=\"{}\" width=\"88\" height=\"30\" rx=\"6\"/><text x=\"52\" y=\"{}\" "
        "text-anchor=\"middle\">norm</text>\n",
        sum + 26, sum + 46);
  return svg + fmt::format("<text x=\"20\" y=\"{}\">y</text>\n</svg>\n", end + 28);
}

std::string init_words(const SublayerFormula& f, const ModelConfig& c) {
  std::string words = enum_name(init_of(c));
  if (f.beta != 1) words += fmt::format(", times {:.4g} on V, output and feed-forward", f.beta);
  return words;
}

std::string measured(const std::string& name, const std::vector<BatteryExperiment>& experiments) {
  std::string text;
  for (const BatteryExperiment& e : experiments) {
    if (std::count(e.placements.begin(), e.placements.end(), name) == 0) continue;
    std::string rows;
    for (const BatteryFigure& f : e.figures) {
      const bool of_many = e.placements.size() > 1 && f.name.find(name) == std::string::npos;
      if (of_many) continue;
      rows += fmt::format("| {} | {:.4g} | {} |\n", f.name, f.value, f.expected);
    }
    if (rows.empty()) continue;
    text += fmt::format(
        "\n### {}. {}\n\n{}; {}.\n\n| figure | here | published or calibrated |\n|---|---|---|\n{}", e.number,
        e.title, e.source, e.setting, rows);
  }
  return text.empty() ? "\nNothing yet: no experiment of this run is about it.\n" : text;
}

}  // namespace

void write_placement_pages(const std::vector<BatteryExperiment>& experiments, const std::string& folder) {
  make_folder(folder);
  std::string index =
      "# Placements\n\nWhere the norms stand in a block, by name. Made by `plumb battery --docs`.\n\n";
  for (size_t i = 0; i < EnumNames<Placement>::names.size(); ++i) {
    const std::string name = EnumNames<Placement>::names[i];
    const ModelConfig config = [&] {
      ModelConfig c = battery::small_config(static_cast<Placement>(i), 12);
      c.init.reset();
      return c;
    }();
    const SublayerFormula f = sublayer_formula(config, Side::decoder, 0);
    write_file_atomically(join_path(folder, name + ".svg"), diagram(f));
    write_file_atomically(
        join_path(folder, name + ".md"),
        fmt::format("# {0}\n\n    {1}\n\n![{1}]({0}.svg)\n\nValues are those of a decoder of 12 layers, "
                    "first layer. Init: {2}.\n"
                    "\n## When to use it\n\n{3}\n\n## What the battery measured\n\nOn {4}.\n{5}",
                    name, f.str(), init_words(f, config), when(name), describe(machine()),
                    measured(name, experiments)));
    index += fmt::format("- [{0}]({0}.md): `{1}`\n", name, f.str());
  }
  write_file_atomically(join_path(folder, "README.md"), index);
}

}  // namespace plumb
