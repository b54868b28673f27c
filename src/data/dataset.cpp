#include "plumb/dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "base/progress.h"
#include "data/corpus.h"
#include "data/documents.h"
#include "data/synthetic.h"
#include "data/windows.h"
#include "plumb/error.h"
#include "plumb/suggest.h"

namespace plumb {

struct Dataset::Impl {
  DatasetKind kind;
  Tokenizer tokenizer;
  uint64_t seed;
  std::string name;
  std::optional<TokenFile> tokens;       // a text's
  std::optional<Documents> documents{};  // of JSON lines
  SyntheticTask task{};
  SyntheticOptions synthetic{};

  int32_t pad_id() const {
    const auto pad = tokenizer.special(TokenRole::pad);
    return pad ? *pad : tokenizer.special(TokenRole::eos).value_or(0);
  }

  // Of a part in order, for evaluation.
  int64_t row_count(Split split, int64_t length) const {
    if (documents) return documents->row_count(split, length);
    return tokens ? window_count(*tokens, split, length) : synthetic.examples;
  }
};

namespace {

struct Candidate {
  const char* path;
  const char* from;  // where a Debian system has it from
};
constexpr std::array<Candidate, 2> kDefaultTexts = {{
    {"/usr/share/games/fortunes", "apt install fortunes"},
    {"/usr/share/common-licenses", "on every Debian"},
}};

bool is_json_lines(const std::string& path) {
  return path.ends_with(".jsonl");
}

void check_sizes(int64_t rows, int64_t length) {
  if (rows < 1 || length < 1) {
    throw Error(
        ErrorKind::usage,
        fmt::format("a batch of {} rows of length {} was asked for, expected 1 and more", rows, length));
  }
}

Dataset open_text(DatasetKind kind, const std::string& path, const Tokenizer& tokenizer,
                  const TextOptions& options) {
  return Dataset(
      std::make_shared<Dataset::Impl>(Dataset::Impl{.kind = kind,
                                                    .tokenizer = tokenizer,
                                                    .seed = options.seed,
                                                    .name = path,
                                                    .tokens = open_corpus(path, tokenizer, options)}));
}

}  // namespace

Dataset::Dataset(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}

Dataset Dataset::text(const std::string& path, const Tokenizer& tokenizer, const TextOptions& options) {
  if (!is_json_lines(path)) return open_text(DatasetKind::language_model, path, tokenizer, options);
  return Dataset(std::make_shared<Impl>(Impl{.kind = DatasetKind::language_model,
                                             .tokenizer = tokenizer,
                                             .seed = options.seed,
                                             .name = path,
                                             .tokens = {},
                                             .documents = Documents(path, tokenizer, options)}));
}

Dataset Dataset::masked_text(const std::string& path, const Tokenizer& tokenizer,
                             const TextOptions& options) {
  if (!tokenizer.special(TokenRole::mask)) {
    throw Error(ErrorKind::input, "masked text needs a tokenizer with a mask token, and this one has none");
  }
  if (is_json_lines(path))
    throw Error(ErrorKind::unsupported,
                path + ": JSON lines are for decoders; masked text is read from plain text");
  return open_text(DatasetKind::masked, path, tokenizer, options);
}

const std::vector<std::string>& Dataset::synthetic_names() {
  static const std::vector<std::string> names = {"copy", "reverse", "sort"};  // as in SyntheticTask
  return names;
}

Dataset Dataset::synthetic(const std::string& name, const SyntheticOptions& options) {
  const auto& names = synthetic_names();
  const auto place = std::find(names.begin(), names.end(), name);
  if (place == names.end()) {
    throw Error(ErrorKind::usage, fmt::format("there is no synthetic task '{}', expected one of {}{}", name,
                                              fmt::join(names, ", "), did_you_mean(name, names)));
  }
  if (options.min_symbols < 1 || options.examples < 1) {
    throw Error(
        ErrorKind::usage,
        fmt::format("a synthetic task with {} symbols and {} examples was asked for, expected 1 and more",
                    options.min_symbols, options.examples));
  }
  return Dataset(std::make_shared<Impl>(Impl{.kind = DatasetKind::sequence_to_sequence,
                                             .tokenizer = Tokenizer::characters(kSyntheticSymbols),
                                             .seed = options.seed,
                                             .name = name,
                                             .tokens = {},
                                             .task = static_cast<SyntheticTask>(place - names.begin()),
                                             .synthetic = options}));
}

DatasetKind Dataset::kind() const {
  return impl_->kind;
}
const Tokenizer& Dataset::tokenizer() const {
  return impl_->tokenizer;
}

Batch Dataset::batch(int64_t step, int64_t micro, int64_t rows, int64_t length) const {
  check_sizes(rows, length);
  const Impl& impl = *impl_;
  const int64_t first_row = micro * rows;
  // Numbered from 1, because 0 is where examples for evaluation come from.
  const auto stream = static_cast<uint64_t>(step) + 1;
  if (impl.kind == DatasetKind::sequence_to_sequence) {
    return synthetic_rows({.task = impl.task,
                           .split = Split::train,
                           .seed = impl.seed,
                           .stream = stream,
                           .first_row = first_row,
                           .rows = rows,
                           .length = length,
                           .min_symbols = impl.synthetic.min_symbols});
  }
  if (impl.documents) {
    return impl.documents->batch(
        {.step = step, .first_row = first_row, .rows = rows, .length = length, .pad_id = impl.pad_id()});
  }
  Batch batch = train_windows(
      *impl.tokens,
      {.seed = impl.seed, .step = step, .first_row = first_row, .rows = rows, .length = length});
  if (impl.kind == DatasetKind::masked) {
    mask_windows(batch, impl.tokenizer, {.seed = impl.seed, .stream = stream, .first_row = first_row});
  }
  return batch;
}

int64_t Dataset::evaluation_batches(Split split, int64_t rows, int64_t length, int64_t most_batches) const {
  check_sizes(rows, length);
  const int64_t count = impl_->row_count(split, length);
  const int64_t batches = (count + rows - 1) / rows;
  return most_batches > 0 ? std::min(batches, most_batches) : batches;
}

Batch Dataset::evaluation_batch(Split split, int64_t index, int64_t rows, int64_t length) const {
  const Impl& impl = *impl_;
  const int64_t batches = evaluation_batches(split, rows, length);
  if (index < 0 || index >= batches) {
    throw Error(ErrorKind::usage,
                fmt::format("evaluation batch {} was asked for, but there are {}", index, batches));
  }
  const int64_t first = index * rows;
  if (impl.kind == DatasetKind::sequence_to_sequence) {
    return synthetic_rows({.task = impl.task,
                           .split = split,
                           .seed = impl.seed,
                           .stream = 0,
                           .first_row = first,
                           .rows = std::min<int64_t>(rows, impl.synthetic.examples - first),
                           .length = length,
                           .min_symbols = impl.synthetic.min_symbols});
  }
  const int64_t left = impl.row_count(split, length) - first;
  if (impl.documents) {
    return impl.documents->ordered(
        split, {.first_row = first, .rows = std::min(rows, left), .length = length, .pad_id = impl.pad_id()});
  }
  Batch batch = ordered_windows(*impl.tokens, {.part = split,
                                               .first = first,
                                               .rows = std::min(rows, left),
                                               .length = length,
                                               .pad_id = impl.pad_id()});
  if (impl.kind == DatasetKind::masked) {
    mask_windows(batch, impl.tokenizer, {.seed = impl.seed, .stream = 0, .first_row = first});
  }
  return batch;
}

int64_t Dataset::token_count(Split split) const {
  if (impl_->documents) return impl_->documents->token_count(split);
  return impl_->tokens ? static_cast<int64_t>(impl_->tokens->count(split)) : 0;
}

int64_t Dataset::byte_count(Split split) const {
  if (impl_->documents) return impl_->documents->byte_count(split);
  if (!impl_->tokens || split == Split::test) return 0;
  const TokenFileHeader& header = impl_->tokens->header();
  return static_cast<int64_t>(split == Split::train ? header.train_bytes : header.valid_bytes);
}

std::string Dataset::describe() const {
  if (impl_->documents) {
    return fmt::format("{}: {} documents, {} training and {} held-out tokens", impl_->name,
                       impl_->documents->count(),
                       format_count(static_cast<double>(token_count(Split::train))),
                       format_count(static_cast<double>(token_count(Split::validation))));
  }
  if (!impl_->tokens) return fmt::format("synthetic task '{}'", impl_->name);
  const TokenFileHeader& header = impl_->tokens->header();
  return fmt::format("{}: {} file{}, {}, {} training and {} held-out tokens", impl_->name, header.files,
                     header.files == 1 ? "" : "s",
                     format_bytes(static_cast<double>(header.train_bytes + header.valid_bytes)),
                     format_count(static_cast<double>(header.train_count)),
                     format_count(static_cast<double>(header.valid_count)));
}

std::string default_corpus() {
  std::string tried;
  for (const Candidate& candidate : kDefaultTexts) {
    if (is_folder(candidate.path) && !list_folder(candidate.path).empty()) return candidate.path;
    tried += fmt::format("{}{} ({})", tried.empty() ? "" : ", ", candidate.path, candidate.from);
  }
  throw Error(
      ErrorKind::input,
      fmt::format("there is no text to train on: none of {}; name a file or folder of UTF-8 text", tried));
}

}  // namespace plumb
