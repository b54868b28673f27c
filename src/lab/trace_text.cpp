// A trace as text.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "lab/model_words.h"
#include "lab/trace_data.h"
#include "lab/trace_table.h"

namespace plumb {
namespace {

std::string token_list(const std::vector<std::string>& tokens) {
  std::string list;
  for (size_t i = 0; i < tokens.size(); ++i) list += fmt::format(" {}:{}", i, quoted_token(tokens[i]));
  return fmt::format("{} {}:{}\n", tokens.size(), tokens.size() == 1 ? "token" : "tokens", list);
}

std::string shapes_text(const TraceData& d) {
  std::string text =
      "\n1. Shapes\n"
      "   (1, T, C) is (batch, tokens, width of the stream).\n";
  for (size_t i = 0; i < d.shapes.size();) {
    std::vector<TextRow> rows;
    const std::string& place = d.shapes[i].place;
    for (; i < d.shapes.size() && d.shapes[i].place == place; ++i) {
      rows.push_back({d.shapes[i].step, d.shapes[i].shape, d.shapes[i].words});
    }
    // Every block has the same columns.
    rows.insert(rows.begin(), {"softmax(q k^T)", "(1, 1000, 1000)", ""});
    std::string table = text_table(rows, 3);
    text += "\n" + place + "\n" + table.substr(table.find('\n') + 1);
  }
  return text;
}

std::string order_text(const TraceData& d) {
  std::string text = "\n2. Order\n";
  for (const std::string& line : d.order) text += "  " + line + "\n";
  return text;
}

std::string norms_text(const TraceData& d) {
  if (d.norms.empty()) return "";
  std::vector<TextRow> rows{{"norm", "kind", "mean", "spread", "RMS", "-> mean", "spread", "RMS"}};
  for (const NormNumbers& n : d.norms) {
    rows.push_back({n.module, n.kind, digits(n.before.mean), digits(n.before.spread), digits(n.before.rms),
                    digits(n.after.mean), digits(n.after.spread), digits(n.after.rms)});
  }
  return "\nEach norm, before and after\n" + text_table(rows, 2);
}

std::string stream_text(const TraceData& d) {
  std::vector<TextRow> rows{
      {"sub-layer", "x mean", "spread", "RMS", "branch RMS", "added/kept", "y RMS", "cos(x, y)"}};
  for (const SublayerNumbers& s : d.sublayers) {
    rows.push_back({s.module, digits(s.stream.mean), digits(s.stream.spread), digits(s.stream.rms),
                    digits(s.branch.rms), s.added ? digits(*s.added) : "no shortcut", digits(s.output.rms),
                    digits(s.cosine)});
  }
  return "\nThe stream x and what each branch adds to it\n" + text_table(rows, 1);
}

// "Once"@0 by heads 0, 3 (62 %), the keys of most heads first.
std::string tops_in_words(const AttentionNumbers& a, const std::vector<std::string>& keys) {
  std::map<int64_t, std::vector<int64_t>> by_key;
  for (size_t h = 0; h < a.heads.size(); ++h) by_key[a.heads[h].top].push_back(static_cast<int64_t>(h));
  std::vector<std::pair<int64_t, std::vector<int64_t>>> ordered(by_key.begin(), by_key.end());
  std::stable_sort(ordered.begin(), ordered.end(),
                   [](const auto& x, const auto& y) { return x.second.size() > y.second.size(); });
  std::string words;
  for (const auto& [key, heads] : ordered) {
    double share = 0;
    for (const int64_t h : heads) share += a.heads[h].top_share / static_cast<double>(heads.size());
    words += fmt::format("{}{}@{} by {} {} ({})", words.empty() ? "" : "; ", quoted_token(keys[key]), key,
                         heads.size() == 1 ? "head" : "heads", fmt::join(heads, ", "), percent(share));
  }
  return words;
}

std::string attention_text(const TraceData& d) {
  std::string text =
      "\nWhere attention goes: entropy / ln n (1: even over the n keys seen, 0: one key), mean distance, and "
      "the\n"
      "key that receives most from each head\n";
  std::vector<TextRow> rows{{"attention", "entropy", "distance", "strongest"}};
  for (const AttentionNumbers& a : d.attention) {
    double distance = 0;
    for (const HeadAttention& h : a.heads) distance += h.distance / static_cast<double>(a.heads.size());
    rows.push_back({a.module, digits(a.entropy), digits(distance), tops_in_words(a, d.keys_of(a.module))});
  }
  for (TextRow& row : rows)
    row = {row[0], fmt::format("{:>7}", row[1]), fmt::format("{:>8}", row[2]), row[3]};
  return text + text_table(rows, 4);
}

std::string gradient_text(const LossGradient& g) {
  std::string text = fmt::format(
      "\n4. The way back\n"
      "  {} loss of the text: {:.4f} over {} {}.\n"
      "  Of the gradient at each x: the share that came by the shortcut, the share through the branch, and "
      "what the\n"
      "  end's gradient alone would be here by shortcuts all the way (\"straight\").\n",
      g.masked ? "Masked-token" : "Next-token", g.loss, g.targets, g.targets == 1 ? "target" : "targets");
  std::vector<TextRow> rows{
      {"sub-layer", "gradient RMS", "shortcut", "branch", "straight", "shortcut RMS", "branch RMS"}};
  for (const GradientShare& s : g.shares) {
    rows.push_back({s.module, digits(s.rms), percent(s.shortcut), percent(s.branch), percent(s.straight),
                    digits(s.shortcut_rms), digits(s.branch_rms)});
  }
  return text + text_table(rows, 1);
}

}  // namespace

std::string trace_text(const TraceData& d) {
  std::string text = model_in_words(d.config) + "\n" + token_list(d.tokens);
  if (!d.decoder_tokens.empty()) text += "The decoder reads " + token_list(d.decoder_tokens);
  text += shapes_text(d) + order_text(d) +
          "\n3. Numbers\n"
          "  Mean and RMS over all elements; spread: within a token.\n" +
          norms_text(d) + stream_text(d) + attention_text(d);
  if (d.gradient) text += gradient_text(*d.gradient);
  return text;
}

}  // namespace plumb
