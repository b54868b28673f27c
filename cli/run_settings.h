// What `plumb train` takes: the data, the training and the model of a run, from a recipe and flags.
#pragma once

#include <optional>
#include <string>

#include "plumb/model.h"
#include "plumb/tokenizer.h"
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

// What a run needs to know besides model and training.
struct RunSettings {
  std::string text, task, tokenizer = "bpe", from, out;
  double held_out = 0.05;
  std::optional<ModelKind> kind;
  int64_t layers = 0, probe_every = 25, sample_tokens = 200;
};

struct TrainCommand {
  std::string recipe, resume;
  RunSettings run;
  TrainOptions options;
  ModelConfig config;
  Settings settings;

  std::string folder() const { return resume.empty() ? run.out : resume; }
  std::string in_folder(const std::string& name) const { return folder() + "/" + name; }
};

void add_settings(TrainCommand& c);

// Recipe and flags into the structs. A family's defaults come first, since everything else says how to
// differ. Throws Error(usage, file).
void resolve_config(TrainCommand& c);
// The model of a recipe that need not be run: resolves it, and takes the vocabulary that its tokenizer will
// have at most. Not validated.
ModelConfig recipe_config(TrainCommand& c);
// The length that a run's model was trained at, by the recipe beside it; 0 where there is none.
int64_t trained_length(const std::string& model);
// The tokenizer of a run: the one it saved, that of the model it starts from, or what the recipe says.
Tokenizer make_tokenizer(const TrainCommand& c);
// The kind that is not said, and the layers of each side by it: a flag for one side wins over --layers.
void resolve_kind(TrainCommand& c);

}  // namespace plumb::cli
