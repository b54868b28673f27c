// plumb score: how likely a decoder finds a text, or each of given ways to go on, as JSON.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <numbers>
#include <optional>

#include "commands.h"
#include "model_folder.h"
#include "plumb/error.h"
#include "plumb/score.h"
#include "recipe.h"
#include "text_file.h"

namespace plumb::cli {
namespace {

struct ScoreSettings {
  std::string model, text, file;
  std::optional<StoredType> dtype;
  ScoreOptions options;
};

struct Question {
  std::string prompt;
  std::vector<std::string> choices;
};

// A line {"prompt": TEXT, "choices": [TEXT, ...]}.
Question question_of(const std::string& line, const std::string& where) try {
  const auto j = nlohmann::json::parse(line);
  Question q{j.at("prompt").get<std::string>(), j.at("choices").get<std::vector<std::string>>()};
  if (q.choices.empty() || j.size() != 2) throw Error(ErrorKind::input, "");
  return q;
} catch (const std::exception&) {
  throw Error(ErrorKind::input,
              where + ": expected {\"prompt\": a text, \"choices\": [texts]} and nothing else");
}

void print_text_score(const ScoreSettings& s, const Model& model, const Tokenizer& tokenizer) {
  const auto start = std::chrono::steady_clock::now();
  const std::string text = read_whole_file(s.text);
  const TextScore score = score_text(model, tokenizer, text, s.options);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  fmt::print(
      "{{\"loss\": {}, \"perplexity\": {}, \"bits_per_byte\": {}, \"tokens\": {}, \"length\": {}, "
      "\"stride\": {}, "
      "\"seconds\": {:.3f}}}\n",
      score.loss(), score.perplexity(), score.nll / std::numbers::ln2 / static_cast<double>(text.size()),
      score.tokens, score.length, score.stride, seconds.count());
}

void print_choices(const ScoreSettings& s, const Model& model, const Tokenizer& tokenizer,
                   const Question& q) {
  const std::vector<ChoiceScore> scores = score_choices(model, tokenizer, q.prompt, q.choices, s.options);
  const auto best = [&](auto value) {
    return std::max_element(scores.begin(), scores.end(),
                            [&](const ChoiceScore& a, const ChoiceScore& b) { return value(a) < value(b); }) -
           scores.begin();
  };
  nlohmann::ordered_json line{{"choices", nlohmann::ordered_json::array()}};
  for (size_t i = 0; i < scores.size(); ++i) {
    line["choices"].push_back({{"text", q.choices[i]},
                               {"log_probability", scores[i].log_probability},
                               {"tokens", scores[i].tokens},
                               {"greedy", scores[i].greedy}});
  }
  line["best"] = best([](const ChoiceScore& c) { return c.log_probability; });
  line["best_per_token"] =
      best([](const ChoiceScore& c) { return c.log_probability / static_cast<double>(c.tokens); });
  fmt::print("{}\n", line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
}

void score(ScoreSettings& s) {
  if (!s.text.empty() && !s.file.empty())
    throw Error(ErrorKind::usage, "--text scores a text and --file questions: give one of them");
  std::ifstream in;
  if (!s.file.empty()) {
    in.open(s.file);
    if (!in) throw Error(ErrorKind::file, "cannot read " + s.file);
  }
  Model model = load_model(s.model);
  const Tokenizer tokenizer = load_tokenizer(s.model);
  if (s.dtype) model.hold_as(*s.dtype);
  if (!s.text.empty()) return print_text_score(s, model, tokenizer);
  std::string line;
  std::istream& lines = s.file.empty() ? std::cin : in;
  for (int64_t number = 1; std::getline(lines, line); ++number) {
    if (line.empty()) continue;
    const std::string where =
        fmt::format("line {} of {}", number, s.file.empty() ? "the standard input" : s.file);
    print_choices(s, model, tokenizer, question_of(line, where));
  }
}

}  // namespace
}  // namespace plumb::cli

void add_score(CLI::App& app) {
  auto s = std::make_shared<plumb::cli::ScoreSettings>();
  CLI::App* sub = app.add_subcommand(
      "score", "How likely a decoder finds a text (--text), or each of given choices (JSON lines), as JSON");
  sub->add_option("model", s->model, "folder of a model or of a run")->required();
  sub->add_option("--text", s->text, "UTF-8 file: its perplexity, in windows that overlap");
  sub->add_option(
      "--file", s->file,
      "lines {\"prompt\": ..., \"choices\": [...]}, each answered by a line with the choices' natural "
      "log-probabilities (default: the standard input)");
  sub->add_option("--length", s->options.length,
                  "tokens of a window (default: the model's longest, at most 1024)");
  sub->add_option(
      "--stride", s->options.stride,
      "tokens from one window to the next; each token counts in the first that holds it (default: half "
      "the length)");
  sub->add_option("--batch", s->options.batch, "windows or choices side by side");
  sub->add_option_function<std::string>(
      "--dtype",
      [s](const std::string& text) {
        s->dtype = plumb::cli::parse_value<plumb::StoredType>(text, "--dtype");
      },
      "what weights are held in: f32, bf16 or f16 (default: as the file stores them)");
  sub->callback([s] { plumb::cli::score(*s); });
}
