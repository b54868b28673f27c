// plumb train: a recipe and flags to a run folder.
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "commands.h"
#include "model_folder.h"
#include "plumb/error.h"
#include "plumb/generator.h"
#include "plumb/model.h"
#include "plumb/probe.h"
#include "plumb/report.h"
#include "plumb/signal.h"
#include "plumb/trainer.h"
#include "run_settings.h"

namespace plumb::cli {
namespace {

namespace fs = std::filesystem;

// runs/NAME, with a number behind it where there is such a run.
std::string free_folder(const std::string& recipe) {
  const std::string name = "runs/" + (recipe.empty() ? "default" : fs::path(recipe).stem().string());
  std::string folder = name;
  for (int i = 2; fs::exists(folder); ++i) folder = fmt::format("{}-{}", name, i);
  return folder;
}

void resolve(TrainCommand& c) {
  resolve_config(c);
  validate(c.options);
  if (c.resume.empty()) {
    if (c.run.out.empty()) c.run.out = free_folder(c.recipe);
    if (Trainer::holds_run(c.run.out)) {
      throw Error(ErrorKind::usage,
                  fmt::format("{0} already holds a run: --resume {0} goes on with it, --out names "
                              "another folder for a new one",
                              c.run.out));
    }
  }
}

void say(const std::string& line) {
  fmt::print(stderr, "{}\n", line);
}

Dataset make_dataset(TrainCommand& c, bool masked) {
  RunSettings& r = c.run;
  if (!r.task.empty()) return Dataset::synthetic(r.task, {.seed = c.options.seed});
  if (r.text.empty()) r.text = default_corpus();
  const Tokenizer tokenizer = make_tokenizer(c);
  const TextOptions options{.seed = c.options.seed, .held_out = r.held_out};
  return masked ? Dataset::masked_text(r.text, tokenizer, options)
                : Dataset::text(r.text, tokenizer, options);
}

void take_ids(ModelConfig& config, const Tokenizer& tokenizer) {
  const auto id = [&](TokenRole role) { return tokenizer.special(role).value_or(-1); };
  config.vocab_size = tokenizer.vocab_size();
  config.bos_id = id(TokenRole::bos);
  config.pad_id = id(TokenRole::pad);
  config.mask_id = id(TokenRole::mask);
  config.eos_ids.clear();
  if (id(TokenRole::eos) >= 0) config.eos_ids = {id(TokenRole::eos)};
  if (config.has_encoder() && config.has_decoder()) config.decoder_start_id = config.bos_id;
}

void write_text(const std::string& path, const std::string& text) {
  const std::string beside = path + ".new";
  std::ofstream out(beside, std::ios::binary);
  out << text;
  out.close();
  std::error_code error;
  if (out) fs::rename(beside, path, error);
  if (!out || error) throw Error(ErrorKind::file, "cannot write " + path);
}

void describe(const TrainCommand& c, const Model& model, const Dataset& data) {
  const ModelConfig& m = model.config();
  const int64_t layers = m.encoder_layers + m.decoder_layers;
  say(data.describe());
  say(data.tokenizer().describe());
  const auto trained = static_cast<double>(model.parameter_count()) * 1e-6,
             all = static_cast<double>(model.cost(c.options.length).parameters) * 1e-6;
  say(fmt::format("{}, {} layers of width {}, {:.2f} M parameters{}; {} steps of {} tokens",
                  enum_name(*c.run.kind), layers, m.width, all,
                  trained < all ? fmt::format(", of which {:.2f} M train", trained) : "", c.options.steps,
                  c.options.batch * c.options.accumulation * c.options.length));
}

// A few words from the middle of the held-out text, to go on from.
std::string opening(const Dataset& data, int64_t length) {
  const int64_t count = data.evaluation_batches(Split::validation, 1, length);
  if (count == 0) return "";
  const Batch batch = data.evaluation_batch(Split::validation, count / 2, 1, length);
  const auto size = static_cast<size_t>(std::min<int64_t>(length, 16));
  const std::string text = data.tokenizer().decode({batch.ids.data(), size});
  return text.substr(text.find_first_of(" \n") + 1);  // the first word may be cut
}

// Some text by the best model, or answers to unseen inputs of a task; "" for an encoder.
std::string sample(const TrainCommand& c, const Dataset& data) {
  if (c.run.sample_tokens == 0 || data.kind() == DatasetKind::masked) return "";
  const Model model = load_model(c.in_folder("model"));
  const Generator generator(model, data.tokenizer());
  GenerateOptions options = generator.defaults();
  options.max_new_tokens = c.run.sample_tokens;
  if (data.kind() == DatasetKind::language_model) {
    options.temperature = 0.8;
    options.top_p = 0.9;
    options.seed = c.options.seed;
    options.ignore_eos = true;
    const std::string prompt = opening(data, c.options.length);
    return prompt + generator.generate(prompt, options).text + "\n";
  }
  const Batch batch = data.evaluation_batch(Split::test, 0, 5, c.options.length);
  std::string text;
  for (int64_t row = 0; row < batch.rows; ++row) {
    const auto* ids = batch.ids.data() + row * batch.length;
    const std::string input = data.tokenizer().decode({ids, static_cast<size_t>(batch.length)});
    text += input + " -> " + generator.generate(input, options).text + "\n";
  }
  return text;
}

void conclude(const TrainCommand& c, const Dataset& data, const TrainResult& result) {
  const std::string text = sample(c, data);
  if (!text.empty()) {
    write_text(c.in_folder("sample.txt"), text);
    fmt::print("\n{}\n", text);
  }
  write_report({c.folder()}, c.in_folder("report.html"));
  if (result.best_validation) {
    fmt::print("best validation loss {:.4f} at step {}; {} steps skipped, {} spikes\n",
               *result.best_validation, result.best_step, result.skipped, result.spikes);
  }
  fmt::print(
      "{0}/report.html   loss, learning rate, and every sub-layer's stream, branch, gradient and update\n"
      "{0}/model         the best model, as a Hugging Face folder\n"
      "{0}/recipe.toml, metrics.jsonl, probe.jsonl, checkpoints\n\n",
      c.folder());
  fmt::print("Next:\n");
  if (data.kind() == DatasetKind::language_model) {
    fmt::print("  {} generate {} \"Once upon\" --temperature 0.8\n", program_name, c.folder());
  }
  fmt::print(
      "  {0} info {1}\n"
      "  {0} train --resume {1} --steps {2}\n"
      "  {0} train --text YOUR_TEXT\n"
      "  {0} train --placement post-norm --layers 12     (compare the two reports)\n",
      program_name, c.folder(), 2 * c.options.steps);
}

void train(TrainCommand& c) {
  resolve(c);
  std::optional<Model> model;
  if (!c.run.from.empty()) {
    model = load_model(c.run.from);
    c.config = model->config();
    resolve_kind(c);
  }
  const Dataset data = make_dataset(c, *c.run.kind == ModelKind::encoder);
  if (!model) {
    take_ids(c.config, data.tokenizer());
    model = Model::create(c.config, c.options.seed);
  }
  Trainer trainer(*model, data, c.options, c.folder());
  if (!c.resume.empty()) {
    say(fmt::format("going on with {} from step {}", c.folder(), trainer.resume()));
  }
  data.tokenizer().save(c.in_folder("tokenizer.json"));
  write_text(c.in_folder("recipe.toml"), c.settings.toml());
  describe(c, *model, data);
  std::optional<Probe> probe;
  if (c.run.probe_every > 0) {
    const bool adam = c.options.optimizer != OptimizerKind::sgd;
    probe.emplace(c.in_folder("probe.jsonl"),
                  ProbeOptions{.every = c.run.probe_every, .adam_eps = adam ? c.options.eps : 0});
    probe->measure_model(
        *model, probe_batch(data, {.tokens = c.options.batch * c.options.accumulation * c.options.length,
                                   .length = c.options.length}));
    trainer.watch(probe->observer());
  }
  catch_stop_signals();
  const TrainResult result = trainer.run();
  conclude(c, data, result);
}

}  // namespace
}  // namespace plumb::cli

void add_train(CLI::App& app) {
  auto command = std::make_shared<plumb::cli::TrainCommand>();
  CLI::App* sub =
      app.add_subcommand("train", "Trains a model on a text or a task, and leaves a folder with all of it");
  sub->footer(
      "A recipe is a TOML file whose keys are these flags without the dashes in front; flags win over it. "
      "The "
      "folder\nof the run holds the resolved one as recipe.toml.");
  sub->add_option("recipe", command->recipe,
                  "a recipe file, or the name of a built-in one (default: default)");
  sub->add_option("--resume", command->resume, "folder of a run to go on with, from its newest checkpoint");
  plumb::cli::add_settings(*command);
  command->settings.add_flags(*sub);
  sub->callback([command] { plumb::cli::train(*command); });
}
