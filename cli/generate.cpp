// plumb generate: writes with a model, to the terminal or as JSON lines.
#include <fmt/ranges.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <iterator>
#include <memory>
#include <optional>
#include <type_traits>

#include "commands.h"
#include "model_folder.h"
#include "plumb/error.h"
#include "plumb/generator.h"
#include "probe_flags.h"
#include "recipe.h"

namespace plumb::cli {
namespace {

struct GenerateCommand {
  std::string model;
  std::vector<std::string> prompts;
  std::string file;
  bool lines = false;
  int64_t batch = 1;
  std::optional<StoredType> dtype;
  GenerateOptions options;
  ProbeFlags probe;
  Settings settings;
};

void put(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0) return;
  throw Error(ErrorKind::file, fmt::format("cannot write to the standard output: {}", std::strerror(errno)));
}

std::string whole_file(const std::string& path) {
  const auto refuse = [&](const std::string& why) {
    throw Error(ErrorKind::file, fmt::format("cannot read the prompt from {}: {}", path, why));
  };
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) refuse("it is a folder");
  std::ifstream in(path, std::ios::binary);
  if (!in) refuse(std::strerror(errno));
  std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  if (in.bad()) refuse(std::strerror(errno));
  return text;
}

// Of a beam: its score, and the next best.
std::string beam_fields(const Generated& g, const GenerateOptions& o) {
  if (o.beams == 1) return "";
  std::string text = fmt::format(", \"score\": {:.6f}", g.score);
  if (o.results == 1) return text;
  text += ", \"others\": [";
  for (size_t i = 0; i < g.others.size(); ++i) {
    const Generated& other = g.others[i];
    text += fmt::format("{}{{\"text\": {}, \"ids\": [{}], \"end\": \"{}\", \"score\": {:.6f}}}",
                        i == 0 ? "" : ", ", quote_toml(other.text), fmt::join(other.ids, ", "),
                        end_reason_name(other.end), other.score);
  }
  return text + "]";
}

// Log-probabilities of the tokens, and by id those of the likeliest.
std::string probability_fields(const Generated& g) {
  if (g.probabilities.empty()) return "";
  std::string text = ", \"log_probabilities\": [";
  for (size_t i = 0; i < g.probabilities.size(); ++i) {
    const TokenProbability& p = g.probabilities[i];
    text += fmt::format("{}{{\"log_probability\": {:.6f}, \"likeliest\": {{", i == 0 ? "" : ", ",
                        p.log_probability);
    for (size_t j = 0; j < p.likeliest.size(); ++j) {
      text +=
          fmt::format("{}\"{}\": {:.6f}", j == 0 ? "" : ", ", p.likeliest[j].first, p.likeliest[j].second);
    }
    text += "}}";
  }
  return text + "]";
}

std::string json_line(const std::string& prompt, const Generated& g, const GenerateOptions& o) {
  // A quoted text of TOML, with every control character by number, is one of JSON.
  return fmt::format(
      "{{\"prompt\": {}, \"text\": {}, \"ids\": [{}], \"end\": \"{}\", \"prompt_tokens\": {}, "
      "\"prefill_seconds\": {:.6f}, \"tokens_per_second\": {:.2f}{}}}\n",
      quote_toml(prompt), quote_toml(g.text), fmt::join(g.ids, ", "), end_reason_name(g.end), g.prompt_tokens,
      g.prefill_seconds, g.tokens_per_second, beam_fields(g, o) + probability_fields(g));
}

void show_rate(const Generated& g) {
  if (isatty(STDERR_FILENO) == 0) return;
  fmt::print(stderr, "[{} tokens after {}, {:.1f} tokens/s, ended by {}]\n", g.ids.size(), g.prompt_tokens,
             g.tokens_per_second, end_reason_name(g.end));
}

// Where prompts come from, one at a time; false: no more.
using NextPrompt = std::function<bool(std::string& prompt)>;

NextPrompt prompts_of(const GenerateCommand& c) {
  std::vector<std::string> given = c.prompts;
  if (!c.file.empty()) given = {whole_file(c.file)};
  if (given.empty() && isatty(STDIN_FILENO) == 0) {
    return [](std::string& prompt) { return static_cast<bool>(std::getline(std::cin, prompt)); };
  }
  if (given.empty()) given = {""};
  return [given, next = size_t{0}](std::string& prompt) mutable {
    if (next == given.size()) return false;
    prompt = given[next++];
    return true;
  };
}

void write_all(GenerateCommand& c, const Generator& generator) {
  const NextPrompt next = prompts_of(c);
  std::string prompt;
  if (c.batch == 1 && !c.lines) {
    while (next(prompt)) {
      const Generated g = generator.generate(prompt, c.options, put);
      put("\n");
      for (const Generated& other : g.others) put(other.text + "\n");
      show_rate(g);
      ++c.options.first_prompt;
    }
    return;
  }
  for (bool more = true; more;) {
    std::vector<std::string> prompts;
    while (static_cast<int64_t>(prompts.size()) < c.batch && (more = next(prompt))) prompts.push_back(prompt);
    const auto results = generator.generate(prompts, c.options);
    c.options.first_prompt += prompts.size();
    for (size_t i = 0; i < results.size(); ++i) {
      put(c.lines ? json_line(prompts[i], results[i], c.options) : results[i].text + "\n");
    }
  }
}

void run(GenerateCommand& c) {
  if (c.batch < 1) throw Error(ErrorKind::usage, fmt::format("--batch is {}, expected at least 1", c.batch));
  if (!c.file.empty() && !c.prompts.empty()) {
    throw Error(ErrorKind::usage, "a prompt on the command line and one in --file: give one of them");
  }
  Model model = load_model(c.model);
  const Tokenizer tokenizer = load_tokenizer(c.model);
  std::optional<Probe> probe = c.probe.open();
  Generator generator(model, tokenizer);
  if (probe) generator.watch(probe->observer());
  c.options = generator.defaults();
  c.settings.apply();
  validate(c.options);
  if (c.dtype) model.hold_as(*c.dtype);
  write_all(c, generator);
}

}  // namespace
}  // namespace plumb::cli

void add_generate(CLI::App& app) {
  auto c = std::make_shared<plumb::cli::GenerateCommand>();
  CLI::App* sub = app.add_subcommand("generate", "Writes with a trained model; \"complete\" is another name");
  sub->alias("complete");
  sub->add_option("model", c->model, "folder of a model or of a run")->required();
  sub->add_option("prompt", c->prompts,
                  "prompts (default: the lines of the standard input; on a terminal, an empty one)");
  sub->add_option("--file", c->file, "file whose whole text is the prompt");
  sub->add_flag("--lines", c->lines, "one JSON object a line for each prompt");
  sub->add_option("--batch", c->batch, "prompts computed side by side; results come in the order of prompts");
  plumb::visit_generate(c->options, [&](const char* name, auto& field, const char* help) {
    std::string words = help;
    if constexpr (std::is_arithmetic_v<std::remove_reference_t<decltype(field)>>) {
      words += fmt::format(" (default, where the model's files say nothing: {})", field);
    }
    c->settings.add("Writing", name, field, words);
  });
  c->settings.add("Writing", "dtype", c->dtype,
                  "what weights are held in (default: as the file stores them)");
  c->settings.add_flags(*sub);
  c->probe.add_to(*sub);
  sub->callback([c] { plumb::cli::run(*c); });
}
