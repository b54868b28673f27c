// plumb train: a recipe and flags to a run folder.
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "commands.h"
#include "plumb/error.h"
#include "plumb/generator.h"
#include "plumb/model.h"
#include "plumb/probe.h"
#include "plumb/report.h"
#include "plumb/signal.h"
#include "plumb/trainer.h"
#include "recipe.h"

namespace plumb {

enum class ModelKind { decoder, encoder, encoder_decoder };
template <>
struct EnumNames<ModelKind> {
  static constexpr std::array names{"decoder", "encoder", "encoder-decoder"};
};

}  // namespace plumb

namespace plumb::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kModelGroup = "Model";

// What a run needs to know besides model and training.
struct RunSettings {
  std::string text, task, tokenizer = "bpe", from, out;
  double held_out = 0.05;
  std::optional<ModelKind> kind;
  int64_t layers = 0, probe_every = 10, sample_tokens = 200;
};

struct Command {
  std::string recipe, resume;
  RunSettings run;
  TrainOptions options;
  ModelConfig config;
  Settings settings;

  std::string folder() const { return resume.empty() ? run.out : resume; }
  std::string in_folder(const std::string& name) const { return folder() + "/" + name; }
};

void add_settings(Command& c) {
  const auto into = [&](const char* group) {
    return [&c, group](const char* name, auto& field, const char* help) {
      c.settings.add(group, name, field, help);
    };
  };
  RunSettings& r = c.run;
  const auto data = into("Data");
  data("text", r.text,
       "UTF-8 file, or folder of them (default: fortunes or the common licences, as Debian has them)");
  data("task", r.task, "a task with known answers in place of a text: copy, reverse or sort");
  data("held_out", r.held_out, "share of the text that is kept for validation");
  data("tokenizer", r.tokenizer, "bpe (trained on the text, of --vocab-size), bytes, or a tokenizer.json");
  const auto run = into("Run");
  run("out", r.out, "folder of the run (default: runs/ and the recipe's name)");
  run("from", r.from, "a model folder whose weights and tokenizer the run starts from");
  run("probe_every", r.probe_every, "steps between looks inside (0: none)");
  run("sample_tokens", r.sample_tokens, "length of the text written at the end (0: none)");
  visit_train(c.options, into("Training"));
  const auto model = into(kModelGroup);
  model("kind", r.kind, "what kind of model (default: encoder-decoder for a task, else what the layers say)");
  model("layers", r.layers, "layers of the encoder, the decoder or both, by kind (0: as said one by one)");
  visit(c.config, model);
}

std::string read_text(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  if (!in) throw Error(ErrorKind::file, "cannot read " + path);
  return text.str();
}

void load_recipe(Command& c) {
  if (!c.resume.empty()) {
    if (!c.recipe.empty())
      throw Error(ErrorKind::usage, "--resume goes on with the recipe of the run: name no other");
    if (c.settings.has_flag("out"))
      throw Error(ErrorKind::usage, "--resume goes on in the folder of the run: no --out");
    const std::string path = c.in_folder("recipe.toml");
    if (!fs::exists(path))
      throw Error(ErrorKind::file, c.resume + " is not the folder of a run: it has no recipe.toml");
    c.settings.load(read_text(path), path);
  } else if (c.recipe.empty()) {
    c.settings.load(recipe_text("default"), "the default recipe");
  } else if (fs::exists(c.recipe)) {
    c.settings.load(read_text(c.recipe), c.recipe);
  } else {
    c.settings.load(recipe_text(c.recipe), "the recipe " + c.recipe);
  }
}

// runs/NAME, with a number behind it where there is such a run.
std::string free_folder(const std::string& recipe) {
  const std::string name = "runs/" + (recipe.empty() ? "default" : fs::path(recipe).stem().string());
  std::string folder = name;
  for (int i = 2; fs::exists(folder); ++i) folder = fmt::format("{}-{}", name, i);
  return folder;
}

void resolve_kind(Command& c) {
  RunSettings& r = c.run;
  ModelConfig& m = c.config;
  if (!r.kind) {
    r.kind = !r.task.empty()   ? ModelKind::encoder_decoder
             : m.has_encoder() ? (m.has_decoder() ? ModelKind::encoder_decoder : ModelKind::encoder)
                               : ModelKind::decoder;
  }
  const int64_t layers = r.layers > 0 ? r.layers : std::max(m.encoder_layers, m.decoder_layers);
  const bool both = *r.kind == ModelKind::encoder_decoder;
  const auto count = [&](ModelKind own, int64_t said) {
    if (!both && *r.kind != own) return int64_t{0};
    return r.layers == 0 && said > 0 ? said : layers;
  };
  m.encoder_layers = count(ModelKind::encoder, m.encoder_layers);
  m.decoder_layers = count(ModelKind::decoder, m.decoder_layers);
  if (both && r.task.empty()) {
    throw Error(ErrorKind::usage, "an encoder-decoder learns a task: --task copy, reverse or sort");
  }
  if (!both && !r.task.empty()) {
    throw Error(ErrorKind::usage, "--task needs --kind encoder-decoder, and it is " + enum_name(*r.kind));
  }
}

// Recipe and flags into the structs. A family's defaults come first, since everything else says how to
// differ.
void resolve(Command& c) {
  load_recipe(c);
  c.run.from = c.settings.value("from");
  if (c.run.from.empty()) {
    const std::string type = c.settings.value("model-type");
    if (!type.empty()) c.config = family_default(type);
    c.settings.apply();
    resolve_kind(c);
  } else {
    const std::string flag = c.settings.flag_of_group(kModelGroup);
    if (!flag.empty())
      throw Error(ErrorKind::usage, flag + " and --from: a model that exists has its own config");
    c.settings.apply([](const std::string& group) { return group != kModelGroup; });
  }
  validate(c.options);
  if (c.run.probe_every < 0)
    throw Error(ErrorKind::usage, "--probe-every is negative: expected 0 or more steps");
  if (c.run.sample_tokens < 0)
    throw Error(ErrorKind::usage, "--sample-tokens is negative: expected 0 or more");
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

Tokenizer make_tokenizer(const Command& c) {
  const std::string saved = c.in_folder("tokenizer.json");
  if (!c.resume.empty() && fs::exists(saved)) return Tokenizer::load(saved);
  if (!c.run.from.empty()) return Tokenizer::load(c.run.from);
  if (c.run.tokenizer == "bytes") return Tokenizer::bytes();
  if (c.run.tokenizer != "bpe") return Tokenizer::load(c.run.tokenizer);
  say("training a tokenizer on " + c.run.text);
  TokenizerTraining training;
  if (c.config.vocab_size > 0) training.vocab_size = static_cast<int>(c.config.vocab_size);
  return Tokenizer::train_bpe({c.run.text}, training);
}

Dataset make_dataset(Command& c, bool masked) {
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

void describe(const Command& c, const Model& model, const Dataset& data) {
  const ModelConfig& m = model.config();
  const int64_t layers = m.encoder_layers + m.decoder_layers;
  say(data.describe());
  say(data.tokenizer().describe());
  say(fmt::format("{}, {} layers of width {}, {:.2f} M parameters; {} steps of {} tokens",
                  enum_name(*c.run.kind), layers, m.width,
                  static_cast<double>(model.parameter_count()) * 1e-6, c.options.steps,
                  c.options.batch * c.options.accumulation * c.options.length));
}

// Some text by the best model, or answers to unseen inputs of a task; "" for an encoder.
std::string sample(const Command& c, const Dataset& data) {
  if (c.run.sample_tokens == 0 || data.kind() == DatasetKind::masked) return "";
  const Model model = Model::load(c.in_folder("model"));
  const Generator generator(model, data.tokenizer());
  GenerateOptions options = generator.defaults();
  options.max_new_tokens = c.run.sample_tokens;
  if (data.kind() == DatasetKind::language_model) {
    options.temperature = 0.8;
    options.top_p = 0.95;
    options.seed = c.options.seed;
    options.ignore_eos = true;
    return generator.generate("", options).text + "\n";
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

void conclude(const Command& c, const Dataset& data, const TrainResult& result) {
  const std::string text = sample(c, data);
  if (!text.empty()) {
    write_text(c.in_folder("sample.txt"), text);
    fmt::print("\n{}\n", text);
  }
  write_report(c.folder(), c.in_folder("report.html"));
  if (result.best_validation) {
    fmt::print("best validation loss {:.4f} at step {}; {} steps skipped, {} spikes\n",
               *result.best_validation, result.best_step, result.skipped, result.spikes);
  }
  fmt::print(
      "{0}/report.html   loss, learning rate, and every sub-layer's stream, branch, gradient and update\n"
      "{0}/model         the best model, as a Hugging Face folder\n"
      "{0}/recipe.toml, metrics.jsonl, probe.jsonl, checkpoints\n\n",
      c.folder());
  fmt::print("Next: ");
  if (data.kind() != DatasetKind::masked)
    fmt::print("plumb generate {}/model --prompt TEXT\n      ", c.folder());
  fmt::print(
      "plumb info {0}/model\n"
      "      plumb train --resume {0} --steps {1}\n"
      "      plumb train --text YOUR_TEXT\n",
      c.folder(), 2 * c.options.steps);
}

void train(Command& c) {
  resolve(c);
  std::optional<Model> model;
  if (!c.run.from.empty()) {
    model = Model::load(c.run.from);
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
    probe.emplace(c.in_folder("probe.jsonl"), ProbeOptions{.every = c.run.probe_every});
    trainer.watch(probe->observer());
  }
  catch_stop_signals();
  const TrainResult result = trainer.run();
  conclude(c, data, result);
}

}  // namespace
}  // namespace plumb::cli

void add_train(CLI::App& app) {
  auto command = std::make_shared<plumb::cli::Command>();
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
