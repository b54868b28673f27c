// Text to token ids and back.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace plumb {

// What a special token is for. A token may have several roles: in GPT-2's manner "<|endoftext|>" is bos and
// eos.
enum class TokenRole { bos, eos, pad, unk, mask };

// [begin, end) in a text.
struct TextSpan {
  uint32_t begin = 0, end = 0;
  bool operator==(const TextSpan&) const = default;
};

enum class OffsetUnit { none, bytes, code_points };

struct Truncation {
  enum class Strategy { longest_first, only_first, only_second };
  size_t max_length = 0;
  size_t stride = 0;  // tokens that a window shares with the one before
  Strategy strategy = Strategy::longest_first;
  bool left = false;  // the beginning is cut off, not the end
};

struct Padding {
  std::optional<size_t> length;  // else the longest of the batch
  size_t multiple = 0;           // rounded up to a multiple of this; 0: not
  int32_t id = 0, type_id = 0;
  std::string token;
  bool left = false;
};

struct EncodeOptions {
  bool add_special = true;     // what the file's post-processor adds around a text ("[CLS]" and so on)
  bool parse_special = false;  // special tokens written out in the text are those tokens, not text
  OffsetUnit offsets = OffsetUnit::none;
  bool tokens = false;                   // also as text
  std::optional<Truncation> truncation;  // in place of what the file says
  std::optional<Padding> padding;        // likewise
};

// What a model is given for a text or a pair of texts: a value for each token. offsets and tokens are empty
// unless they were asked for.
struct Encoding {
  std::vector<int32_t> ids, type_ids;
  std::vector<uint8_t> special_mask;    // 1: a template or padding added it
  std::vector<uint8_t> attention_mask;  // 0: padding
  std::vector<int8_t> sequence;  // the text that it is from: 0, or 1 for the second of a pair; -1 for neither
  std::vector<TextSpan> offsets;  // in that text; {0, 0} where there is none
  std::vector<std::string>
      tokens;  // an added or unknown one as the text has it, others as the vocabulary does
  std::vector<Encoding> overflow;  // what truncation cut off, in windows of the same make

  size_t size() const { return ids.size(); }
};

struct TextInput {
  std::string_view text;
  std::optional<std::string_view> pair = std::nullopt;
};

// Takes a tokenizer's ids one by one and gives out text as soon as it is certain; never half a character.
class StreamDecoder {
 public:
  ~StreamDecoder();
  StreamDecoder(StreamDecoder&&) noexcept;
  StreamDecoder& operator=(StreamDecoder&&) noexcept;

  std::string add(int32_t id);  // what can be shown now; may be empty
  std::string finish();         // the rest; all that came out equals Tokenizer::decode of all ids

 private:
  friend class Tokenizer;
  struct State;
  explicit StreamDecoder(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// Cheap to copy: copies share the vocabulary. Every method is const and safe from several threads at once.
//
// encode() wants valid UTF-8 (Error(input) with the byte offset otherwise). Special tokens written out in the
// text are ordinary text unless `parse_special`. decode() is always valid UTF-8: bytes that form no character
// become U+FFFD. Byte-level vocabularies without a normalizer are lossless: decode(encode(text)) == text.
class Tokenizer {
 public:
  // Ids 0 to 255 are the bytes; then <|endoftext|> (bos and eos) 256, <|pad|> 257, <|mask|> 258.
  static Tokenizer bytes();

  // One token a character of `symbols` (printable ASCII, each once), behind <|pad|> 0, <|startoftext|> (bos)
  // 1 and
  // <|endoftext|> (eos) 2. Any other character in a text is Error(input).
  static Tokenizer characters(std::string_view symbols);

  // A file, or the first of these in a folder: tokenizer.json, a SentencePiece model (tokenizer.model and its
  // other names), tekken.json, *.tiktoken, vocab.json with merges.txt, vocab.txt, *.gguf
  // (docs/tokenizers.md). Roles come from tokenizer_config.json or special_tokens_map.json beside it, else
  // from the file, else from the usual names. Error(file) names the entry that is malformed,
  // Error(unsupported) the component or pattern that this build cannot follow.
  static Tokenizer load(const std::string& path);
  static bool is_in(const std::string& folder);  // whether load() finds a file there

  // To a path ending in ".json": that file. Otherwise a folder, made if need be: tokenizer.json and
  // tokenizer_config.json (the roles), as the Hugging Face libraries read them. Written beside and renamed.
  void save(const std::string& path) const;

  // The ids of the text alone: nothing added, truncated or padded.
  std::vector<int32_t> encode(std::string_view text, bool parse_special = false) const;

  // All that the file does for a text or a pair: special tokens around it, truncation, padding. A batch is
  // padded together and encoded in threads. Error(input) also where truncation cannot fit.
  Encoding encode_input(const TextInput& input, const EncodeOptions& options = {}) const;
  std::vector<Encoding> encode_batch(std::span<const TextInput> inputs,
                                     const EncodeOptions& options = {}) const;

  // Special tokens are left out unless `keep_special`. An id outside the vocabulary is Error(input).
  std::string decode(std::span<const int32_t> ids, bool keep_special = false) const;
  StreamDecoder stream_decoder(bool keep_special = false) const;

  int vocab_size() const;               // highest id + 1
  std::string token(int32_t id) const;  // as the file spells it, e.g. "Ġthe"; "" for an id that no token has
  std::optional<int32_t> id(std::string_view token) const;
  std::optional<int32_t> special(TokenRole role) const;
  bool is_special(int32_t id) const;

  std::string json() const;      // the content of tokenizer.json
  uint64_t fingerprint() const;  // equal for tokenizers that give equal ids
  std::string describe() const;  // "byte-level BPE, 4096 tokens"

  struct Impl;  // internal
  explicit Tokenizer(std::shared_ptr<const Impl> impl);
  const Impl& impl() const { return *impl_; }

 private:
  std::shared_ptr<const Impl> impl_;
};

}  // namespace plumb
