#include "plumb/tokenizer.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/utf8.h"
#include "plumb/error.h"
#include "text/bpe_trainer.h"
#include "text/tokenizer_impl.h"
#include "text/tokenizer_json.h"

namespace plumb {
namespace {

constexpr const char* kEndOfText = "<|endoftext|>";
constexpr const char* kStartOfText = "<|startoftext|>";
constexpr const char* kPad = "<|pad|>";
constexpr const char* kMask = "<|mask|>";

using Impl = Tokenizer::Impl;

void set_role(Impl& impl, TokenRole role, int32_t id) {
  impl.roles[static_cast<size_t>(role)] = id;
}

// GPT-2's way: one token ends a text and starts the next.
void add_text_specials(Impl& impl, int32_t first) {
  impl.add_special(first, kEndOfText);
  impl.add_special(first + 1, kPad);
  impl.add_special(first + 2, kMask);
  set_role(impl, TokenRole::bos, first);
  set_role(impl, TokenRole::eos, first);
  set_role(impl, TokenRole::pad, first + 1);
  set_role(impl, TokenRole::mask, first + 2);
}

// The bytes in the order of the characters that spell them, as the `tokenizers` package numbers an alphabet.
std::array<unsigned char, 256> bytes_by_character() {
  std::array<unsigned char, 256> order;
  for (size_t i = 0; i < 256; ++i) order[i] = static_cast<unsigned char>(i);
  std::sort(order.begin(), order.end(),
            [](unsigned char a, unsigned char b) { return byte_to_character(a) < byte_to_character(b); });
  return order;
}

std::string spell_byte(int byte) {
  return spell_bytes(std::string(1, static_cast<char>(byte)));
}

}  // namespace

void Impl::add_token(int32_t id, std::string spelling) {
  if (static_cast<size_t>(id) >= tokens.size()) tokens.resize(static_cast<size_t>(id) + 1);
  ids[spelling] = id;
  tokens[static_cast<size_t>(id)] = std::move(spelling);
}

void Impl::add_special(int32_t id, const std::string& content) {
  add_token(id, content);
  added.push_back({id, content, true});
}

void Impl::finish() {
  bytes.resize(tokens.size());
  special.assign(tokens.size(), false);
  for (size_t id = 0; id < tokens.size(); ++id) bytes[id] = unspell_bytes(tokens[id]).value_or(tokens[id]);
  longest_first.resize(added.size());
  for (size_t i = 0; i < added.size(); ++i) {
    const AddedToken& token = added[i];
    bytes[static_cast<size_t>(token.id)] = token.content;
    special[static_cast<size_t>(token.id)] = token.special;
    starts_added[static_cast<unsigned char>(token.content[0])] = true;
    has_plain_added = has_plain_added || !token.special;
    longest_first[i] = i;
  }
  std::stable_sort(longest_first.begin(), longest_first.end(),
                   [this](size_t a, size_t b) { return added[a].content.size() > added[b].content.size(); });
  Hash hash;
  for (const std::string& token : tokens) {
    hash.add(token.size());
    hash.add(token);
  }
  for (const BpeMerge& merge : model.merges())
    hash.add(static_cast<uint64_t>(merge.left) << 32 | static_cast<uint32_t>(merge.right));
  for (const AddedToken& token : added) hash.add(static_cast<uint64_t>(token.id) * 2 + token.special);
  for (const auto& role : roles) hash.add(static_cast<uint64_t>(role.value_or(-1)));
  hash.add(static_cast<uint64_t>(pre_tokenizer.add_prefix_space * 2 + pre_tokenizer.use_regex));
  fingerprint = hash.value();
}

// `offset` is where the text stands in what the caller gave, for messages.
void Impl::encode_plain(std::string_view text, size_t offset, std::vector<int32_t>& out) const {
  if (text.empty()) return;
  pre_tokenizer.split(text, [&](std::string_view word) {
    const size_t stopped = model.encode_word(word, out);
    if (stopped == word.size()) return;
    const bool inside = word.data() >= text.data() && word.data() < text.data() + text.size();
    const size_t place = offset + stopped + (inside ? static_cast<size_t>(word.data() - text.data()) : 0);
    throw Error(
        ErrorKind::input,
        fmt::format("the text has a character at byte {} that this vocabulary of {} tokens cannot spell "
                    "(byte 0x{:02x})",
                    place, tokens.size(), static_cast<unsigned char>(word[stopped])));
  });
}

Tokenizer::Tokenizer(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}

Tokenizer Tokenizer::bytes() {
  auto impl = std::make_shared<Impl>();
  std::array<int32_t, 256> byte_ids;
  for (int byte = 0; byte < 256; ++byte) {
    byte_ids[static_cast<size_t>(byte)] = byte;
    impl->add_token(byte, spell_byte(byte));
  }
  add_text_specials(*impl, 256);
  impl->pre_tokenizer.use_regex = false;
  impl->model = Bpe(byte_ids, {});
  impl->finish();
  return Tokenizer(impl);
}

Tokenizer Tokenizer::characters(std::string_view symbols) {
  auto impl = std::make_shared<Impl>();
  impl->add_special(0, kPad);
  impl->add_special(1, kStartOfText);
  impl->add_special(2, kEndOfText);
  set_role(*impl, TokenRole::pad, 0);
  set_role(*impl, TokenRole::bos, 1);
  set_role(*impl, TokenRole::eos, 2);
  std::array<int32_t, 256> byte_ids;
  byte_ids.fill(-1);
  int32_t next = 3;
  for (const char symbol : symbols) {
    int32_t& id = byte_ids[static_cast<unsigned char>(symbol)];
    PLUMB_CHECK(symbol > ' ' && symbol <= '~' && id < 0, "symbols are printable ASCII, each once");
    id = next;
    impl->add_token(next++, std::string(1, symbol));
  }
  impl->pre_tokenizer.use_regex = false;
  impl->model = Bpe(byte_ids, {});
  impl->finish();
  return Tokenizer(impl);
}

Tokenizer Tokenizer::train_bpe(const std::vector<std::string>& paths, const TokenizerTraining& options) {
  constexpr int kLeast = 3 + 256, kMost = 1 << 24;
  if (options.vocab_size < kLeast || options.vocab_size > kMost) {
    throw Error(ErrorKind::usage,
                fmt::format("a byte-level vocabulary of {} tokens was asked for, expected {} to {}",
                            options.vocab_size, kLeast, kMost));
  }
  auto impl = std::make_shared<Impl>();
  add_text_specials(*impl, 0);
  BpeLearning learning;
  learning.first_id = 3;
  for (const unsigned char byte : bytes_by_character()) {
    learning.byte_ids[byte] = learning.first_id;
    impl->add_token(learning.first_id++, spell_byte(byte));
  }
  learning.most_merges = static_cast<int>(options.vocab_size) - kLeast;
  learning.min_count = options.min_count;
  if (options.progress) {
    learning.progress = [&](uint64_t done, uint64_t total) {
      options.progress("learning merges", done, total);
    };
  }
  std::vector<BpeMerge> merges = learn_merges(count_words(paths, options), learning);
  for (const BpeMerge& merge : merges) {
    if (static_cast<size_t>(merge.joined) < impl->tokens.size()) continue;
    impl->add_token(merge.joined, impl->tokens[static_cast<size_t>(merge.left)] +
                                      impl->tokens[static_cast<size_t>(merge.right)]);
  }
  impl->model = Bpe(learning.byte_ids, std::move(merges));
  impl->finish();
  return Tokenizer(impl);
}

Tokenizer Tokenizer::load(const std::string& path) {
  auto impl = std::make_shared<Impl>();
  read_tokenizer(path, *impl);
  impl->finish();
  return Tokenizer(impl);
}

void Tokenizer::save(const std::string& path) const {
  if (path.ends_with(".json")) {
    write_file_atomically(path, tokenizer_json(*impl_));
    return;
  }
  make_folder(path);
  write_file_atomically(join_path(path, "tokenizer.json"), tokenizer_json(*impl_));
  write_file_atomically(join_path(path, "tokenizer_config.json"), tokenizer_config_json(*impl_));
}

std::vector<int32_t> Tokenizer::encode(std::string_view text, bool parse_special) const {
  if (const size_t fault = utf8_fault(text); fault != kUtf8Valid) {
    throw Error(
        ErrorKind::input,
        fmt::format("the text is not UTF-8: byte 0x{:02x} at offset {} does not belong to a character",
                    static_cast<unsigned char>(text[fault]), fault));
  }
  const Impl& impl = *impl_;
  std::vector<int32_t> ids;
  ids.reserve(text.size() / 3 + 8);
  size_t done = 0;
  if (parse_special || impl.has_plain_added) {
    // Leftmost, then longest; a special token that was not asked for is text, and nothing is looked for
    // inside it.
    for (size_t i = 0; i < text.size();) {
      const AddedToken* found = nullptr;
      if (impl.starts_added[static_cast<unsigned char>(text[i])]) {
        for (const size_t index : impl.longest_first) {
          if (!text.substr(i).starts_with(impl.added[index].content)) continue;
          found = &impl.added[index];
          break;
        }
      }
      if (!found) {
        ++i;
        continue;
      }
      if (!found->special || parse_special) {
        impl.encode_plain(text.substr(done, i - done), done, ids);
        ids.push_back(found->id);
        done = i + found->content.size();
      }
      i += found->content.size();
    }
  }
  impl.encode_plain(text.substr(done), done, ids);
  return ids;
}

// The bytes of a token in decoded text.
std::string_view Impl::bytes_of(int32_t id, bool keep_special) const {
  if (id < 0 || static_cast<size_t>(id) >= tokens.size()) {
    throw Error(ErrorKind::input,
                fmt::format("token id {} is outside the vocabulary of {} tokens", id, tokens.size()));
  }
  const size_t index = static_cast<size_t>(id);
  return special[index] && !keep_special ? std::string_view() : bytes[index];
}

struct StreamDecoder::State {
  std::shared_ptr<const Tokenizer::Impl> impl;
  bool keep_special;
  Utf8Stream stream;
};

StreamDecoder::StreamDecoder(std::unique_ptr<State> state) : state_(std::move(state)) {}
StreamDecoder::~StreamDecoder() = default;
StreamDecoder::StreamDecoder(StreamDecoder&&) noexcept = default;
StreamDecoder& StreamDecoder::operator=(StreamDecoder&&) noexcept = default;
std::string StreamDecoder::add(int32_t id) {
  return state_->stream.add(state_->impl->bytes_of(id, state_->keep_special));
}
std::string StreamDecoder::finish() {
  return state_->stream.finish();
}

StreamDecoder Tokenizer::stream_decoder(bool keep_special) const {
  return StreamDecoder(std::make_unique<StreamDecoder::State>(StreamDecoder::State{impl_, keep_special, {}}));
}

std::string Tokenizer::decode(std::span<const int32_t> ids, bool keep_special) const {
  std::string bytes;
  for (const int32_t id : ids) bytes += impl_->bytes_of(id, keep_special);
  return utf8_repaired(bytes);
}

int Tokenizer::vocab_size() const {
  return static_cast<int>(impl_->tokens.size());
}

std::string Tokenizer::token(int32_t id) const {
  return id >= 0 && id < vocab_size() ? impl_->tokens[static_cast<size_t>(id)] : "";
}

std::optional<int32_t> Tokenizer::id(std::string_view token) const {
  const auto place = impl_->ids.find(std::string(token));
  return place == impl_->ids.end() ? std::nullopt : std::optional(place->second);
}

std::optional<int32_t> Tokenizer::special(TokenRole role) const {
  return impl_->roles[static_cast<size_t>(role)];
}

bool Tokenizer::is_special(int32_t id) const {
  return id >= 0 && id < vocab_size() && impl_->special[static_cast<size_t>(id)];
}

uint64_t Tokenizer::fingerprint() const {
  return impl_->fingerprint;
}

std::string Tokenizer::describe() const {
  const char* kind = impl_->model.merges().empty() ? "single bytes" : "byte-level BPE";
  return fmt::format("{}, {} tokens", kind, vocab_size());
}

}  // namespace plumb
