// One page of documentation for each placement, with what the battery measured.
#include <fmt/format.h>

#include <algorithm>

#include "base/file.h"
#include "lab/battery.h"
#include "lab/placement_diagram.h"
#include "plumb/config_fields.h"

namespace plumb {
namespace {

// When to use a placement, by name; one sentence or two, none of it measured here.
constexpr std::pair<const char*, const char*> kWhen[] = {
    {"post-norm",
     "For checkpoints that were trained so (BERT, BART, Marian). From about 12 layers on it wants warm-up "
     "and a small learning rate; deeper, take deep-norm."},
    {"pre-norm",
     "The default of decoders since GPT-2: trains without warm-up at any depth. Its stream grows with depth, "
     "so deep layers change it less."},
    {"deep-norm",
     "For deep stacks (tens to a thousand layers) that should end in a norm: post-norm's quality with "
     "pre-norm's stability. The init belongs to it."},
    {"sandwich",
     "Where activations must stay bounded (half precision, long runs): every branch is normed before it is "
     "added, so that one layer cannot drown the others."},
    {"reordered",
     "OLMo 2's order: norm on the branch's output only. Together with QK-norm; without it attention's logits "
     "grow."},
    {"re-zero",
     "No norms at all: the model begins as the identity, each branch's gate grows from 0. A slower start."},
    {"layer-scale",
     "For deep vision-style stacks: pre-norm whose branches begin almost closed, channel by channel."},
    {"layer-norm-scaling",
     "For deep pre-norm stacks whose last layers do too little: inputs are scaled by one over the root of "
     "the layer. With a normal init, not a scaled one."},
    {"sub-ln",
     "Magneto: a second norm inside each branch, weights scaled up with depth. For one recipe across "
     "encoders, decoders and both."},
    {"mix-ln",
     "Post-norm in the first quarter of the layers, pre-norm above: for deep stacks whose upper layers a "
     "pure pre-norm leaves nearly idle. Watch the lower quarter as you would watch post-norm."},
    {"normformer",
     "Pre-norm whose attention heads are scaled, whose attention branch is normed before the add, and whose "
     "feed-forward has a norm inside: for gradients that pre-norm leaves too large below and too small "
     "above."},
    {"admin",
     "Post-norm that should train deep: a profiling pass over the data sets each shortcut's starting weight, "
     "so that no branch dominates at the start."},
    {"fixup",
     "Without norms, by init alone: branches start at 0, and learned shifts stand where norms would. To see "
     "what norms are for, or where their cost matters."},
    {"t-fixup",
     "Without norms and without warm-up, by the init of the embeddings and of each branch's matrices. For "
     "translation-style models of moderate depth."},
    {"resi-dual",
     "Two streams: one post-normed, one that sums the branches, joined at the end. Post-norm's diversity of "
     "layers with pre-norm's gradient."},
    {"ngpt",
     "nGPT: everything of length 1, each branch a small step on the sphere. Without warm-up or weight decay; "
     "published to need fewer steps, the more the longer the context."},
    {"hyper-connections",
     "Several streams that each branch reads and writes by learned, token-wise maps: for wide-shortcut "
     "experiments at moderate depth. Watch the composite gain (streams.amax of the probe): nothing bounds "
     "it."},
    {"mhc",
     "Hyper-connections whose map between streams is kept doubly stochastic, so that no depth lets it grow: "
     "the form to take where the stack is deep or the run long."},
    {"plain", "Never to train with: the block without its shortcut, which shows why there is one."}};

std::string when(const std::string& name) {
  for (const auto& [key, words] : kWhen) {
    if (name == key) return words;
  }
  return "";
}

// What a layer's sub-layers are, where they differ by kind or by layer; of formulas that change with every
// layer, the first and the last.
std::vector<DrawnSublayer> sublayers_of(const ModelConfig& c) {
  struct Run {
    int64_t first, last;
    SublayerFormula attention, transform;
  };
  std::vector<Run> runs;
  for (int64_t i = 0; i < c.decoder_layers; ++i) {
    const Run run{i, i, sublayer_formula(c, Side::decoder, i),
                  sublayer_formula(c, Side::decoder, i, SublayerPart::feed_forward)};
    if (!runs.empty() && runs.back().attention == run.attention && runs.back().transform == run.transform)
      runs.back().last = i;
    else
      runs.push_back(run);
  }
  if (runs.size() > 2) runs.erase(runs.begin() + 1, runs.end() - 1);
  std::vector<DrawnSublayer> all;
  for (const Run& r : runs) {
    const std::string where = runs.size() == 1    ? ""
                              : r.first == r.last ? fmt::format("layer {}", r.first + 1)
                                                  : fmt::format("layers {} to {}", r.first + 1, r.last + 1);
    const std::string of = where.empty() ? "" : where + ", ";
    const NormKind norm = resolved_layer(c, Side::decoder, r.first).norm;
    if (r.attention == r.transform) {
      all.push_back({where, r.attention, norm});
    } else {
      all.push_back({of + "attention", r.attention, norm});
      all.push_back({of + "feed-forward", r.transform, norm});
    }
  }
  return all;
}

std::string formulas(const std::vector<DrawnSublayer>& sublayers, const char* before, const char* between) {
  std::string words;
  for (const DrawnSublayer& d : sublayers) {
    if (!words.empty()) words += between;
    words += before + d.formula.str();
    if (d.formula.norm_inner) words += ", N inside F too";
    if (d.formula.head_scale) words += ", heads scaled";
    if (d.norm == NormKind::shift) words += ", N(x) = x + b with a learned number b";
    if (!d.caption.empty()) words += " (" + d.caption + ")";
  }
  return words;
}

std::string init_words(const SublayerFormula& f, const ModelConfig& c) {
  std::string words = enum_name(init_of(c));
  if (f.beta != 1) words += fmt::format(", times {:.4g} on V, output and feed-forward", f.beta);
  if (f.output_gain == 0) words += ", 0 in the last matrix of a branch";
  if (f.profiled) words += ", shortcuts by a profiling pass";
  return words;
}

// A cell of a table in Markdown.
std::string cell(std::string words) {
  for (size_t at = 0; (at = words.find('|', at)) != std::string::npos; at += 2) words.insert(at, 1, '\\');
  return words;
}

// Whether a figure is of this placement: "t-fixup: loss" is none of fixup's.
bool speaks_of(const std::string& figure, const std::string& placement) {
  for (size_t at = 0; (at = figure.find(placement, at)) != std::string::npos; ++at) {
    if (at == 0 || figure[at - 1] == ' ') return true;
  }
  return false;
}

std::string measured(const std::string& name, const std::vector<BatteryExperiment>& experiments) {
  std::string text;
  for (const BatteryExperiment& e : experiments) {
    if (std::count(e.placements.begin(), e.placements.end(), name) == 0) continue;
    std::string rows;
    for (const BatteryFigure& f : e.figures) {
      const bool of_many = e.placements.size() > 1 && !speaks_of(f.name, name);
      if (of_many) continue;
      rows += fmt::format("| {} | {:.4g}{} | {} |\n", cell(f.name), f.value,
                          f.passed() ? "" : ", **outside its bound**", cell(f.expected));
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
    const auto sublayers = sublayers_of(config);
    write_file_atomically(join_path(folder, name + ".svg"), placement_diagram(sublayers));
    write_file_atomically(
        join_path(folder, name + ".md"),
        fmt::format("# {0}\n\n{1}\n\n![The sub-layer of {0}]({0}.svg)\n\nValues are those of a decoder of 12 "
                    "layers. Init: {2}.\n\n## When to use it\n\n{3}\n\n## What the battery measured\n\nOn "
                    "{4}.\n{5}",
                    name, formulas(sublayers, "    ", "\n"), init_words(sublayers.front().formula, config),
                    when(name), battery::machines(experiments), measured(name, experiments)));
    index += fmt::format("- [{0}]({0}.md): {1}\n", name, formulas(sublayers, "", "; "));
  }
  write_file_atomically(join_path(folder, "README.md"), index);
}

}  // namespace plumb
