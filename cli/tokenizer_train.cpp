// plumb tokenizer train: learns a vocabulary from text.
#include <fmt/format.h>

#include <memory>

#include "plumb/error.h"
#include "plumb/signal.h"
#include "plumb/tokenizer_trainer.h"
#include "recipe.h"
#include "tokenizer.h"

namespace plumb::cli {
namespace {

struct TrainFlags {
  std::vector<std::string> texts;
  std::string kind = "bpe", out;
  TokenizerTraining training{.show_progress = true};
  int64_t memory_mb = training.memory >> 20;
};

constexpr const char* kKinds[] = {"bpe", "unigram", "wordpiece", "bytes"};
constexpr size_t kBytes = 3;

void train(TrainFlags& f) {
  const size_t kind = parse_choice(f.kind, kKinds, "--kind");
  if (kind != kBytes && f.texts.empty())
    throw Error(ErrorKind::usage, "plumb tokenizer train needs a file or folder of text");
  f.training.kind = static_cast<TokenizerKind>(std::min(kind, kBytes - 1));
  f.training.memory = f.memory_mb << 20;
  catch_stop_signals();
  const Tokenizer t = kind == kBytes ? Tokenizer::bytes() : train_tokenizer(f.texts, f.training);
  t.save(f.out);
  fmt::print("{}: {}\n", f.out, t.describe());
}

std::string presets(const char* what, const std::vector<TrainingPreset>& all) {
  std::string text = fmt::format("{}\n", what);
  for (const TrainingPreset& preset : all) text += fmt::format("  {:<12} {}\n", preset.name, preset.what);
  return text;
}

void add_options(CLI::App& command, TrainFlags& f) {
  TokenizerTraining& t = f.training;
  command
      .add_option("--vocab-size", t.vocab_size, "Most tokens, special ones and single characters included")
      ->capture_default_str()
      ->check(CLI::Range(1, 1 << 24));
  command.add_option("--min-count", t.min_count, "bpe, wordpiece: pairs seen less often are not merged")
      ->capture_default_str()
      ->check(CLI::Range(1, 1 << 30));
  command
      .add_option("--special", t.special_tokens,
                  "A special token; may be given several times, the first gets id 0 (default: by kind)")
      ->allow_extra_args(false);
  command.add_option("--normalizer", t.normalizer, "A name of the list below, or the part as JSON");
  command.add_option("--pre-tokenizer", t.pre_tokenizer, "A name of the list below, or the part as JSON");
  command.add_option("--alphabet-limit", t.alphabet_limit, "Most single characters; the rarest are left out")
      ->check(CLI::Range(1, 1 << 21));
  command.add_option("--initial-alphabet", t.initial_alphabet, "Characters that are kept however rare");
  command
      .add_option("--longest", t.longest, "Most characters of a piece (default: 16 for unigram, else any)")
      ->check(CLI::Range(1, 1 << 16));
  command.add_option("--prefix", t.prefix, "bpe, wordpiece: before what continues a word (wordpiece: ##)");
  command.add_option("--suffix", t.suffix, "bpe: behind what ends a word, e.g. </w>");
  command.add_flag("--byte-fallback", t.byte_fallback,
                   "unigram, bpe: tokens for the 256 bytes, which unknown characters become");
  command
      .add_option("--memory", f.memory_mb,
                  "MB for the different words while they are counted; beyond it a temporary file is used")
      ->capture_default_str()
      ->check(CLI::Range(1, 1 << 24));
}

}  // namespace

void add_tokenizer_train(CLI::App& parent) {
  auto flags = std::make_shared<TrainFlags>();
  CLI::App* command = parent.add_subcommand("train", "Learn a vocabulary from text, and save tokenizer.json");
  command->footer(
      presets("Normalizers:", normalizer_presets()) + presets("Pre-tokenizers:", pre_tokenizer_presets()) +
      "By default bpe is byte-level; unigram has fold and metaspace, wordpiece bert and bert. bpe with\n"
      "another pre-tokenizer is of characters.\n\n"
      "  plumb tokenizer train book.txt --out book.json --vocab-size 8000\n"
      "  plumb tokenizer train texts/ --out spm --kind unigram --vocab-size 32000 --byte-fallback\n"
      "  plumb tokenizer train texts/ --out old --pre-tokenizer blanks --suffix \"</w>\"");
  command->add_option("text", flags->texts, "UTF-8 files, or folders of them");
  command->add_option("--out", flags->out, "A .json file, or a folder for tokenizer.json")->required();
  command->add_option("--kind", flags->kind,
                      "bpe, unigram, wordpiece, or bytes (one token a byte; needs no text)");
  add_options(*command, *flags);
  command->callback([flags] { train(*flags); });
}

}  // namespace plumb::cli
