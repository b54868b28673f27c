// A trial as a page, and as JSON lines.
#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/json.h"
#include "lab/page.h"
#include "lab/trial_data.h"
#include "plumb/error.h"

namespace plumb {
namespace {

OrderedJson known(double x) {
  return std::isfinite(x) ? OrderedJson(x) : OrderedJson(nullptr);
}

OrderedJson numbers(const std::vector<double>& values) {
  OrderedJson j = OrderedJson::array();
  for (const double v : values) j.push_back(known(v));
  return j;
}

OrderedJson interval_data(const Interval& i) {
  return {{"mean", known(i.mean)},
          {"low", known(i.low)},
          {"high", known(i.high)},
          {"count", i.count},
          {"confidence", i.confident ? OrderedJson(0.95) : OrderedJson(nullptr)}};
}

const LrPoint* best_point(const TrialSeries& s) {
  return s.best < 0 ? nullptr : &s.points[static_cast<size_t>(s.best)];
}

// The mean over seeds, place by place, of those that have it.
std::vector<double> mean_of(const LrPoint* p,
                            const std::function<const std::vector<double>&(const CellResult&)>& get) {
  std::vector<double> sum;
  std::vector<int> count;
  for (const CellResult* cell : p ? p->cells : std::vector<const CellResult*>{}) {
    if (!cell) continue;
    const std::vector<double>& v = get(*cell);
    sum.resize(std::max(sum.size(), v.size()), 0);
    count.resize(sum.size(), 0);
    for (size_t i = 0; i < v.size(); ++i) {
      if (!std::isfinite(v[i])) continue;
      sum[i] += v[i];
      ++count[i];
    }
  }
  for (size_t i = 0; i < sum.size(); ++i) sum[i] = count[i] > 0 ? sum[i] / count[i] : std::nan("");
  return sum;
}

OrderedJson series_data(const TrialSeries& s) {
  const LrPoint* best = best_point(s);
  OrderedJson j = {{"name", s.name},
                   {"best", best ? best->lr : ""},
                   {"rates", OrderedJson::array()},
                   {"mean", OrderedJson::array()},
                   {"low", OrderedJson::array()},
                   {"high", OrderedJson::array()},
                   {"stable", OrderedJson::array()}};
  for (const LrPoint& p : s.points) {
    j["rates"].push_back(p.lr);
    j["mean"].push_back(known(p.loss.mean));
    j["low"].push_back(known(p.loss.low));
    j["high"].push_back(known(p.loss.high));
    j["stable"].push_back(fmt::format("{} of {}", p.stable, p.ended));
  }
  j["steps"] = numbers(mean_of(
      best, [](const CellResult& c) -> const auto& { return c.curve_steps; }));
  j["curve"] = numbers(mean_of(
      best, [](const CellResult& c) -> const auto& { return c.curve; }));
  j["stream"] = numbers(mean_of(
      best, [](const CellResult& c) -> const auto& { return c.last.stream_rms; }));
  j["gradient"] = numbers(mean_of(
      best, [](const CellResult& c) -> const auto& { return c.last.stream_gradient; }));
  return j;
}

std::string interval_text(const Interval& i) {
  if (i.count == 0) return "–";
  if (i.count == 1) return fmt::format("{:.4g}", i.mean);
  return fmt::format("{:.4g} ({}{:.4g} to {:.4g}, n = {})", i.mean, i.confident ? "95 %: " : "", i.low,
                     i.high, i.count);
}

std::string series_table(const TrialSummary& t) {
  std::vector<std::vector<std::string>> rows{{"series", "best " + (t.lr_key.empty() ? "lr" : t.lr_key),
                                              "largest stable", "loss at the best",
                                              "sensitivity to the learning rate"}};
  for (const TrialSeries& s : t.series) {
    const LrPoint* best = best_point(s);
    const std::string largest =
        s.largest_stable < 0 ? "none" : s.points[static_cast<size_t>(s.largest_stable)].lr;
    rows.push_back({s.name, best ? best->lr : "–", t.lr_key.empty() ? "–" : largest,
                    best ? interval_text(best->loss) : "–", interval_text(s.sensitivity)});
  }
  return html_table("Series: a point of the grid without learning rate and seed", rows);
}

std::string fit_table(const TrialSummary& t) {
  if (t.fits.empty())
    return "<p>Nothing to fit: no cell has a probe's records of three places or more.</p>\n";
  std::vector<std::vector<std::string>> rows{{"fit", "series", "slope", "R²"}};
  for (const TrialFit& f : t.fits)
    rows.push_back({f.what, f.series, interval_text(f.slope), fmt::format("{:.3f}", f.r2)});
  return html_table(
      "Straight lines by least squares, one for each seed: mean slope, and over 3 seeds or more its interval",
      rows);
}

std::string cell_table(const TrialData& data, const TrialSummary& t) {
  std::vector<std::vector<std::string>> rows(1);
  for (const TrialAxis& axis : data.axes) rows[0].push_back(axis.key);
  rows[0].insert(rows[0].end(), {"how it ended", "first loss", "loss", "trains"});
  for (size_t i = 0; i < data.cells.size(); ++i) {
    const CellResult& cell = data.cells[i];
    std::vector<std::string> row = cell.values;
    const auto text = [](double x) { return std::isfinite(x) ? fmt::format("{:.4f}", x) : std::string("–"); };
    row.insert(row.end(), {cell.outcome.empty() ? "not yet" : cell.outcome, text(cell.initial_loss),
                           text(cell.loss), trains(cell, t.lowest[i]) ? "yes" : "no"});
    rows.push_back(std::move(row));
  }
  return html_table("Every cell", rows);
}

std::string figure(const std::string& id, const std::string& title, const std::string& words) {
  return fmt::format(
      "<figure id=\"{}\" class=\"wide\"><figcaption><h3>{}</h3><p>{}</p></figcaption></figure>\n", id, title,
      words);
}

}  // namespace

std::string trial_page(const TrialPlan& plan, const TrialData& data, const TrialSummary& t) {
  OrderedJson j = {{"sites", OrderedJson::array()}, {"lr_key", t.lr_key}, {"series", OrderedJson::array()}};
  for (const TrialSeries& s : t.series) j["series"].push_back(series_data(s));
  std::string body = "<section><h2>What the cells support</h2>\n<ul class=\"notes\">\n";
  for (const std::string& w : t.verdict) body += "<li>" + escaped(w) + "</li>\n";
  body += "</ul>\n" + series_table(t) +
          "<p class=\"lead\">A cell trains where it made all its steps and three quarters of the way from "
          "its first loss "
          "to the lowest of the trial (of its text and tokens, where those differ). One that does not is "
          "slow where its learning rate is smaller than the "
          "best of "
          "its series, else not stable. Sensitivity: the mean over learning rates of min(loss, first loss), "
          "less the "
          "lowest loss (Wortsman 2023, arXiv 2309.14322).</p></section>\n";
  body += "<section><h2>Pictures</h2>\n<div class=\"grid\">\n" +
          figure("curves", "Loss by step",
                 "Training loss of each series at its best learning rate, mean over seeds.");
  if (!t.lr_key.empty() && t.series.front().points.size() > 1) {
    body += figure("rates", "Loss by learning rate",
                   "At the end, mean over seeds; a cell that diverged counts as its first loss.");
  }
  bool probed = false;
  for (const auto& s : j["series"]) probed = probed || !s["stream"].empty();
  if (probed) {
    body += figure("stream", "Size of the stream by depth",
                   "RMS before each sub-layer at the last sampled step, at the best learning rate.") +
            figure("gradient", "Gradient by depth",
                   "RMS of the loss’s gradient on the stream before each sub-layer, at the same step.");
  }
  body += "</div></section>\n<section><h2>Slopes</h2>\n" + fit_table(t) +
          "</section>\n<section><h2>Cells</h2>\n" + cell_table(data, t) +
          "<details><summary>The recipe of this trial</summary>\n<pre class=\"recipe\" tabindex=\"0\">" +
          escaped(plan.recipe) + "</pre></details></section>\n";
  return walk_page({"trial", plan.folder, body, script_data(j), "trial.js"});
}

std::string trial_lines(const TrialData& data, const TrialSummary& t) {
  std::string text;
  const auto add = [&](const OrderedJson& j) { text += dump_json(j, -1) + "\n"; };
  for (size_t n = 0; n < data.cells.size(); ++n) {
    const CellResult& cell = data.cells[n];
    OrderedJson values = OrderedJson::object();
    for (size_t i = 0; i < data.axes.size(); ++i) values[data.axes[i].key] = cell.values[i];
    add({{"cell", values},
         {"outcome", cell.outcome.empty() ? OrderedJson(nullptr) : OrderedJson(cell.outcome)},
         {"loss", known(cell.loss)},
         {"initial_loss", known(cell.initial_loss)},
         {"trains", trains(cell, t.lowest[n])}});
  }
  for (const TrialSeries& s : t.series) {
    const LrPoint* best = best_point(s);
    const OrderedJson none = nullptr;
    add({{"series", s.name},
         {"lr_sensitivity", interval_data(s.sensitivity)},
         {"best_lr", best && !t.lr_key.empty() ? OrderedJson(best->lr) : none},
         {"largest_stable_lr", s.largest_stable < 0 || t.lr_key.empty()
                                   ? none
                                   : OrderedJson(s.points[static_cast<size_t>(s.largest_stable)].lr)},
         {"loss", best ? interval_data(best->loss) : none}});
  }
  for (const TrialFit& f : t.fits) {
    OrderedJson j = {{"fit", f.what}, {"series", f.series}};
    j["slope"] = known(f.slope.mean);
    j["low"] = known(f.slope.low);
    j["high"] = known(f.slope.high);
    j["count"] = f.slope.count;
    j["r2"] = known(f.r2);
    add(j);
  }
  for (const std::string& w : t.verdict) add({{"verdict", w}});
  return text;
}

std::vector<std::string> write_trial_report(const TrialPlan& plan, const std::string& out_html) {
  const TrialData data = read_trial(plan);
  bool any = false;
  for (const CellResult& cell : data.cells) any = any || !cell.curve.empty();
  if (!any)
    throw Error(ErrorKind::file,
                fmt::format("no cell of {} has made a step: nothing to report", plan.folder));
  const TrialSummary summary = summarize(data);
  write_file_atomically(join_path(plan.folder, "trial.jsonl"), trial_lines(data, summary));
  write_file_atomically(out_html, trial_page(plan, data, summary));
  return summary.verdict;
}

}  // namespace plumb
