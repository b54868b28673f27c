#include "plumb/tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/parallel.h"
#include "base/utf8.h"
#include "plumb/error.h"
#include "text/bpe_model.h"
#include "text/byte_level.h"
#include "text/tokenizer_files.h"
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

void add_special(Impl& impl, int32_t id, const std::string& content, Vocabulary& vocabulary) {
  vocabulary.add(id, content);
  impl.added.add({.id = id, .content = content, .special = true});
}

// GPT-2's way: one token ends a text and starts the next.
void add_text_specials(Impl& impl, int32_t first, Vocabulary& vocabulary) {
  add_special(impl, first, kEndOfText, vocabulary);
  add_special(impl, first + 1, kPad, vocabulary);
  add_special(impl, first + 2, kMask, vocabulary);
  set_role(impl, TokenRole::bos, first);
  set_role(impl, TokenRole::eos, first);
  set_role(impl, TokenRole::pad, first + 1);
  set_role(impl, TokenRole::mask, first + 2);
}

std::string spell_byte(int byte) {
  return spell_bytes(std::string(1, static_cast<char>(byte)));
}

// A text is one piece, and each of its bytes a token.
void set_bytes(Impl& impl, Vocabulary vocabulary, const BpeOptions& options = {}) {
  const std::string file = "the byte-level part";
  const Json part = parse_json(
      R"({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false})", file);
  impl.set_part("pre_tokenizer", JsonAt(part, file));
  impl.set_part("decoder", JsonAt(part, file));
  ReadModel made = make_bpe(std::move(vocabulary), {}, options, true);
  impl.model = std::move(made.model);
  impl.reads_bytes = made.reads_bytes;
}

}  // namespace

void Impl::finish() {
  if (!parts.contains("decoder")) decoder = no_decoder();
  added.finish(normalizer);
  size = model->vocabulary().size();
  for (size_t i = 0; i < added.list().size(); ++i) {
    added_by_id[added.list()[i].id] = i;
    size = std::max(size, static_cast<size_t>(added.list()[i].id) + 1);
  }
  if (decoder.only_byte_level) {
    bytes.resize(size);
    for (size_t id = 0; id < size; ++id) {
      const std::string& spelling = model->vocabulary().token(static_cast<int32_t>(id));
      bytes[id] = unspell_bytes(spelling).value_or(spelling);
    }
    for (const AddedToken& token : added.list()) bytes[static_cast<size_t>(token.id)] = token.content;
  }
  Hash hash;
  const auto add = [&](std::string_view text) {
    hash.add(text.size());
    hash.add(text);
  };
  for (size_t id = 0; id < size; ++id) add(token(static_cast<int32_t>(id)));
  add(model->options());
  hash.add(model->fingerprint());
  for (const auto& [name, part] : parts) add(name), add(part);
  for (const AddedToken& token : added.list()) {
    hash.add(static_cast<uint64_t>(token.id));
    for (const bool flag : {token.special, token.normalized, token.single_word, token.lstrip, token.rstrip})
      hash.add(uint64_t{flag});
  }
  for (const auto& role : roles) hash.add(static_cast<uint64_t>(role.value_or(-1)));
  fingerprint = hash.value();
}

const std::string& Impl::token(int32_t id) const {
  const auto place = added_by_id.find(id);
  return place == added_by_id.end() ? model->vocabulary().token(id) : added.list()[place->second].content;
}

std::optional<int32_t> Impl::id(std::string_view token) const {
  for (const AddedToken& one : added.list()) {
    if (one.content == token) return one.id;
  }
  const int32_t id = model->vocabulary().find(token);
  return id < 0 ? std::nullopt : std::optional(id);
}

bool Impl::is_special(int32_t id) const {
  const auto place = added_by_id.find(id);
  return place != added_by_id.end() && added.list()[place->second].special;
}

void Impl::check_id(int32_t id) const {
  if (id < 0 || static_cast<size_t>(id) >= size) {
    throw Error(ErrorKind::input,
                fmt::format("token id {} is outside the vocabulary of {} tokens", id, size));
  }
}

Tokenizer::Tokenizer(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}

Tokenizer Tokenizer::bytes() {
  auto impl = std::make_shared<Impl>();
  Vocabulary vocabulary;
  for (int byte = 0; byte < 256; ++byte) vocabulary.add(byte, spell_byte(byte));
  add_text_specials(*impl, 256, vocabulary);
  set_bytes(*impl, std::move(vocabulary));
  impl->finish();
  return Tokenizer(impl);
}

Tokenizer Tokenizer::characters(std::string_view symbols) {
  auto impl = std::make_shared<Impl>();
  Vocabulary vocabulary;
  add_special(*impl, 0, kPad, vocabulary);
  add_special(*impl, 1, kStartOfText, vocabulary);
  add_special(*impl, 2, kEndOfText, vocabulary);
  set_role(*impl, TokenRole::pad, 0);
  set_role(*impl, TokenRole::bos, 1);
  set_role(*impl, TokenRole::eos, 2);
  int32_t next = 3;
  for (const char symbol : symbols) {
    const std::string token(1, symbol);
    PLUMB_CHECK(symbol > ' ' && symbol <= '~' && vocabulary.find(token) < 0,
                "symbols are printable ASCII, each once");
    vocabulary.add(next++, token);
  }
  set_bytes(*impl, std::move(vocabulary), {.refuse_unknown = true});
  impl->finish();
  return Tokenizer(impl);
}

bool Tokenizer::is_in(const std::string& folder) {
  return has_tokenizer(folder);
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
  std::vector<int32_t> ids;
  ids.reserve(text.size() / 3 + 8);
  impl_->encode_ids(text, parse_special, ids);
  return ids;
}

namespace {

void drop_tokens(Encoding& encoding) {
  encoding.tokens.clear();
  for (Encoding& window : encoding.overflow) drop_tokens(window);
}

}  // namespace

Encoding Tokenizer::encode_input(const TextInput& input, const EncodeOptions& options) const {
  return std::move(encode_batch({&input, 1}, options).front());
}

std::vector<Encoding> Tokenizer::encode_batch(std::span<const TextInput> inputs,
                                              const EncodeOptions& options) const {
  constexpr size_t kTogether = 16;
  const bool offsets = options.offsets != OffsetUnit::none;
  const Wanted wanted = {offsets, options.tokens || (offsets && impl_->post_processor.trims)};
  std::vector<Encoding> batch(inputs.size());
  const auto encode_some = [&](size_t group) {
    const size_t end = std::min(inputs.size(), (group + 1) * kTogether);
    for (size_t i = group * kTogether; i < end; ++i)
      batch[i] = impl_->encode_input(inputs[i], options, wanted);
  };
  const size_t groups = (inputs.size() + kTogether - 1) / kTogether;
  if (groups == 1) {
    encode_some(0);
  } else {
    parallel_for(groups, [&](size_t group, size_t) { encode_some(group); });
  }
  if (const auto& padding = options.padding ? options.padding : impl_->padding) pad(batch, *padding, wanted);
  if (!options.tokens) {
    for (Encoding& encoding : batch) drop_tokens(encoding);
  }
  return batch;
}

// Byte-level tokens decode each for itself; of others, a decoder may have to see what follows.
struct StreamDecoder::State {
  State(std::shared_ptr<const Tokenizer::Impl> of, bool special)
      : impl(std::move(of)), keep_special(special) {
    if (!impl->decoder.only_byte_level) chain.emplace(impl->decoder);
  }
  std::string add(int32_t id) {
    impl->check_id(id);
    if (!keep_special && impl->is_special(id)) return "";
    if (!chain) return stream.add(impl->bytes[static_cast<size_t>(id)]);
    const std::string& token = impl->token(id);
    taken += token.size();
    return token.empty() ? "" : counted(chain->add(token));
  }
  std::string finish() { return chain ? counted(chain->finish()) : stream.finish(); }

  // Steps of a file may each make a token longer.
  std::string counted(std::string text) {
    made += text.size();
    check_growth(taken, made);
    return text;
  }

  std::shared_ptr<const Tokenizer::Impl> impl;
  bool keep_special;
  Utf8Stream stream;
  std::optional<DecodeChain> chain;
  size_t taken = 0, made = 0;  // bytes that went through the chain
};

StreamDecoder::StreamDecoder(std::unique_ptr<State> state) : state_(std::move(state)) {}
StreamDecoder::~StreamDecoder() = default;
StreamDecoder::StreamDecoder(StreamDecoder&&) noexcept = default;
StreamDecoder& StreamDecoder::operator=(StreamDecoder&&) noexcept = default;
std::string StreamDecoder::add(int32_t id) {
  return state_->add(id);
}
std::string StreamDecoder::finish() {
  return state_->finish();
}

StreamDecoder Tokenizer::stream_decoder(bool keep_special) const {
  return StreamDecoder(std::make_unique<StreamDecoder::State>(impl_, keep_special));
}

std::string Tokenizer::decode(std::span<const int32_t> ids, bool keep_special) const {
  if (impl_->decoder.only_byte_level) {
    std::string bytes;
    for (const int32_t id : ids) {
      impl_->check_id(id);
      if (keep_special || !impl_->is_special(id)) bytes += impl_->bytes[static_cast<size_t>(id)];
    }
    return utf8_repaired(bytes);
  }
  StreamDecoder stream = stream_decoder(keep_special);
  std::string text;
  for (const int32_t id : ids) text += stream.add(id);
  return text + stream.finish();
}

int Tokenizer::vocab_size() const {
  return static_cast<int>(impl_->size);
}

std::string Tokenizer::token(int32_t id) const {
  return impl_->token(id);
}

std::optional<int32_t> Tokenizer::id(std::string_view token) const {
  return impl_->id(token);
}

std::optional<int32_t> Tokenizer::special(TokenRole role) const {
  return impl_->roles[static_cast<size_t>(role)];
}

bool Tokenizer::is_special(int32_t id) const {
  return impl_->is_special(id);
}

std::string Tokenizer::json() const {
  return tokenizer_json(*impl_);
}

uint64_t Tokenizer::fingerprint() const {
  return impl_->fingerprint;
}

std::string Tokenizer::describe() const {
  return fmt::format("{}, {} tokens", impl_->model->kind(), vocab_size());
}

}  // namespace plumb
