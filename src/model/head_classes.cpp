#include "model/head_classes.h"

#include <algorithm>

namespace plumb {
namespace {

// The heads of one family: the name of each in files, empty where there is no such class. They are called by
// the stem of the family's classes, and by what they do. The loss of answers counts padding, too, which OPT
// gives positions of its own and experts here pass over: these families' heads over answers are left out.
struct Heads {
  std::string_view type, stem, sequence, tokens, answers;
  std::string_view answers_prefix{};  // of the base model's tensors beside the head over answers
  double hidden_dropout = 0.1;        // before a head over tokens, where a file does not say it
};

constexpr std::string_view kNone{}, kScore{"score"}, kTagger{"classifier"}, kAnswers{"qa_outputs"},
    kOld{"transformer."};

constexpr Heads kHeads[] = {
    {"gpt2", "GPT2", kScore, kTagger, kAnswers},
    {"gpt_bigcode", "GPTBigCode", kScore, kTagger, kNone},
    {"gpt_neo", "GPTNeo", kScore, kTagger, kAnswers},
    {"gptj", "GPTJ", kScore, kNone, kAnswers},
    {"gpt_neox", "GPTNeoX", kScore, kTagger, kAnswers},
    {"opt", "OPT", kScore, kNone, kNone},
    {"bloom", "Bloom", kScore, kTagger, kAnswers, {}, 0},
    {"mpt", "Mpt", kScore, kTagger, kAnswers},
    {"falcon", "Falcon", kScore, kTagger, kAnswers, {}, 0},
    {"phi", "Phi", kScore, kScore, kNone},
    {"stablelm", "StableLm", kScore, kScore, kNone, {}, 0},
    {"starcoder2", "Starcoder2", kScore, kScore, kNone},
    {"persimmon", "Persimmon", kScore, kScore, kNone, {}, 0},
    {"nemotron", "Nemotron", kScore, kScore, kAnswers, kOld},
    {"llama", "Llama", kScore, kScore, kAnswers, kOld},
    {"mistral", "Mistral", kScore, kScore, kAnswers},
    {"ministral", "Ministral", kScore, kScore, kAnswers, kOld},
    {"ministral3", "Ministral3", kScore, kScore, kAnswers},
    {"arcee", "Arcee", kScore, kScore, kAnswers, kOld},
    {"qwen2", "Qwen2", kScore, kScore, kAnswers, kOld},
    {"qwen3", "Qwen3", kScore, kScore, kAnswers, kOld},
    {"olmo", "Olmo", kScore, kNone, kNone},
    {"olmo2", "Olmo2", kScore, kNone, kNone},
    {"exaone4", "Exaone4", kScore, kScore, kAnswers, kOld},
    {"smollm3", "SmolLM3", kScore, kScore, kAnswers, kOld},
    {"seed_oss", "SeedOss", kScore, kScore, kAnswers, kOld},
    {"hunyuan_v1_dense", "HunYuanDenseV1", kScore, kNone, kNone},
    {"gemma", "Gemma", kScore, kScore, kNone},
    {"gemma2", "Gemma2", kScore, kScore, kNone},
    {"gemma3_text", "Gemma3Text", kScore, kNone, kNone},
    {"helium", "Helium", kScore, kScore, kNone},
    {"phi3", "Phi3", kScore, kScore, kNone},
    {"glm", "Glm", kScore, kScore, kNone},
    {"glm4", "Glm4", kScore, kScore, kNone},
    {"mixtral", "Mixtral", kScore, kScore, kNone},
    {"qwen2_moe", "Qwen2Moe", kScore, kScore, kNone},
    {"qwen3_moe", "Qwen3Moe", kScore, kScore, kNone},
    {"gpt_oss", "GptOss", kScore, kScore, kNone},
    {"deepseek_v2", "DeepseekV2", kScore, kNone, kNone},
    {"deepseek_v3", "DeepseekV3", kScore, kScore, kNone},
};

constexpr int64_t kMostLabels = 1 << 20;

const Heads* heads_of(std::string_view type) {
  for (const Heads& h : kHeads) {
    if (h.type == type) return &h;
  }
  return nullptr;
}

constexpr std::pair<const char*, Problem> kProblems[] = {
    {"single_label_classification", Problem::single_label},
    {"multi_label_classification", Problem::multi_label},
    {"regression", Problem::regression}};

Problem read_problem(const JsonFields& f) {
  const std::string name = f.text("problem_type", "");
  if (name.empty()) return Problem::by_targets;
  for (const auto& [text, problem] : kProblems) {
    if (text == name) return problem;
  }
  f.wrong("problem_type",
          "\"single_label_classification\", \"multi_label_classification\" or \"regression\"");
}

// id2label, or the reference's names for as many as num_labels says.
std::vector<std::string> read_labels(const JsonFields& f) {
  std::vector<std::string> labels = f.texts_by_number("id2label");
  if (f.has("id2label")) return labels;
  const int64_t count = f.integer("num_labels", 2);
  if (count < 1 || count > kMostLabels) f.wrong("num_labels", "1 to 2^20 labels");
  labels.reserve(count);
  for (int64_t i = 0; i < count; ++i) labels.push_back("LABEL_" + std::to_string(i));
  return labels;
}

bool has_tagger_bias_key(const ModelConfig& c) {
  const Heads* h = heads_of(c.model_type);
  return c.head == Head::token_classification && h && h->tokens == kScore;
}

}  // namespace

std::vector<HeadClass> head_classes(std::string_view model_type) {
  std::vector<HeadClass> classes;
  const Heads* h = heads_of(model_type);
  if (!h) return classes;
  const auto add = [&](Head head, const char* what, std::string_view module, std::string_view prefix = {}) {
    if (!module.empty()) classes.push_back({head, std::string(h->stem) + what, module, prefix});
  };
  add(Head::sequence_classification, "ForSequenceClassification", h->sequence);
  add(Head::token_classification, "ForTokenClassification", h->tokens);
  add(Head::question_answering, "ForQuestionAnswering", h->answers, h->answers_prefix);
  return classes;
}

HeadClass head_class(const ModelConfig& config) {
  for (const HeadClass& c : head_classes(config.model_type)) {
    if (c.head == config.head) return c;
  }
  return {};
}

void read_head(const JsonFields& f, ModelConfig& c) {
  const std::vector<std::string> asked = f.texts("architectures");
  const std::vector<HeadClass> known = head_classes(c.model_type);
  const auto it = std::find_if(known.begin(), known.end(), [&](const HeadClass& k) {
    return std::find(asked.begin(), asked.end(), k.name) != asked.end();
  });
  if (it == known.end()) return;
  c.head = it->head;
  c.head_bias = c.head != Head::sequence_classification;
  c.head_transform = c.logits_bias = false;
  c.logits_scale = 1;
  c.logits_softcap = 0;
  if (c.head == Head::question_answering) return;
  c.labels = read_labels(f);
  if (c.head == Head::sequence_classification) {
    c.problem = read_problem(f);
    return;
  }
  if (has_tagger_bias_key(c)) c.head_bias = f.flag("token_classification_bias", true);
  const double hidden = f.number("hidden_dropout", heads_of(c.model_type)->hidden_dropout);
  c.head_dropout = f.number("classifier_dropout", hidden);
}

void write_head(const ModelConfig& c, JsonObject out) {
  if (head_class(c).name.empty() || c.head == Head::question_answering) return;
  const size_t count = c.labels.size();
  JsonObject names = out.object("id2label");
  for (size_t i = 0; i < count; ++i) names[std::to_string(i).c_str()] = c.labels[i];
  JsonObject numbers = out.object("label2id");
  for (size_t i = 0; i < count; ++i) numbers[c.labels[i].c_str()] = static_cast<int64_t>(i);
  for (const auto& [text, problem] : kProblems) {
    if (c.problem == problem) out["problem_type"] = text;
  }
  if (c.head == Head::token_classification) out["classifier_dropout"] = c.head_dropout;
  if (has_tagger_bias_key(c)) out["token_classification_bias"] = c.head_bias;
}

}  // namespace plumb
