#include "text/bpe_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <utility>

#include "base/hash.h"
#include "base/utf8.h"
#include "plumb/error.h"
#include "text/byte_level.h"

namespace plumb {
namespace {

std::array<int32_t, 256> byte_tokens(const Vocabulary& vocabulary) {
  std::array<int32_t, 256> ids;
  for (size_t byte = 0; byte < 256; ++byte)
    ids[byte] = vocabulary.find(spell_bytes(std::string(1, static_cast<char>(byte))));
  return ids;
}

bool is_given(const std::optional<std::string>& text) {
  return text && !text->empty();
}

class BpeModel : public TokenModel {
 public:
  BpeModel(Vocabulary vocab, std::vector<BpeMerge> merges, BpeOptions options, bool spells_bytes);

  void encode(std::string_view piece, std::vector<ModelToken>& out) const override;

  bool reads_bytes() const { return reads_bytes_; }
  std::string kind() const override;
  std::string options() const override;
  std::string contents() const override;
  uint64_t fingerprint() const override;

 private:
  struct Word {
    std::vector<int32_t> ids;
    std::vector<uint32_t> lengths;
    void add(int32_t id, size_t length) {
      ids.push_back(id);
      lengths.push_back(static_cast<uint32_t>(length));
    }
  };
  void find_ids(std::string_view piece, std::vector<int32_t>& out) const override;
  bool forgets() const override { return options_.dropout > 0; }
  void find_symbols();
  void read_bytes_directly();
  int32_t symbol(char32_t c, bool first, bool last) const;
  void spell(std::string_view piece, Word& word) const;
  bool add_bytes(std::string_view text, Word& word) const;

  BpeOptions options_;
  int32_t unknown_ = -1;
  Bpe bpe_;
  bool reads_bytes_;
  Vocabulary whole_;                                     // bytes to ids, for ignore_merges
  std::vector<uint32_t> token_bytes_;                    // how many bytes an id stands for
  std::unordered_map<char32_t, int32_t> symbols_[2][2];  // by whether it is first, last of its word
  std::array<int32_t, 256> fallback_;
};

BpeModel::BpeModel(Vocabulary vocab, std::vector<BpeMerge> merges, BpeOptions options, bool spells_bytes)
    : TokenModel(std::move(vocab)),
      options_(std::move(options)),
      bpe_(byte_tokens(vocabulary()), std::move(merges)),
      reads_bytes_(spells_bytes) {
  const auto& bytes = bpe_.byte_ids();
  const bool has_all = std::find(bytes.begin(), bytes.end(), -1) == bytes.end();
  reads_bytes_ = spells_bytes && !is_given(options_.prefix) && !is_given(options_.suffix) &&
                 options_.dropout == 0 && (has_all || options_.refuse_unknown);
  if (options_.unknown) unknown_ = vocabulary().find(*options_.unknown);
  if (reads_bytes_) {
    read_bytes_directly();
    return;
  }
  find_symbols();
  const bool joins_unknown = options_.unknown && options_.unknown->ends_with("\u2581");
  if (!is_given(options_.prefix) && !is_given(options_.suffix) && !options_.ignore_merges && !joins_unknown)
    cut_at_marks();
}

void BpeModel::read_bytes_directly() {
  token_bytes_.resize(vocabulary().size());
  for (size_t id = 0; id < token_bytes_.size(); ++id) {
    const auto bytes = unspell_bytes(vocabulary().token(static_cast<int32_t>(id)));
    if (!bytes) continue;
    token_bytes_[id] = static_cast<uint32_t>(bytes->size());
    if (options_.ignore_merges && !bytes->empty()) whole_.add(static_cast<int32_t>(id), *bytes);
  }
}

void BpeModel::find_symbols() {
  for (int byte = 0; byte < 256; ++byte)
    fallback_[static_cast<size_t>(byte)] = vocabulary().find(fmt::format("<0x{:02X}>", byte));
  const std::string prefix = options_.prefix.value_or(""), suffix = options_.suffix.value_or("");
  for (size_t id = 0; id < vocabulary().size(); ++id) {
    const std::string& token = vocabulary().token(static_cast<int32_t>(id));
    for (const bool first : {false, true}) {
      for (const bool last : {false, true}) {
        std::string_view text = token;
        if (!first) {
          if (!text.starts_with(prefix)) continue;
          text.remove_prefix(prefix.size());
        }
        if (last) {
          if (!text.ends_with(suffix)) continue;
          text.remove_suffix(suffix.size());
        }
        if (text.empty()) continue;
        size_t end = 0;
        const char32_t c = next_code_point(text, end);
        if (end == text.size()) symbols_[first][last][c] = vocabulary().find(token);
      }
    }
  }
}

int32_t BpeModel::symbol(char32_t c, bool first, bool last) const {
  const auto& symbols = symbols_[first][last];
  const auto place = symbols.find(c);
  return place == symbols.end() ? -1 : place->second;
}

bool BpeModel::add_bytes(std::string_view text, Word& word) const {
  const auto has = [&](char c) { return fallback_[static_cast<unsigned char>(c)] >= 0; };
  if (!std::all_of(text.begin(), text.end(), has)) return false;
  for (const char c : text) word.add(fallback_[static_cast<unsigned char>(c)], 1);
  return true;
}

// The symbols to begin with. An unknown character waits until a known one comes, so that more of them can
// join it; bytes of a fallback do not count as known.
void BpeModel::spell(std::string_view piece, Word& word) const {
  size_t waiting = 0;  // bytes of unknown characters
  const auto flush = [&] {
    if (waiting > 0) word.add(unknown_, waiting);
    waiting = 0;
  };
  for (size_t i = 0; i < piece.size();) {
    const size_t begin = i;
    const char32_t c = next_code_point(piece, i);
    const bool first = begin == 0, last = i == piece.size();
    if (const int32_t id = symbol(c, first, last); id >= 0) {
      flush();
      word.add(id, i - begin);
      continue;
    }
    if (options_.byte_fallback) {
      const std::string whole = (first ? "" : options_.prefix.value_or("")) +
                                std::string(piece.substr(begin, i - begin)) +
                                (last ? options_.suffix.value_or("") : "");
      if (add_bytes(whole, word)) continue;
    }
    if (!options_.unknown) continue;  // the character is lost, as in the reference
    if (unknown_ < 0) {
      throw Error(ErrorKind::input,
                  fmt::format("the vocabulary lacks {}, and its unknown token {} too",
                              quote_json(piece.substr(begin, i - begin)), quote_json(*options_.unknown)));
    }
    if (!options_.fuse_unknown) flush();
    waiting += i - begin;
  }
  flush();
}

void BpeModel::find_ids(std::string_view piece, std::vector<int32_t>& out) const {
  if (!reads_bytes_) return TokenModel::find_ids(piece, out);
  if (options_.ignore_merges) {
    if (const int32_t id = whole_.find(piece); id >= 0) return out.push_back(id);
  }
  const size_t done = bpe_.encode_word(piece, out);
  if (done < piece.size()) throw Unspellable{done, static_cast<unsigned char>(piece[done])};
}

void BpeModel::encode(std::string_view piece, std::vector<ModelToken>& out) const {
  thread_local Word word;
  word.ids.clear();
  word.lengths.clear();
  uint32_t begin = 0;
  if (reads_bytes_) {
    encode_ids(piece, word.ids);
    for (const int32_t id : word.ids) {
      const uint32_t end = begin + token_bytes_[static_cast<size_t>(id)];
      out.push_back({id, begin, end, false});
      begin = end;
    }
    return;
  }
  if (options_.ignore_merges && options_.dropout == 0) {
    if (const int32_t id = vocabulary().find(piece); id >= 0)
      return out.push_back({id, 0, static_cast<uint32_t>(piece.size()), false});
  }
  spell(piece, word);
  if (options_.dropout > 0) {
    bpe_.merge_with_dropout(word.ids, word.lengths, options_.dropout);
  } else {
    bpe_.merge(word.ids, 0, &word.lengths);
  }
  for (size_t i = 0; i < word.ids.size(); ++i) {
    out.push_back({word.ids[i], begin, begin + word.lengths[i], false});
    begin += word.lengths[i];
  }
}

std::string BpeModel::kind() const {
  if (!reads_bytes_) return "BPE";
  return bpe_.merges().empty() ? "single bytes" : "byte-level BPE";
}

std::string BpeModel::options() const {
  const auto text = [](const std::optional<std::string>& value) {
    return value ? OrderedJson(*value) : OrderedJson(nullptr);
  };
  OrderedJson json = {
      {"type", "BPE"},
      {"dropout", options_.dropout > 0 ? OrderedJson(options_.dropout) : OrderedJson(nullptr)},
      {"unk_token", text(options_.unknown)},
      {"continuing_subword_prefix", text(options_.prefix)},
      {"end_of_word_suffix", text(options_.suffix)},
      {"fuse_unk", options_.fuse_unknown},
      {"byte_fallback", options_.byte_fallback},
      {"ignore_merges", options_.ignore_merges}};
  if (options_.refuse_unknown) json["refuse_unknown"] = true;
  return dump_json(json);
}

std::string BpeModel::contents() const {
  std::string text = "\"vocab\": " + vocabulary_json(vocabulary()) + ",\n    \"merges\": [";
  const char* separator = "\n";
  for (const BpeMerge& merge : bpe_.merges()) {
    text += fmt::format("{}      [{}, {}]", separator, quote_json(vocabulary().token(merge.left)),
                        quote_json(vocabulary().token(merge.right)));
    separator = ",\n";
  }
  return text + (bpe_.merges().empty() ? "]" : "\n    ]");
}

uint64_t BpeModel::fingerprint() const {
  Hash hash;
  for (const BpeMerge& merge : bpe_.merges())
    hash.add(static_cast<uint64_t>(merge.left) << 32 | static_cast<uint32_t>(merge.right));
  return hash.value();
}

std::pair<std::string, std::string> merge_halves(const JsonAt& list, size_t index) {
  const Json& merge = list.value()[index];
  if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string())
    return {merge[0].get<std::string>(), merge[1].get<std::string>()};
  if (merge.is_string()) {  // the older spelling
    const auto& text = merge.get_ref<const std::string&>();
    const size_t space = text.find(' ');
    if (space != std::string::npos && text.find(' ', space + 1) == std::string::npos)
      return {text.substr(0, space), text.substr(space + 1)};
  }
  list.malformed(fmt::format("the merge {} is no pair of tokens", dump_json(merge, -1)));
}

// prefix: bytes of a second half that a merge leaves out.
std::vector<BpeMerge> read_merges(const JsonAt& json, const Vocabulary& vocabulary, size_t prefix) {
  const JsonAt list = json.list("merges");
  const auto& rows = json.rows().merges;
  std::vector<BpeMerge> merges;
  merges.reserve(rows.size() + list.size());
  std::string joined;
  const auto add = [&](const std::string& left, const std::string& right, const auto& shown) {
    const auto id_of = [&](const std::string& token) {
      const int32_t id = vocabulary.find(token);
      if (id < 0) {
        list.malformed(fmt::format("the merge {} needs the token {}, which the vocabulary lacks", shown(),
                                   quote_json(token)));
      }
      return id;
    };
    if (right.size() < prefix)
      list.malformed(fmt::format("the merge {} lacks the prefix in its second half", shown()));
    joined.assign(left).append(right, prefix);
    merges.push_back({id_of(left), id_of(right), id_of(joined)});
  };
  for (const auto& row : rows)
    add(row.first, row.second, [&] { return dump_json(Json::array({row.first, row.second}), -1); });
  for (size_t i = 0; i < list.size(); ++i) {
    const Json& merge = list.value()[i];
    if (merge.is_string() && merge.get_ref<const std::string&>().starts_with("#version")) continue;
    const auto [left, right] = merge_halves(list, i);
    add(left, right, [&] { return dump_json(merge, -1); });
  }
  return merges;
}

}  // namespace

ReadModel make_bpe(Vocabulary vocabulary, std::vector<BpeMerge> merges, BpeOptions options,
                   bool spells_bytes) {
  auto model =
      std::make_unique<BpeModel>(std::move(vocabulary), std::move(merges), std::move(options), spells_bytes);
  const bool reads_bytes = model->reads_bytes();
  return {std::move(model), reads_bytes};
}

ReadModel read_bpe(const JsonAt& json, bool spells_bytes) {
  BpeOptions options;
  const auto text = [&](const char* key) {
    return json.has(key) ? std::optional(json.text(key)) : std::nullopt;
  };
  options.unknown = text("unk_token");
  options.prefix = text("continuing_subword_prefix");
  options.suffix = text("end_of_word_suffix");
  options.fuse_unknown = json.flag("fuse_unk", false);
  options.byte_fallback = json.flag("byte_fallback", false);
  options.ignore_merges = json.flag("ignore_merges", false);
  options.refuse_unknown = json.flag("refuse_unknown", false);
  if (json.has("dropout")) {
    const Json& dropout = json.value()["dropout"];
    if (!dropout.is_number() || dropout.get<double>() < 0 || dropout.get<double>() > 1)
      json.wrong("dropout", "a number from 0 to 1");
    options.dropout = dropout.get<double>();
  }
  Vocabulary vocabulary = read_vocabulary(json);
  std::vector<BpeMerge> merges = read_merges(json, vocabulary, options.prefix.value_or("").size());
  return make_bpe(std::move(vocabulary), std::move(merges), std::move(options), spells_bytes);
}

}  // namespace plumb
