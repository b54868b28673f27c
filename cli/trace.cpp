// plumb trace: one input walked through a model.
#include <cstdio>
#include <filesystem>
#include <memory>

#include "commands.h"
#include "model_folder.h"
#include "plumb/trace.h"
#include "probe_flags.h"

namespace plumb::cli {
namespace {

struct TraceSettings {
  std::string model, text, page;
  TraceOptions options;
  ProbeFlags probe;
};

void trace(const TraceSettings& s) {
  Model model = load_model(s.model);
  std::optional<Probe> probe = s.probe.open();
  TraceOptions options = s.options;
  if (probe) options.observer = probe->observer();
  const Trace result(model, load_tokenizer(s.model), s.text, options);
  std::fputs(result.text().c_str(), stdout);
  if (!s.page.empty()) result.write_page(s.page, s.model);
}

}  // namespace
}  // namespace plumb::cli

void add_trace(CLI::App& app) {
  auto s = std::make_shared<plumb::cli::TraceSettings>();
  CLI::App* sub = app.add_subcommand(
      "trace",
      "Walks a text through a model: shapes, order of norms and adds, numbers, and the gradient's way back");
  sub->add_option("model", s->model, "folder of a model, or of a run")->required();
  sub->add_option("text", s->text, "what it reads")->required();
  sub->add_option("--target", s->options.target,
                  "what an encoder-decoder's decoder reads behind its start token");
  sub->add_flag("--grad", s->options.gradient,
                "also the way back: by sub-layer, how much of the gradient came by the shortcut");
  sub->add_option("--html", s->page, "write the walk as a page, too: one file that needs no network");
  s->probe.add_file_to(*sub);
  sub->callback([s] { plumb::cli::trace(*s); });
}
