// plumb compare: where two models, or a model and a recorded reference, first differ.
#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <memory>

#include "commands.h"
#include "model_folder.h"
#include "plumb/compare.h"
#include "plumb/error.h"
#include "probe_flags.h"

namespace plumb::cli {
namespace {

struct CompareSettings {
  std::string a, b, text, target, page;
  std::vector<int64_t> ids, decoder_ids;
  double tolerance = -1;
  bool weights = false;
  ProbeFlags probe;
};

std::vector<int32_t> token_ids(const char* flag, const std::vector<int64_t>& ids) {
  for (const int64_t id : ids) {
    if (id < 0 || id > INT32_MAX)
      throw Error(ErrorKind::usage, fmt::format("{}: {} is no token id", flag, id));
  }
  return {ids.begin(), ids.end()};
}

CompareInput input_of(const CompareSettings& s, const Model& model, bool needed) {
  if (!s.text.empty() && !s.ids.empty())
    throw Error(ErrorKind::usage, "compare takes --text or --ids, not both");
  if (!s.text.empty()) return compare_input(model, load_tokenizer(s.a), s.text, s.target);
  if (!s.target.empty())
    throw Error(ErrorKind::usage, "--target goes with --text; with --ids, --decoder-ids");
  if (s.ids.empty() && needed)
    throw Error(ErrorKind::usage, "compare needs an input: --text or --ids (or --weights)");
  return {token_ids("--ids", s.ids), token_ids("--decoder-ids", s.decoder_ids)};
}

// Two models read the same ids, A's; that B's own tokenizer makes others of the text is worth a line.
void note_other_ids(const CompareSettings& s, const Model& b, const CompareInput& input) {
  const std::string folder = model_folder(s.b);
  if (s.text.empty() || !Tokenizer::is_in(folder)) return;
  const CompareInput own = compare_input(b, load_tokenizer(s.b), s.text, s.target);
  if (own.ids == input.ids && own.decoder_ids == input.decoder_ids) return;
  fmt::print("The tokenizers differ: {}'s makes other ids of the text. Both models read those of {}'s.\n",
             s.b, s.a);
}

Comparison compared(const CompareSettings& s, RunObserver* observer) {
  CompareOptions o{.a = s.a, .b = s.b, .observer = observer};
  if (s.tolerance != -1) {
    if (!(s.tolerance >= 0) || std::isinf(s.tolerance)) {
      throw Error(ErrorKind::usage,
                  fmt::format("--tolerance is {}, expected a number from 0 on", s.tolerance));
    }
    o.tolerance = s.tolerance;
  }
  if (!std::filesystem::exists(s.b))
    throw Error(ErrorKind::file, s.b + " does not exist; expected a model's folder or a file of activations");
  const Model a = load_model(s.a);
  const bool reference = std::filesystem::is_regular_file(s.b);
  if (s.weights) {
    if (reference) throw Error(ErrorKind::usage, s.b + " is a file: --weights compares two models");
    if (!s.text.empty() || !s.ids.empty()) throw Error(ErrorKind::usage, "--weights reads no input");
    if (observer) throw Error(ErrorKind::usage, "--weights makes no pass that --probe could watch");
    return Comparison::of_weights(a, load_model(s.b), o);
  }
  if (reference) return Comparison::with_reference(a, s.b, input_of(s, a, false), o);
  const CompareInput input = input_of(s, a, true);
  const Model b = load_model(s.b);
  Comparison result = Comparison::of_models(a, b, input, o);
  note_other_ids(s, b, input);
  return result;
}

void compare(const CompareSettings& s) {
  std::optional<Probe> probe = s.probe.open();
  const Comparison result = compared(s, probe ? probe->observer() : nullptr);
  std::fputs(result.text().c_str(), stdout);
  if (!s.page.empty()) result.write_page(s.page);
  exit_status = result.equal() ? 0 : 1;
}

}  // namespace
}  // namespace plumb::cli

void add_compare(CLI::App& app) {
  auto s = std::make_shared<plumb::cli::CompareSettings>();
  CLI::App* sub = app.add_subcommand(
      "compare",
      "Where two models, or a model and recorded activations, first differ, and how; status 1 if they do");
  sub->add_option("a", s->a, "folder of a model, or of a run")->required();
  sub->add_option("b", s->b, "another, or a safetensors file that tools/dump_activations.py wrote")
      ->required();
  sub->add_option("--text", s->text, "what both read (a reference brings its own input)");
  sub->add_option("--target", s->target, "what an encoder-decoder's decoder reads behind its start token");
  sub->add_option("--ids", s->ids, "token ids, in place of a text")->delimiter(',');
  sub->add_option("--decoder-ids", s->decoder_ids, "token ids of an encoder-decoder's decoder")
      ->delimiter(',');
  sub->add_option("--tolerance", s->tolerance,
                  "relative difference that counts as equal (default: 1e-4, of weights 1e-6)");
  sub->add_flag("--weights", s->weights, "compare the weights, tensor by tensor");
  sub->add_option("--html", s->page, "write it as a page, too: one file that needs no network");
  s->probe.add_file_to(*sub);
  sub->callback([s] { plumb::cli::compare(*s); });
}
