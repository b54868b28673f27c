// plumb eval: how well a model predicts a text, and its logits for comparisons with other engines.
#include <fmt/format.h>

#include "commands.h"
#include "model_folder.h"
#include "plumb/error.h"
#include "plumb/trainer.h"
#include "probe_flags.h"
#include "run_settings.h"

namespace plumb::cli {
namespace {

struct EvalSettings {
  std::string model, text, task, logits;
  std::vector<int64_t> ids, decoder_ids;
  int64_t length = 0, batch = 8;
  int examples = 1000;
  Precision dtype = Precision::f32;
  ProbeFlags probe;
};

std::vector<int32_t> token_ids(const char* flag, const std::vector<int64_t>& ids) {
  for (const int64_t id : ids) {
    if (id < 0 || id > INT32_MAX)
      throw Error(ErrorKind::usage, fmt::format("{}: {} is no token id", flag, id));
  }
  return {ids.begin(), ids.end()};
}

void print(const Evaluation& e, int64_t length) {
  fmt::print("{{\"loss\": {}, \"perplexity\": {}, ", e.loss, e.perplexity);
  if (e.bits_per_byte) fmt::print("\"bits_per_byte\": {}, ", *e.bits_per_byte);
  if (e.exact) fmt::print("\"exact\": {}, ", *e.exact);
  fmt::print("\"accuracy\": {}, \"targets\": {}, \"length\": {}, \"seconds\": {:.3f}}}\n", e.accuracy,
             e.targets, length, e.seconds);
}

void evaluate_task(const EvalSettings& s, const Model& model, RunObserver* observer) {
  const Dataset data = Dataset::synthetic(s.task, {.examples = s.examples});
  const ModelConfig& c = model.config();
  if (!c.has_encoder() || !c.has_decoder() || c.vocab_size < data.vocab_size()) {
    throw Error(ErrorKind::usage,
                fmt::format("--task {} is for an encoder-decoder that was trained on it", s.task));
  }
  const int64_t length = s.length > 0 ? s.length : trained_length(s.model);
  if (length == 0) {
    throw Error(
        ErrorKind::usage,
        "--task needs --length, the length that the model was trained at: there is no recipe of a run");
  }
  print(
      evaluate(
          model, data,
          {.split = Split::test, .batch = s.batch, .length = length, .dtype = s.dtype, .observer = observer}),
      length);
}

void evaluate_text(const EvalSettings& s, const Model& model, RunObserver* observer) {
  const bool masked = !model.config().has_decoder();
  if (model.config().has_encoder() && !masked) {
    throw Error(ErrorKind::unsupported,
                "eval --text reads decoders and encoders; an encoder-decoder takes --task or --ids");
  }
  const Tokenizer tokenizer = load_tokenizer(s.model);
  const TextOptions whole{.held_out = 0};  // then all of it is the training part, read in order
  const Dataset data =
      masked ? Dataset::masked_text(s.text, tokenizer, whole) : Dataset::text(s.text, tokenizer, whole);
  const int64_t length = s.length > 0 ? s.length : std::min<int64_t>(model.config().max_length, 1024);
  print(evaluate(model, data,
                 {.split = Split::train,
                  .batch = s.batch,
                  .length = length,
                  .dtype = s.dtype,
                  .observer = observer}),
        length);
}

void evaluate(const EvalSettings& s) {
  if (s.text.empty() + s.task.empty() + s.ids.empty() != 2)
    throw Error(ErrorKind::usage, "eval takes one of --text, --task and --ids");
  if (s.ids.empty() != s.logits.empty()) throw Error(ErrorKind::usage, "--ids and --logits go together");
  if (s.batch < 1) throw Error(ErrorKind::usage, fmt::format("--batch is {}, expected at least 1", s.batch));
  const Model model = load_model(s.model);
  const int64_t longest = model.config().max_length;
  if (s.length < 0 || s.length > longest) {
    throw Error(ErrorKind::usage,
                fmt::format("--length is {}, expected 1 to the model's {}", s.length, longest));
  }
  std::optional<Probe> probe = s.probe.open();
  if (probe && !s.ids.empty())
    throw Error(ErrorKind::usage, "--probe watches --text and --task; --ids has its --logits");
  RunObserver* observer = probe ? probe->observer() : nullptr;
  if (!s.ids.empty()) {
    write_logits(model, token_ids("--ids", s.ids), token_ids("--decoder-ids", s.decoder_ids), s.logits);
  } else if (!s.task.empty()) {
    evaluate_task(s, model, observer);
  } else {
    evaluate_text(s, model, observer);
  }
}

}  // namespace
}  // namespace plumb::cli

void add_eval(CLI::App& app) {
  auto s = std::make_shared<plumb::cli::EvalSettings>();
  CLI::App* sub =
      app.add_subcommand("eval", "Loss, perplexity and bits per byte of a text under a model, as JSON");
  sub->add_option("model", s->model, "folder of a model, or of a run")->required();
  sub->add_option("--text", s->text, "UTF-8 file, or folder of them; all of it is read");
  sub->add_option("--task", s->task, "synthetic task of an encoder-decoder: copy, reverse or sort");
  sub->add_option("--examples", s->examples, "unseen examples of the task (default: 1000)");
  sub->add_option(
      "--length", s->length,
      "tokens read at once (default: the model's longest, at most 1024; of a task what its run had)");
  sub->add_option("--batch", s->batch, "sequences side by side");
  sub->add_option("--ids", s->ids, "token ids, in place of a text")->delimiter(',');
  sub->add_option("--decoder-ids", s->decoder_ids, "token ids of an encoder-decoder's decoder")
      ->delimiter(',');
  sub->add_option("--logits", s->logits, "safetensors file for the logits of --ids");
  sub->add_option_function<std::string>(
      "--dtype",
      [s](const std::string& text) { s->dtype = plumb::cli::parse_value<plumb::Precision>(text, "--dtype"); },
      "what products are computed in: f32 or bf16");
  s->probe.add_to(*sub);
  sub->callback([s] { plumb::cli::evaluate(*s); });
}
