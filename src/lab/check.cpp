// Runs the rules.
#include "lab/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "plumb/error.h"

namespace plumb {
namespace {

constexpr size_t kMostFindings = 8;  // of one rule, before the rest is counted

using Groups = std::vector<const RuleGroup*>;

const Groups& model_groups() {
  static const Groups all{&kFileRules,       &kPlacementRules, &kNormRules,
                          &kWeightRules,     &kAttentionRules, &kExpertRules,
                          &kVocabularyRules, &kPrecisionRules, &kTrainingRules};
  return all;
}

void report(const Rule& rule, const Findings& findings, std::vector<CheckFinding>& out) {
  const auto& list = findings.list();
  const size_t shown = list.size() > kMostFindings ? kMostFindings - 1 : list.size();
  for (size_t i = 0; i < shown; ++i)
    out.push_back({rule.code, rule.severity, list[i].where, list[i].found, list[i].expected});
  if (shown < list.size()) {
    out.push_back({rule.code, rule.severity, fmt::format("{} more places", list.size() - shown),
                   fmt::format("the same as in {}", list[0].where), list[shown].expected});
  }
}

// A key of the wrong type is the load's to say, or the rule's on types where plumb does not load the model.
void run_rule(const Rule& rule, const CheckSubject& subject, Findings& findings,
              std::set<std::string>& faults) try {
  rule.run(subject, findings);
} catch (const Error& error) {
  faults.insert(error.what());
}

std::vector<CheckFinding> run_rules(const CheckSubject& subject, const Groups& groups = model_groups()) {
  std::vector<CheckFinding> out;
  std::set<std::string> faults;
  for (const RuleGroup* group : groups) {
    for (const Rule& rule : group->rules) {
      Findings findings;
      run_rule(rule, subject, findings, faults);
      report(rule, findings, out);
    }
  }
  if (!faults.empty()) {
    const Rule& types = *std::find_if(kFileRules.rules.begin(), kFileRules.rules.end(),
                                      [](const Rule& r) { return std::string_view(r.code) == "PL004"; });
    Findings findings;
    for (const std::string& fault : faults) findings.add("config", fault, "a value of the key's type");
    report(types, findings, out);
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const CheckFinding& a, const CheckFinding& b) { return a.code < b.code; });
  return out;
}

std::string layers_words(Side side, int64_t first, int64_t last) {
  if (first == last) return fmt::format("{} layer {}", side_name(side), first);
  return fmt::format("{} layers {} to {}", side_name(side), first, last);
}

}  // namespace

const std::vector<CheckRule>& check_rules() {
  static const std::vector<CheckRule> all = [] {
    std::vector<CheckRule> rules;
    Groups groups = model_groups();
    groups.push_back(&kTokenizerRules);
    for (const RuleGroup* group : groups) {
      for (const Rule& r : group->rules)
        rules.push_back({r.code, r.severity, group->subject, r.sentence, r.source, r.fix});
    }
    return rules;
  }();
  return all;
}

std::vector<CheckFinding> check_folder(const std::string& folder, const CheckOptions& options) {
  return run_rules(read_subject(folder, options));
}

std::vector<CheckFinding> check_recipe(const ModelConfig& config, const TrainOptions& training) {
  const auto nothing = [] { return JsonFields(Json::object(), "the recipe"); };
  CheckSubject s{.json = nothing(), .generation = nothing(), .tokenizer_config = nothing()};
  s.training = training;
  s.load_error = take_config(s, config);
  return run_rules(s);
}

std::vector<CheckFinding> check_tokenizer(const std::string& path,
                                          const std::vector<TokenizerSample>& samples) {
  CheckSubject s = read_tokenizer_subject(path);
  s.samples = built_in_samples();
  s.texts = samples;
  return run_rules(s, {&kVocabularyRules, &kTokenizerRules});
}

std::string side_name(Side side) {
  return side == Side::encoder ? "encoder" : "decoder";
}

void by_layers(const CheckSubject& subject, Findings& findings,
               const std::function<std::optional<LayerFault>(const LayerView&)>& fault) {
  if (!subject.config) return;
  const ModelConfig& c = *subject.config;
  for (const Side side : {Side::encoder, Side::decoder}) {
    std::optional<LayerFault> open;
    int64_t first = 0;
    const int64_t layers = layers_of(c, side);
    for (int64_t i = 0; i <= layers; ++i) {
      std::optional<LayerFault> here;
      if (i < layers)
        here = fault({c, side, i, layers, resolved_layer(c, side, i), sublayer_formula(c, side, i)});
      if (here == open) continue;
      if (open) findings.add(layers_words(side, first, i - 1), open->found, open->expected);
      open = here;
      first = i;
    }
  }
}

std::optional<int64_t> whole(const JsonFields& json, std::initializer_list<const char*> keys) {
  for (const char* key : keys) {
    if (json.raw(key).is_number_integer()) return json.integer(key, 0);
  }
  return {};
}

std::string pattern_of(const std::string& name) {
  std::string pattern;
  for (size_t i = 0; i < name.size(); ++i) {
    const bool digit = name[i] >= '0' && name[i] <= '9';
    const bool starts = i == 0 || name[i - 1] == '.';
    if (!digit || !starts) {
      pattern += name[i];
      continue;
    }
    size_t end = i;
    while (end < name.size() && name[end] >= '0' && name[end] <= '9') ++end;
    if (end < name.size() && name[end] != '.') {
      pattern += name[i];
      continue;
    }
    pattern += '#';
    i = end - 1;
  }
  return pattern;
}

}  // namespace plumb
