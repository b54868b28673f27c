#include "plumb/tokenizer_trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <unordered_map>

#include "base/progress.h"
#include "base/utf8.h"
#include "plumb/error.h"
#include "plumb/signal.h"
#include "plumb/suggest.h"
#include "text/bpe_model.h"
#include "text/bpe_trainer.h"
#include "text/byte_level.h"
#include "text/parts.h"
#include "text/tokenizer_impl.h"
#include "text/tokenizer_json.h"
#include "text/unigram_trainer.h"
#include "text/word_counts.h"

namespace plumb {
namespace {

using Impl = Tokenizer::Impl;

[[noreturn]] void refuse(const std::string& what) {
  throw Error(ErrorKind::usage, what);
}

// What the kind says where the caller says nothing.
struct Defaults {
  const char *normalizer, *pre_tokenizer, *prefix;
  std::vector<std::string> special_tokens;
};

Defaults defaults_of(const TokenizerTraining& o) {
  const std::vector<std::string> usual = {"<unk>", "<s>", "</s>", "<pad>"};
  if (o.kind == TokenizerKind::unigram) return {"fold", "metaspace", "", usual};
  if (o.kind == TokenizerKind::wordpiece)
    return {"bert", "bert", "##", {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"}};
  if (o.pre_tokenizer.empty() || o.pre_tokenizer == "byte-level")
    return {"none", "byte-level", "", {"<|endoftext|>", "<|pad|>", "<|mask|>"}};
  return {"none", "metaspace", "", usual};
}

// The JSON of a part that is given by name or as JSON; "" for none.
std::string part_json(const std::string& given, const std::vector<TrainingPreset>& presets,
                      const char* what) {
  if (given.starts_with("{")) return given;
  std::vector<std::string> names;
  for (const TrainingPreset& preset : presets) {
    if (given == preset.name) return preset.json;
    names.emplace_back(preset.name);
  }
  refuse(fmt::format("no {} \"{}\"{}: there are {}, or the part of tokenizer.json as {{...}}", what, given,
                     did_you_mean(given, names), fmt::join(names, ", ")));
}

void set_given_part(Impl& impl, const char* name, const std::string& json) {
  const std::string file = fmt::format("the {} to train with", name);
  if (json.empty()) return;
  const Json part = parse_json(json, file);
  impl.set_part(name, JsonAt(part, file));
}

class Training {
 public:
  Training(const std::vector<std::string>& paths, TokenizerTraining options)
      : paths_(paths), o_(std::move(options)), impl_(std::make_shared<Impl>()) {
    const Defaults defaults = defaults_of(o_);
    if (o_.normalizer.empty()) o_.normalizer = defaults.normalizer;
    if (o_.pre_tokenizer.empty()) o_.pre_tokenizer = defaults.pre_tokenizer;
    if (o_.prefix.empty()) o_.prefix = defaults.prefix;
    if (o_.special_tokens.empty()) o_.special_tokens = defaults.special_tokens;
    set_given_part(*impl_, "normalizer", part_json(o_.normalizer, normalizer_presets(), "normalizer"));
    set_given_part(*impl_, "pre_tokenizer",
                   part_json(o_.pre_tokenizer, pre_tokenizer_presets(), "pre-tokenizer"));
    spells_bytes_ = impl_->pre_tokenizer.spells_bytes;
    set_specials();
    check();
  }

  Tokenizer run() {
    // Words as bytes, where each byte is a symbol.
    impl_->reads_bytes =
        o_.kind == TokenizerKind::bpe && spells_bytes_ && o_.prefix.empty() && o_.suffix.empty();
    std::vector<WordCount> words = count_words(
        paths_, *impl_, {.memory = static_cast<uint64_t>(o_.memory), .show_progress = o_.show_progress});
    if (o_.show_progress) progress_.emplace();
    find_alphabet(words);
    if (tokens_.size() + alphabet_.size() > static_cast<size_t>(o_.vocab_size)) {
      refuse(
          fmt::format("a vocabulary of {} tokens was asked for, and {} special tokens and {} characters are "
                      "already more: raise the size, or limit the alphabet",
                      o_.vocab_size, tokens_.size(), alphabet_.size()));
    }
    set_decoder();
    if (o_.kind == TokenizerKind::unigram) {
      make_unigram(words);
    } else {
      make_pairs(std::move(words));
    }
    set_template();
    if (progress_) {
      progress_->finish(fmt::format("{} tokens learned in {}", impl_->model->vocabulary().size(),
                                    format_duration(progress_->seconds())));
    }
    impl_->finish();
    return Tokenizer(impl_);
  }

 private:
  void set_specials() {
    std::set<std::string> seen;
    for (const std::string& content : o_.special_tokens) {
      if (content.empty() || utf8_fault(content) != kUtf8Valid)
        refuse("a special token is empty or not UTF-8");
      if (!seen.insert(content).second)
        refuse(fmt::format("the special token \"{}\" is given twice", content));
      impl_->added.add({.id = static_cast<int32_t>(tokens_.size()), .content = content, .special = true});
      tokens_.push_back(content);
    }
    roles_by_name(*impl_);
    unknown_ = impl_->roles[static_cast<size_t>(TokenRole::unk)];
    if (o_.byte_fallback) {
      for (int byte = 0; byte < 256; ++byte) tokens_.push_back(fmt::format("<0x{:02X}>", byte));
    }
  }

  void check() const {
    constexpr int64_t kMost = 1 << 24;
    if (o_.vocab_size < 1 || o_.vocab_size > kMost)
      refuse(fmt::format("a vocabulary of {} tokens was asked for, expected 1 to {}", o_.vocab_size, kMost));
    if (o_.min_count < 0 || o_.alphabet_limit < 0 || o_.longest < 0 || o_.memory < 1)
      refuse("a count of the training is negative");
    if (utf8_fault(o_.initial_alphabet) != kUtf8Valid) refuse("the initial alphabet is not UTF-8");
    if (o_.kind != TokenizerKind::bpe && !o_.suffix.empty()) refuse("only BPE has an end-of-word suffix");
    if (o_.kind == TokenizerKind::unigram && !o_.prefix.empty()) refuse("Unigram has no continuing prefix");
    if (o_.kind == TokenizerKind::wordpiece && o_.byte_fallback) refuse("WordPiece has no byte fallback");
    if (o_.kind == TokenizerKind::wordpiece && !unknown_)
      refuse("WordPiece needs an unknown token: [UNK], <unk> or <|unk|> has to be one of the special tokens");
    if (o_.kind == TokenizerKind::bpe && spells_bytes_ && o_.byte_fallback)
      refuse("byte-level BPE has all bytes: it needs no fallback");
  }

  void stop_if_asked() const {
    if (stop_requested()) throw Error(ErrorKind::interrupted, "stopped: nothing was saved");
  }

  void tell(const char* what, size_t have, size_t want) {
    stop_if_asked();
    if (!progress_ || !progress_->due()) return;
    const double seconds = progress_->seconds(),
                 share = static_cast<double>(have) / static_cast<double>(want);
    progress_->show(fmt::format("{}: {} of {}, {:.0f} a second, {} left", what, have, want,
                                static_cast<double>(have) / std::max(seconds, 1e-3),
                                format_duration(seconds * (1 / std::max(share, 1e-6) - 1))));
  }

  // The single characters, as tokens spell them, by code point.
  void find_alphabet(const std::vector<WordCount>& words) {
    std::unordered_map<char32_t, int64_t> counts;
    constexpr int64_t kKept = int64_t{1} << 62;
    for (size_t i = 0; i < o_.initial_alphabet.size();)
      counts[next_code_point(o_.initial_alphabet, i)] = kKept;
    for (int byte = 0; spells_bytes_ && byte < 256; ++byte)
      counts[byte_to_character(static_cast<unsigned char>(byte))] = kKept;
    for (const WordCount& word : words) {
      if (impl_->reads_bytes) break;  // they are all there
      for (size_t i = 0; i < word.word.size();) {
        int64_t& count = counts[next_code_point(word.word, i)];
        if (count < kKept) count += word.count;
      }
    }
    std::vector<std::pair<char32_t, int64_t>> list(counts.begin(), counts.end());
    std::sort(list.begin(), list.end(), [](const auto& a, const auto& b) {
      return a.second != b.second ? a.second > b.second : a.first < b.first;
    });
    if (o_.alphabet_limit > 0 && list.size() > static_cast<size_t>(o_.alphabet_limit))
      list.resize(static_cast<size_t>(o_.alphabet_limit));
    std::sort(list.begin(), list.end());
    for (const auto& [character, count] : list) {
      std::string text;
      append_utf8(text, character);
      if (std::find(o_.special_tokens.begin(), o_.special_tokens.end(), text) != o_.special_tokens.end())
        refuse(fmt::format("the special token \"{}\" is a character of the text", text));
      alphabet_.push_back(std::move(text));
    }
  }

  void make_unigram(const std::vector<WordCount>& words) {
    const size_t room = static_cast<size_t>(o_.vocab_size) - tokens_.size();
    UnigramLearning learning{.pieces = room, .required = alphabet_};
    if (o_.longest > 0) learning.longest = static_cast<size_t>(o_.longest);
    learning.progress = [&](size_t pieces) {
      stop_if_asked();
      if (progress_ && progress_->due()) {
        progress_->show(fmt::format("expectation and maximization: {} pieces, on the way to {}, {}", pieces,
                                    room, format_duration(progress_->seconds())));
      }
    };
    const std::vector<UnigramPiece> pieces = learn_unigram(words, learning);
    // What spells a special token or a byte in a text is better said by its characters.
    const double apart = 20 * (pieces.empty() ? -1 : pieces.back().score - 10);
    Json vocab = Json::array();
    for (const std::string& token : tokens_) vocab.push_back({token, apart});
    for (const UnigramPiece& piece : pieces) {
      if (std::find(tokens_.begin(), tokens_.end(), piece.text) == tokens_.end())
        vocab.push_back({piece.text, piece.score});
    }
    read({{"type", "Unigram"},
          {"unk_id", unknown_ ? Json(static_cast<uint64_t>(*unknown_)) : Json()},
          {"byte_fallback", o_.byte_fallback},
          {"vocab", std::move(vocab)}});
  }

  // Words as the ids of their symbols; the alphabet becomes tokens, and so does each character with its
  // prefix or suffix where one stands so. What is not in the alphabet ends a word's symbols.
  SymbolWords symbols_of(const std::vector<WordCount>& words) {
    std::unordered_map<std::string, int32_t> ids;
    const std::set<std::string, std::less<>> known(alphabet_.begin(), alphabet_.end());
    const auto id_of = [&](const std::string& token) {
      const auto [place, fresh] = ids.emplace(token, static_cast<int32_t>(tokens_.size()));
      if (fresh) tokens_.push_back(token);
      return place->second;
    };
    for (const std::string& character : alphabet_) id_of(character);
    add_marked(words, known, id_of);
    SymbolWords result;
    std::vector<int32_t> symbols;
    for (const WordCount& word : words) {
      each_symbol(word.word, known, [&](const std::string* token) {
        if (token) return symbols.push_back(ids.at(*token));
        result.add(symbols, word.count);
        symbols.clear();
      });
      result.add(symbols, word.count);
      symbols.clear();
    }
    return result;
  }

  // In the order of their spelling, not of the words.
  template <typename IdOf>
  void add_marked(const std::vector<WordCount>& words, const std::set<std::string, std::less<>>& known,
                  const IdOf& id_of) const {
    if (o_.prefix.empty() && o_.suffix.empty()) return;
    std::set<std::string> marked;
    for (const WordCount& word : words) {
      each_symbol(word.word, known, [&](const std::string* token) {
        if (token) marked.insert(*token);
      });
    }
    for (const std::string& token : marked) id_of(token);
  }

  // Calls take(token) for each symbol, take(nullptr) where a character is not known.
  template <typename Take>
  void each_symbol(std::string_view word, const std::set<std::string, std::less<>>& known,
                   const Take& take) const {
    std::string token;
    for (size_t i = 0; i < word.size();) {
      const size_t at = i;
      if (impl_->reads_bytes) {
        token.clear();
        append_utf8(token, byte_to_character(static_cast<unsigned char>(word[i++])));
        take(&token);
        continue;
      }
      next_code_point(word, i);
      const std::string_view character = word.substr(at, i - at);
      if (!known.contains(character)) {
        take(nullptr);
        continue;
      }
      token = at > 0 ? o_.prefix : "";
      token += character;
      if (i == word.size()) token += o_.suffix;
      take(&token);
    }
  }

  void make_pairs(std::vector<WordCount> words) {
    const auto specials = static_cast<int32_t>(tokens_.size());
    SymbolWords symbols = symbols_of(words);
    words = {};
    const auto want = static_cast<size_t>(o_.vocab_size);
    const std::vector<BpeMerge> merges =
        learn_merges(std::move(symbols), tokens_,
                     {.specials = specials,
                      .most_tokens = want,
                      .min_count = o_.min_count,
                      .prefix = o_.prefix.size(),
                      .longest = static_cast<size_t>(o_.longest),
                      .progress = [&](size_t tokens) { tell("learning merges", tokens, want); }});
    if (o_.kind == TokenizerKind::wordpiece) return make_wordpiece();
    Vocabulary vocabulary;
    for (size_t id = 0; id < tokens_.size(); ++id) vocabulary.add(static_cast<int32_t>(id), tokens_[id]);
    BpeOptions options{.byte_fallback = o_.byte_fallback};
    if (unknown_) options.unknown = tokens_[static_cast<size_t>(*unknown_)];
    if (!o_.prefix.empty()) options.prefix = o_.prefix;
    if (!o_.suffix.empty()) options.suffix = o_.suffix;
    ReadModel made = make_bpe(std::move(vocabulary), merges, options, spells_bytes_);
    impl_->model = std::move(made.model);
    impl_->reads_bytes = made.reads_bytes;
  }

  void make_wordpiece() {
    Json vocab = Json::object();
    for (size_t id = 0; id < tokens_.size(); ++id) vocab[tokens_[id]] = id;
    read({{"type", "WordPiece"},
          {"unk_token", tokens_[static_cast<size_t>(*unknown_)]},
          {"continuing_subword_prefix", o_.prefix},
          {"max_input_chars_per_word", 100u},
          {"vocab", std::move(vocab)}});
  }

  void read(const Json& model) {
    const std::string file = "the trained model";
    ReadModel made = read_model(JsonAt(model, file), spells_bytes_);
    impl_->model = std::move(made.model);
    impl_->reads_bytes = made.reads_bytes;
  }

  // The one that undoes what was done to the words.
  void set_decoder() {
    const std::string pre = impl_->parts.contains("pre_tokenizer") ? impl_->parts["pre_tokenizer"] : "{}";
    const OrderedJson part = parse_json(pre, "the pre-tokenizer");
    const bool metaspace = part.value("type", "") == "Metaspace";
    const OrderedJson fallback = {{"type", "ByteFallback"}};
    if (spells_bytes_) {
      decode_by(
          {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}});
    } else if (metaspace && o_.byte_fallback) {
      decode_by({{"type", "Sequence"}, {"decoders", {fallback, part}}});
    } else if (metaspace) {
      decode_by(part);
    } else if (o_.kind == TokenizerKind::wordpiece || !o_.prefix.empty()) {
      decode_by({{"type", "WordPiece"}, {"prefix", o_.prefix}, {"cleanup", true}});
    } else if (!o_.suffix.empty()) {
      decode_by({{"type", "BPEDecoder"}, {"suffix", o_.suffix}});
    }
  }

  void decode_by(const OrderedJson& decoder) { set_part(*impl_, "decoder", decoder); }

  // BERT's way of putting texts together.
  void set_template() {
    const auto begin = impl_->id("[CLS]"), end = impl_->id("[SEP]");
    if (o_.kind == TokenizerKind::wordpiece && begin && end) set_ends(*impl_, begin, end);
  }

  const std::vector<std::string>& paths_;
  TokenizerTraining o_;
  std::shared_ptr<Impl> impl_;
  bool spells_bytes_ = false;
  std::vector<std::string> tokens_;  // by id
  std::optional<int32_t> unknown_;
  std::vector<std::string> alphabet_;
  std::optional<Progress> progress_;
};

}  // namespace

Tokenizer train_tokenizer(const std::vector<std::string>& paths, const TokenizerTraining& options) {
  return Training(paths, options).run();
}

}  // namespace plumb
