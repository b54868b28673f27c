// Reads a run's records and says what went wrong, if anything: when it began, the first place that moved,
// what it looks like, the figures that show it, and what to try. Rules over records; docs/diagnose.md lists
// them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace plumb {

enum class Course { sound, diverged, plateau };  // of the training loss
enum class Signature {
  attention_logit_growth,
  entropy_collapse,
  output_logit_drift,
  embedding_gradient_spike,
  dead_branch,
  massive_activations,
  precision_overflow,
  data_spike,
};
const char* course_name(Course course);           // "diverged"
const char* signature_name(Signature signature);  // "attention-logit-growth"

struct Evidence {
  std::string measure,
      at;  // as in probe.jsonl or metrics.jsonl: "attention.max_logit", "decoder.0.attention"
  int64_t step = 0;
  double value = 0;  // NaN: it was not finite
};

struct Remedy {
  std::string flag;  // "--qk-norm per-head"
  std::string why;
};

struct Finding {
  Signature signature{};
  int64_t began = 0;  // the step
  std::string at;     // the first place that moved; "" for what has none
  std::string words;  // what it is, in a sentence
  std::vector<Evidence> evidence;
  std::vector<Remedy> remedies;
};

struct Diagnosis {
  Course course = Course::sound;
  std::optional<int64_t> onset;                         // of a divergence or plateau
  double first_loss = 0, best_loss = 0, last_loss = 0;  // medians over a few steps
  std::optional<Evidence> moved;    // of a divergence: the first place that left its course
  std::vector<Finding> findings;    // by when they began
  std::vector<Remedy> remedies;     // where the course is bad and no finding explains it
  std::vector<std::string> limits;  // what could not be looked at, and why

  bool alarm() const { return course != Course::sound || !findings.empty(); }
};

// Throws Error(file) where the folder has no metrics.jsonl or no step in it.
Diagnosis diagnose(const std::string& run_folder);
std::string diagnosis_text(const Diagnosis& diagnosis);
std::string diagnosis_json(const Diagnosis& diagnosis);  // one object, NaN as null

}  // namespace plumb
