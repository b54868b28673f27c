#include "plumb/diagnose.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "lab/diagnose_rules.h"

namespace plumb {
namespace {

OrderedJson number(double x) {
  return std::isfinite(x) ? OrderedJson(x) : OrderedJson(nullptr);
}

OrderedJson json_of(const std::vector<Remedy>& remedies) {
  OrderedJson j = OrderedJson::array();
  for (const Remedy& r : remedies) j.push_back({{"flag", r.flag}, {"why", r.why}});
  return j;
}

OrderedJson json_of(const Evidence& e) {
  OrderedJson j = {{"measure", e.measure}};
  if (!e.at.empty()) j["at"] = e.at;
  j["step"] = e.step;
  j["value"] = number(e.value);
  return j;
}

OrderedJson json_of(const Finding& f) {
  OrderedJson evidence = OrderedJson::array();
  for (const Evidence& e : f.evidence) evidence.push_back(json_of(e));
  OrderedJson j = {{"signature", signature_name(f.signature)}, {"began", f.began}};
  if (!f.at.empty()) j["at"] = f.at;
  j["words"] = f.words;
  j["evidence"] = std::move(evidence);
  j["try"] = json_of(f.remedies);
  return j;
}

std::string figure(double x) {
  return std::isfinite(x) ? fmt::format("{:.4g}", x) : "not finite";
}

std::string lines_of(const std::vector<Remedy>& remedies) {
  std::string text;
  for (const Remedy& r : remedies) text += fmt::format("    try {:<24} {}\n", r.flag, r.why);
  return text;
}

std::string text_of(const Finding& f) {
  std::string text = fmt::format("\n{} from step {}{}\n  {}\n", signature_name(f.signature), f.began,
                                 f.at.empty() ? "" : ", first at " + f.at, f.words);
  for (const Evidence& e : f.evidence) {
    text += fmt::format("    step {:<8} {}{} = {}\n", e.step, e.at.empty() ? "" : e.at + " ", e.measure,
                        figure(e.value));
  }
  return text + lines_of(f.remedies);
}

// Once numbers are not finite, nothing that came then or later tells more.
void drop_consequences(Findings& findings) {
  const auto overflow = std::find_if(findings.begin(), findings.end(), [](const Finding& f) {
    return f.signature == Signature::precision_overflow &&
           (f.evidence[0].measure.ends_with("not_finite") || !std::isfinite(f.evidence[0].value));
  });
  if (overflow == findings.end()) return;
  const int64_t began = overflow->began;
  std::erase_if(findings, [&](const Finding& f) {
    return f.signature != Signature::precision_overflow && f.signature != Signature::data_spike &&
           f.began >= began;
  });
}

// Of a model that something was wrong with before, no batch is to blame.
void drop_unsure_spike(Findings& findings) {
  const auto spike = std::find_if(findings.begin(), findings.end(),
                                  [](const Finding& f) { return f.signature == Signature::data_spike; });
  if (spike == findings.end()) return;
  const bool broken =
      std::any_of(findings.begin(), findings.end(), [&](const Finding& f) { return f.began < spike->began; });
  if (broken) findings.erase(spike);
}

}  // namespace

const char* course_name(Course course) {
  switch (course) {
    case Course::sound:
      return "sound";
    case Course::diverged:
      return "diverged";
    case Course::plateau:
      return "plateau";
  }
  return "?";
}

const char* signature_name(Signature signature) {
  switch (signature) {
    case Signature::attention_logit_growth:
      return "attention-logit-growth";
    case Signature::entropy_collapse:
      return "entropy-collapse";
    case Signature::output_logit_drift:
      return "output-logit-drift";
    case Signature::embedding_gradient_spike:
      return "embedding-gradient-spike";
    case Signature::dead_branch:
      return "dead-branch";
    case Signature::massive_activations:
      return "massive-activations";
    case Signature::precision_overflow:
      return "precision-overflow";
    case Signature::data_spike:
      return "data-spike";
  }
  return "?";
}

Diagnosis diagnose(const std::string& run_folder) {
  const RunRecords run = read_run(run_folder);
  const LossCourse course = loss_course(run);
  Diagnosis d{.course = course.course,
              .onset = course.onset,
              .first_loss = course.first,
              .best_loss = course.best,
              .last_loss = course.last,
              .moved = first_moved(run, course)};
  for (const auto rule : {find_attention, find_output_drift, find_embedding_spike, find_massive,
                          find_overflow, find_data_spike}) {
    rule(run, course, d.findings);
  }
  if (run.probe.empty()) {
    d.limits.push_back("there is no probe.jsonl: only the loss was looked at (--probe-every)");
  } else {
    find_dead_branch(run, course, d.findings);
  }
  drop_consequences(d.findings);
  drop_unsure_spike(d.findings);
  for (const std::string& problem : run.problems) d.limits.push_back(problem);
  std::stable_sort(d.findings.begin(), d.findings.end(),
                   [](const Finding& a, const Finding& b) { return a.began < b.began; });
  if (d.findings.empty()) d.remedies = remedies_for(run, course);
  return d;
}

std::string diagnosis_text(const Diagnosis& d) {
  std::string text = fmt::format("{}: loss {:.4g} at the start, {:.4g} at best, {:.4g} at the end",
                                 course_name(d.course), d.first_loss, d.best_loss, d.last_loss);
  if (d.onset)
    text += fmt::format("; {} from step {}", d.course == Course::plateau ? "flat" : "bad", *d.onset);
  text += "\n";
  if (d.moved) {
    text += fmt::format("first to move: {}, {} = {} at step {}\n", d.moved->at, d.moved->measure,
                        figure(d.moved->value), d.moved->step);
  }
  for (const Finding& f : d.findings) text += text_of(f);
  if (d.findings.empty()) {
    text += d.course == Course::sound ? "No signature of a fault was found.\n"
                                      : "No signature that is known here explains it.\n";
  }
  text += lines_of(d.remedies);
  for (const std::string& limit : d.limits) text += "note: " + limit + "\n";
  return text;
}

std::string diagnosis_json(const Diagnosis& d) {
  OrderedJson findings = OrderedJson::array();
  for (const Finding& f : d.findings) findings.push_back(json_of(f));
  OrderedJson j = {{"course", course_name(d.course)}};
  if (d.onset) j["onset"] = *d.onset;
  j["loss"] = {{"first", number(d.first_loss)}, {"best", number(d.best_loss)}, {"last", number(d.last_loss)}};
  if (d.moved) j["first_moved"] = json_of(*d.moved);
  j["findings"] = std::move(findings);
  j["try"] = json_of(d.remedies);
  j["limits"] = d.limits;
  return dump_json(j, -1);
}

}  // namespace plumb
