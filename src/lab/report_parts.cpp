#include "lab/report_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/file.h"
#include "base/progress.h"
#include "lab/model_words.h"
#include "lab/page.h"
#include "lab/report_data.h"
#include "lab/report_notes.h"
#include "lab/sublayers.h"
#include "model/transformer.h"

namespace plumb {
namespace {

std::string fact(const std::string& name, const std::string& value, const std::string& more = "") {
  const std::string small = more.empty() ? "" : "<small>" + escaped(more) + "</small>";
  return fmt::format("<div><dt>{}</dt><dd>{}{}</dd></div>\n", escaped(name), escaped(value), small);
}

double tokens_of(const RunRecords& run) {
  double sum = 0;
  for (const StepLine& s : run.steps) sum += std::isfinite(s.tokens) ? s.tokens : 0;
  return sum;
}

double step_seconds_of(const RunRecords& run) {
  double sum = 0;
  for (const StepLine& s : run.steps) sum += std::isfinite(s.seconds) ? s.seconds : 0;
  return sum;
}

std::string best_validation(const RunRecords& run) {
  const EvaluationLine* best = nullptr;
  double least = 0;
  for (const auto& e : run.evaluations) {
    const auto loss = e.measures.find("loss");
    if (loss == e.measures.end() || !std::isfinite(loss->second) || (best && loss->second >= least)) continue;
    best = &e;
    least = loss->second;
  }
  if (!best) return "";
  std::string more = fmt::format("at step {}", best->step);
  for (const auto& [key, words] :
       {std::pair("bits_per_byte", "{:.3f} bits per byte"), std::pair("exact", "{:.1f} % exact"),
        std::pair("perplexity", "perplexity {:.4g}")}) {
    const auto found = best->measures.find(key);
    if (found == best->measures.end() || !std::isfinite(found->second)) continue;
    const double value = std::string_view(key) == "exact" ? 100 * found->second : found->second;
    more += ", " + fmt::format(fmt::runtime(words), value);
    break;
  }
  return fact("Best validation loss", loss_in_words(least), more);
}

std::string trained_on(const RunRecords& run) {
  if (const std::string task = setting(run, "task"); !task.empty()) {
    return fmt::format("<p>Trained on the task <code>{}</code>.</p>\n", escaped(task));
  }
  const std::string text = setting(run, "text");
  return text.empty() ? "" : fmt::format("<p>Trained on <code>{}</code>.</p>\n", escaped(text));
}

std::string summary(const RunRecords& run) {
  std::string html;
  if (run.config) {
    html += "<p class=\"words\">" + escaped(model_in_words(*run.config)) + "</p>\n";
    for (const auto& f : formulas_by_layer(*run.config)) {
      html += fmt::format("<p class=\"formula\">{}<small>{}</small></p>\n", escaped(f.formula),
                          escaped(f.layers));
    }
  }
  html += trained_on(run) + "<dl class=\"facts\">\n";
  if (run.config) {
    html +=
        fact("Parameters", format_count(static_cast<double>(Transformer(*run.config).parameters().count())),
             "that train");
  }
  const double tokens = tokens_of(run), seconds = step_seconds_of(run);
  html += fact("Data", format_count(tokens), "tokens read in training");
  html +=
      fact("Steps", fmt::format("{}", run.steps.back().step), fmt::format("{} recorded", run.steps.size()));
  const auto last = std::find_if(run.steps.rbegin(), run.steps.rend(),
                                 [](const StepLine& s) { return std::isfinite(s.loss); });
  if (last != run.steps.rend()) {
    html += fact("Last training loss", loss_in_words(last->loss), fmt::format("at step {}", last->step));
  }
  html += best_validation(run);
  double evaluating = 0;
  for (const auto& e : run.evaluations) {
    const auto found = e.measures.find("seconds");
    if (found != e.measures.end() && std::isfinite(found->second)) evaluating += found->second;
  }
  const std::string more =
      evaluating >= 1 ? fmt::format("of it {} evaluating", format_duration(evaluating)) : "in steps";
  html += fact("Time", format_duration(seconds + evaluating), more);
  if (seconds > 0) html += fact("Speed", format_count(tokens / seconds), "tokens a second");
  return html + "</dl>";
}

std::string list(const std::vector<std::string>& items) {
  std::string html;
  for (const std::string& item : items) html += "<li>" + escaped(item) + "</li>\n";
  return html;
}

// Skipped steps and spikes, what could not be read, and the recipe.
std::string records(const RunRecords& run) {
  constexpr size_t kMost = 50;
  std::vector<std::string> events;
  size_t count = 0;
  for (const StepLine& s : run.steps) {
    if (!s.skipped && !s.spike) continue;
    if (++count > kMost) continue;
    const std::string loss = std::isfinite(s.loss) ? fmt::format("loss {:.4g}", s.loss) : "loss not finite";
    const char* what = s.skipped && s.spike ? "spike, skipped" : s.skipped ? "skipped" : "spike";
    events.push_back(fmt::format("step {}: {} ({})", s.step, what, loss));
  }
  if (count > kMost) events.push_back(fmt::format("and {} more", count - kMost));
  std::string html = events.empty() ? "<p>No step was skipped, and none was marked as a spike.</p>\n"
                                    : "<h3>Skipped steps and spikes</h3>\n<ul class=\"events\">\n" +
                                          list(events) + "</ul>\n";
  if (!run.problems.empty()) {
    std::vector<std::string> shown(run.problems.begin(),
                                   run.problems.begin() + std::min(run.problems.size(), kMost));
    if (run.problems.size() > kMost) shown.push_back(fmt::format("and {} more", run.problems.size() - kMost));
    html += "<h3>What could not be read, and is left out</h3>\n<ul class=\"problems\">\n" + list(shown) +
            "</ul>\n";
  }
  if (!run.recipe.empty()) {
    html += "<details><summary>The recipe of this run</summary>\n<pre class=\"recipe\" tabindex=\"0\">" +
            escaped(run.recipe) + "</pre></details>\n";
  }
  return html + fmt::format("<p class=\"lead\">From {}.</p>", escaped(absolute_path(run.folder)));
}

std::string notes(const RunRecords& run) {
  return "<ul class=\"notes\">\n" + list(report_notes(run)) + "</ul>\n";
}

std::string sample(const RunRecords& run) {
  if (run.sample.empty()) return "<p>This run's folder holds no sample.txt.</p>\n";
  return "<p class=\"sample\" tabindex=\"0\">" + escaped(run.sample) + "</p>\n";
}

// What `html` makes of each run; of two beside each other, each under its name.
std::string side_by_side(const std::vector<RunRecords>& runs, std::string (*html)(const RunRecords&)) {
  if (runs.size() == 1) return html(runs.front());
  std::string text = "<div class=\"pair\">\n";
  for (const RunRecords& run : runs)
    text += "<div><h4>" + escaped(run.name) + "</h4>\n" + html(run) + "</div>\n";
  return text + "</div>\n";
}

// The settings of which two runs have different values, or which one of them has; not their own folders.
std::string differences(const RunRecords& a, const RunRecords& b) {
  for (const RunRecords* run : {&a, &b}) {
    if (run->recipe.empty()) {
      return "<p>" + escaped(run->name) + " holds no recipe.toml: the recipes cannot be compared.</p>\n";
    }
  }
  const auto of_a = recipe_settings(a), of_b = recipe_settings(b);
  const auto value = [](const auto& settings, const std::string& key) {
    const auto found =
        std::find_if(settings.begin(), settings.end(), [&](const auto& s) { return s.first == key; });
    return found == settings.end() ? std::string("–") : found->second;
  };
  std::vector<std::vector<std::string>> rows{{"setting", a.name, b.name}};
  for (const auto& [key, own] : of_a) {
    if (const std::string other = value(of_b, key); other != own && key != "out")
      rows.push_back({key, own, other});
  }
  for (const auto& [key, own] : of_b) {
    if (value(of_a, key) == "–") rows.push_back({key, "–", own});
  }
  if (rows.size() == 1) return "<p>The two recipes are the same.</p>\n";
  return "<div class=\"differences\">" + html_table("Settings that differ", rows) + "</div>\n";
}

std::string bucket(const std::vector<RunRecords>& runs) {
  std::string text;
  for (const RunRecords& run : runs) {
    const int64_t steps = steps_per_point(run);
    if (steps == 1) continue;
    text += fmt::format("Each point of the training loss{} is the mean of {} steps. ",
                        runs.size() > 1 ? " of " + run.name : "", steps);
  }
  return escaped(text);
}

}  // namespace

ReportParts report_parts(std::vector<RunRecords> runs) {
  if (runs.size() > 1 && runs[0].name == runs[1].name) {
    for (RunRecords& run : runs) run.name = run.folder;
  }
  ReportParts parts{.runs = runs.size()};
  for (RunRecords& run : runs) {
    add_contributions(run);
    parts.title += (parts.title.empty() ? "" : " and ") + run.name;
  }
  std::string top = side_by_side(runs, summary);
  if (runs.size() > 1) top += "<h3>What the recipes differ in</h3>\n" + differences(runs[0], runs[1]);
  parts.html = {{"summary", top + "<h3>What the records show</h3>\n" + side_by_side(runs, notes)},
                {"bucket", bucket(runs)},
                {"sample", side_by_side(runs, sample)},
                {"records", side_by_side(runs, records)}};
  parts.data = report_data(runs);
  return parts;
}

}  // namespace plumb
