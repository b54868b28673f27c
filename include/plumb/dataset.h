// Texts and synthetic tasks as batches for training and evaluation.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "plumb/tokenizer.h"

namespace plumb {

inline constexpr int32_t kIgnoreTarget = -100;  // a position without a target

// Row-major. B rows of T positions for the encoder or, where there is only one, the decoder; the second half
// only for encoder-decoders. Padding is at the end of a row: pad id, mask 0, target kIgnoreTarget.
struct Batch {
  int64_t rows = 0;           // B
  int64_t length = 0;         // T
  std::vector<int32_t> ids;   // (B, T)
  std::vector<uint8_t> mask;  // (B, T) 1 where there is a real token
  // (B, T) where the document of a position begins in its row, which several are packed into: they do not see
  // each other, and positions restart. Empty: a row is one text.
  std::vector<int32_t> starts;

  int64_t decoder_length = 0;         // U; 0 unless encoder-decoder
  std::vector<int32_t> decoder_ids;   // (B, U) begins with the start token: the targets shifted right
  std::vector<uint8_t> decoder_mask;  // (B, U)

  // (B, U) for an encoder-decoder, else (B, T). Aligned: what the model is to say at position t is at t.
  std::vector<int32_t> targets;
  int64_t target_count = 0;  // targets that are not kIgnoreTarget
};

enum class DatasetKind { language_model, masked, sequence_to_sequence };
enum class Split { train, validation, test };

struct TextOptions {
  uint64_t seed = 0;         // of windows and masks
  double held_out = 0.05;    // share of the text kept for validation, in [0, 0.5]
  std::string cache_folder;  // where the tokenized file goes; empty: $XDG_CACHE_HOME/plumb or ~/.cache/plumb
  std::function<void(std::string_view phase, uint64_t done, uint64_t total)> progress;  // bytes; may be empty
};

struct SyntheticOptions {
  uint64_t seed = 0;
  int min_symbols = 3;  // shortest input
  int examples = 512;   // in validation, and in test
};

// Cheap to copy; every method is const and safe from several threads at once.
//
// batch() is a pure function of (seed, step, row of the step): row r of micro-batch m is row m * rows + r of
// the step, so the data of a step does not depend on how it is cut into micro-batches, and the step number is
// the data position.
class Dataset {
 public:
  // A UTF-8 file, or a folder of them (each file is a document, closed by the tokenizer's eos), tokenized
  // once into a mapped file that is rebuilt when text or tokenizer change; larger than memory is fine. The
  // named file must be non-empty UTF-8 text; inside a folder other files are skipped and counted in one
  // notice. Every so many bytes a block goes to validation, so both parts come from all over the text and
  // never overlap.
  //
  // A file whose name ends in .jsonl has a document on each line, read into memory: {"text": ...}, or
  // {"prompt": ..., "completion": ...} whose prompt has no targets; whole ones are packed into rows, and one
  // that is longer than a row is Error(input). A document ends with the tokenizer's eos.
  static Dataset text(const std::string& path, const Tokenizer& tokenizer, const TextOptions& options = {});

  // The same text for a masked-LM encoder: 15 % of the positions are targets, of which 80 % show the mask
  // token, 10 % a random token, 10 % themselves (BERT, Devlin et al. 2018, section 3.1). The tokenizer needs
  // a mask token.
  static Dataset masked_text(const std::string& path, const Tokenizer& tokenizer,
                             const TextOptions& options = {});

  // "copy", "reverse" or "sort" of digits and letters. Encoder: symbols, eos; decoder: bos, answer; targets:
  // answer, eos. Which split an input belongs to is a hash of the input: train, validation and test never
  // share one.
  static Dataset synthetic(const std::string& name, const SyntheticOptions& options = {});
  static const std::vector<std::string>& synthetic_names();

  DatasetKind kind() const;
  const Tokenizer& tokenizer() const;
  int vocab_size() const { return tokenizer().vocab_size(); }

  // Training rows (B = rows, T = length). Text: windows that start anywhere. Synthetic: inputs of min_symbols
  // to length - 1 symbols. Error(input) where the text is too short for one window.
  Batch batch(int64_t step, int64_t micro, int64_t rows, int64_t length) const;

  // Evaluation in order, the same each time. Text: every target of the part exactly once, the last window
  // padded; a text has no test part, and too short a one no validation part: 0 batches. The last batch may
  // have fewer rows. most_batches <= 0: no cap.
  int64_t evaluation_batches(Split split, int64_t rows, int64_t length, int64_t most_batches = 0) const;
  Batch evaluation_batch(Split split, int64_t index, int64_t rows, int64_t length) const;

  // Of a text's part: tokens, and the bytes of text they stand for. 0 where examples are made up as needed.
  int64_t token_count(Split split) const;
  int64_t byte_count(Split split) const;
  std::string describe() const;  // "fortunes: 51 files, 2.5 MB, 712k training and 37k held-out tokens"

  struct Impl;  // internal
  explicit Dataset(std::shared_ptr<const Impl> impl);

 private:
  std::shared_ptr<const Impl> impl_;
};

// The first of the texts that Debian may have on the machine (fortunes, the common licences); Error(input)
// naming them if none is there.
std::string default_corpus();

}  // namespace plumb
