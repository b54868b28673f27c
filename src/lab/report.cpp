#include "plumb/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/embedded.h"
#include "base/file.h"
#include "base/progress.h"
#include "lab/model_words.h"
#include "lab/page.h"
#include "lab/report_data.h"
#include "lab/report_notes.h"
#include "lab/sublayers.h"
#include "model/transformer.h"
#include "plumb/error.h"

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
  return fact("Best validation loss", fmt::format("{:.3f}", least), more);
}

// The text of a key in the resolved recipe, which has one `key = "text"` a line; "" where it is not set.
std::string recipe_text_of(const RunRecords& run, const std::string& key) {
  const std::string begin = "\n" + key + " = \"", text = "\n" + run.recipe;
  const size_t at = text.find(begin);
  if (at == std::string::npos) return "";
  const size_t first = at + begin.size();
  return text.substr(first, text.find_first_of("\"\n", first) - first);
}

std::string trained_on(const RunRecords& run) {
  if (const std::string task = recipe_text_of(run, "task"); !task.empty()) {
    return fmt::format("<p>Trained on the task <code>{}</code>.</p>\n", escaped(task));
  }
  const std::string text = recipe_text_of(run, "text");
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
    html +=
        fact("Last training loss", fmt::format("{:.3f}", last->loss), fmt::format("at step {}", last->step));
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

std::string name_of(const std::string& folder) {
  std::string path = absolute_path(folder);
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path.substr(path.rfind('/') + 1);
}

std::string script() {
  std::string text;
  for (const char* part :
       {"report_common.js", "report_charts.js", "report_heatmap.js", "report_diagram.js", "report.js"}) {
    text += embedded_file(part);
  }
  return text;
}

}  // namespace

void write_report(const std::string& run_folder, const std::string& out_html) {
  RunRecords run = read_run(run_folder);
  add_contributions(run);
  const int64_t bucket = steps_per_point(run);
  const std::string sample = run.sample.empty()
                                 ? "<p>This run's folder holds no sample.txt.</p>"
                                 : "<p class=\"sample\" tabindex=\"0\">" + escaped(run.sample) + "</p>";
  const std::string page = filled(
      embedded_file("report.html"),
      {{"title", escaped(name_of(run_folder))},
       {"style", std::string(embedded_file("report.css"))},
       {"summary", summary(run)},
       {"notes", list(report_notes(run))},
       {"bucket",
        bucket > 1 ? fmt::format("Each point of the training loss is the mean of {} steps. ", bucket) : ""},
       {"sample", sample},
       {"records", records(run)},
       {"data", report_data(run)},
       {"chart.js", std::string(embedded_file("chart.js"))},
       {"script", script()}});
  write_file_atomically(out_html, page);
}

}  // namespace plumb
