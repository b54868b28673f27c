// plumb merge: an adapter and the model that it is for as one model.
#include <memory>

#include "commands.h"
#include "model_folder.h"
#include "plumb/convert.h"
#include "plumb/error.h"
#include "recipe.h"

namespace plumb::cli {
namespace {

struct MergeSettings {
  std::string adapter, to;
  ConvertOptions options;
};

void merge(MergeSettings& s) {
  const std::string folder = model_folder(s.adapter);
  if (!is_adapter(folder))
    throw Error(ErrorKind::usage, folder + " is no adapter: it has no adapter_config.json");
  s.options.base = base_folder;
  convert_model(folder, s.to, s.options);
}

}  // namespace
}  // namespace plumb::cli

void add_merge(CLI::App& app) {
  auto s = std::make_shared<plumb::cli::MergeSettings>();
  CLI::App* sub = app.add_subcommand(
      "merge", "Writes an adapter (LoRA, DoRA) and its model as one model's folder; --base names the model");
  sub->add_option("adapter", s->adapter, "folder of an adapter, or of a run that trained one")->required();
  sub->add_option("to", s->to, "folder to write")->required();
  sub->add_option_function<std::string>(
      "--dtype",
      [s](const std::string& text) {
        s->options.type = plumb::cli::parse_value<plumb::StoredType>(text, "--dtype");
      },
      "what weights are stored in: f32, bf16 or f16 (default: as the model stores them)");
  sub->callback([s] { plumb::cli::merge(*s); });
}
