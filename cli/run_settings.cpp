#include "run_settings.h"

#include <fmt/format.h>

#include <filesystem>
#include <utility>

#include "model_folder.h"
#include "plumb/config_fields.h"
#include "plumb/error.h"
#include "plumb/tokenizer_trainer.h"
#include "text_file.h"

namespace plumb::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kModelGroup = "Model";

void load_recipe(TrainCommand& c) {
  if (!c.resume.empty()) {
    if (!c.recipe.empty())
      throw Error(ErrorKind::usage, "--resume goes on with the recipe of the run: name no other");
    if (c.settings.has_flag("out"))
      throw Error(ErrorKind::usage, "--resume goes on in the folder of the run: no --out");
    const std::string path = c.in_folder("recipe.toml");
    if (!fs::exists(path))
      throw Error(ErrorKind::file, c.resume + " is not the folder of a run: it has no recipe.toml");
    c.settings.load(read_whole_file(path), path);
  } else if (c.recipe.empty()) {
    c.settings.load(recipe_text("default"), "the default recipe");
  } else if (fs::exists(c.recipe)) {
    c.settings.load(read_whole_file(c.recipe), c.recipe);
  } else {
    c.settings.load(recipe_text(c.recipe), "the recipe " + c.recipe);
  }
}

// Counts of which 0 says "none" or "as it comes", and which nothing checks later on.
void refuse_negative(const TrainCommand& c) {
  const std::pair<const char*, int64_t> counts[] = {{"--probe-every", c.run.probe_every},
                                                    {"--sample-tokens", c.run.sample_tokens},
                                                    {"--layers", c.run.layers},
                                                    {"--encoder-layers", c.config.encoder_layers},
                                                    {"--decoder-layers", c.config.decoder_layers},
                                                    {"--vocab-size", c.config.vocab_size}};
  for (const auto& [flag, count] : counts) {
    if (count < 0)
      throw Error(ErrorKind::usage, fmt::format("{} is {}: it has to be at least 0", flag, count));
  }
}

// A kind of norm that is asked for where the placement brings its own, and would be passed over in silence.
void refuse_norm(const TrainCommand& c) {
  const LayerConfig& l = c.config.layer;
  const auto refuse = [&](NormKind own, const char* why) {
    if (c.settings.value("norm").empty() || l.norm == own || l.norm == LayerConfig{}.norm) return;
    throw Error(ErrorKind::usage, fmt::format("--norm is {}, and placement {} has {}: leave it out",
                                              enum_name(l.norm), enum_name(l.placement), why));
  };
  if (l.placement == Placement::ngpt) refuse(NormKind::scale_norm, "its own, x / |x|");
  if (l.placement == Placement::fixup && l.norm != NormKind::none)
    refuse(NormKind::shift, "shifts in place of norms");
}

// The vocabulary that a run's tokenizer will have at most, where the recipe leaves it to that.
int64_t vocabulary(const RunSettings& run) {
  if (!run.task.empty()) return Dataset::synthetic(run.task, {}).tokenizer().vocab_size();
  if (run.tokenizer == "bytes") return Tokenizer::bytes().vocab_size();
  if (run.tokenizer != "bpe") return Tokenizer::load(run.tokenizer).vocab_size();
  return TokenizerTraining{}.vocab_size;
}

}  // namespace

void add_settings(TrainCommand& c) {
  const auto into = [&](const char* group) {
    return [&c, group](const char* name, auto& field, const char* help) {
      c.settings.add(group, name, field, help);
    };
  };
  RunSettings& r = c.run;
  const auto data = into("Data");
  data("text", r.text,
       "UTF-8 file, or folder of them (default: fortunes or the common licences, as Debian has them); a file "
       ".jsonl: "
       "a document a line, {\"text\": ...} or {\"prompt\": ..., \"completion\": ...}, packed into rows");
  data("task", r.task, "a task with known answers in place of a text: copy, reverse or sort");
  data("held_out", r.held_out, "share of the text that is kept for validation");
  data("tokenizer", r.tokenizer,
       "bpe (trained on the text, of --vocab-size), bytes, or the file or folder of a tokenizer");
  const auto run = into("Run");
  run("out", r.out, "folder of the run (default: runs/ and the recipe's name)");
  run("from", r.from,
      "a folder of a model, or of an adapter that is to train on, whose weights and tokenizer the run starts "
      "from");
  run("probe_every", r.probe_every, "steps between looks inside (0: none)");
  run("sample_tokens", r.sample_tokens, "length of the text written at the end (0: none)");
  visit_train(c.options, into("Training"));
  const auto model = into(kModelGroup);
  model("kind", r.kind, "what kind of model (default: encoder-decoder for a task, else what the layers say)");
  model("layers", r.layers,
        "layers of the encoder, the decoder or both, by kind, where no flag says them one by one");
  visit(c.config, model);
}

void resolve_kind(TrainCommand& c) {
  RunSettings& r = c.run;
  ModelConfig& m = c.config;
  if (!r.kind) {
    r.kind = !r.task.empty()   ? ModelKind::encoder_decoder
             : m.has_encoder() ? (m.has_decoder() ? ModelKind::encoder_decoder : ModelKind::encoder)
                               : ModelKind::decoder;
  }
  const int64_t layers = r.layers > 0 ? r.layers : std::max(m.encoder_layers, m.decoder_layers);
  const bool both = *r.kind == ModelKind::encoder_decoder;
  const auto count = [&](ModelKind own, const char* flag, int64_t said) {
    if (!both && *r.kind != own) return int64_t{0};
    return said > 0 && (r.layers == 0 || c.settings.has_flag(flag)) ? said : layers;
  };
  m.encoder_layers = count(ModelKind::encoder, "encoder-layers", m.encoder_layers);
  m.decoder_layers = count(ModelKind::decoder, "decoder-layers", m.decoder_layers);
  r.layers = 0;  // the saved recipe says them one by one
  if (both && r.task.empty()) {
    throw Error(ErrorKind::usage, "an encoder-decoder learns a task: --task copy, reverse or sort");
  }
  if (!both && !r.task.empty()) {
    throw Error(ErrorKind::usage, "--task needs --kind encoder-decoder, and it is " + enum_name(*r.kind));
  }
}

void resolve_config(TrainCommand& c) {
  load_recipe(c);
  c.run.from = c.settings.value("from");
  if (c.run.from.empty()) {
    const std::string type = c.settings.value("model-type");
    if (!type.empty()) c.config = family_default(type);
    c.settings.apply();
    refuse_negative(c);
    refuse_norm(c);
    resolve_kind(c);
  } else {
    const std::string flag = c.settings.flag_of_group(kModelGroup);
    if (!flag.empty())
      throw Error(ErrorKind::usage, flag + " and --from: a model that exists has its own config");
    c.settings.apply([](const std::string& group) { return group != kModelGroup; });
    refuse_negative(c);
  }
}

int64_t trained_length(const std::string& model) {
  std::error_code none;  // then there is no recipe
  const fs::path folder = fs::weakly_canonical(model_folder(model), none);
  const std::string path = (folder.parent_path() / "recipe.toml").string();
  if (!fs::exists(path, none)) return 0;
  TrainCommand c;
  add_settings(c);
  c.settings.load(read_whole_file(path), path);
  c.settings.apply();
  return c.options.length;
}

Tokenizer make_tokenizer(const TrainCommand& c) {
  const std::string saved = c.in_folder("tokenizer.json");
  if (!c.resume.empty() && fs::exists(saved)) return Tokenizer::load(saved);
  if (!c.run.from.empty()) return load_tokenizer(c.run.from);
  if (c.run.tokenizer == "bytes") return Tokenizer::bytes();
  if (c.run.tokenizer != "bpe") return Tokenizer::load(c.run.tokenizer);
  const std::string text = c.run.text.empty() ? default_corpus() : c.run.text;
  if (text.ends_with(".jsonl")) {
    throw Error(ErrorKind::usage,
                "a tokenizer is trained on plain text, not on JSON lines: give --from, or --tokenizer with "
                "bytes or a "
                "file");
  }
  fmt::print(stderr, "training a tokenizer on {}\n", text);
  TokenizerTraining training;
  if (c.config.vocab_size > 0) training.vocab_size = c.config.vocab_size;
  return train_tokenizer({text}, training);
}

ModelConfig recipe_config(TrainCommand& c) {
  resolve_config(c);
  ModelConfig config = c.run.from.empty() ? c.config : load_model(c.run.from).config();
  if (config.vocab_size == 0) config.vocab_size = vocabulary(c.run);
  return config;
}

}  // namespace plumb::cli
