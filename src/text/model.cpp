#include "text/model.h"

#include <fmt/format.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "text/bpe_model.h"
#include "text/sentencepiece.h"

namespace plumb {

namespace {

constexpr std::string_view kMark = "\u2581";  // of a blank

// The next mark behind `begin` that follows something else, or the end.
size_t next_part(std::string_view piece, size_t begin) {
  for (size_t i = piece.find(kMark, begin); i != std::string_view::npos;
       i = piece.find(kMark, i + kMark.size())) {
    if (i > begin && !piece.substr(begin, i - begin).ends_with(kMark)) return i;
  }
  return piece.size();
}

}  // namespace

void TokenModel::cut_at_marks() {
  cuts_at_marks_ = vocabulary_.find(kMark) >= 0;
  for (size_t id = 0; cuts_at_marks_ && id < vocabulary_.size(); ++id) {
    const std::string& token = vocabulary_.token(static_cast<int32_t>(id));
    cuts_at_marks_ = next_part(token, 0) == token.size();
  }
}

void TokenModel::encode_ids(std::string_view piece, std::vector<int32_t>& out) const {
  if (!cuts_at_marks_) return part_ids(piece, out);
  for (size_t begin = 0, end = 0; begin < piece.size(); begin = end) {
    end = next_part(piece, begin);
    part_ids(piece.substr(begin, end - begin), out);
  }
}

void TokenModel::part_ids(std::string_view piece, std::vector<int32_t>& out) const {
  if (piece.size() > WordSlot::kMostBytes || forgets()) return find_ids(piece, out);
  WordSlot& slot = word_slot(owner_, piece);
  if (slot.holds(owner_, piece)) {
    const auto known = slot.ids();
    out.insert(out.end(), known.begin(), known.end());
    return;
  }
  const size_t first = out.size();
  find_ids(piece, out);
  slot.fill(owner_, piece, std::span(out).subspan(first));
}

void TokenModel::find_ids(std::string_view piece, std::vector<int32_t>& out) const {
  thread_local std::vector<ModelToken> tokens;
  tokens.clear();
  encode(piece, tokens);
  for (const ModelToken& token : tokens) out.push_back(token.id);
}

std::string vocabulary_json(const Vocabulary& vocabulary) {
  std::string text = "{";
  const char* separator = "\n";
  for (size_t id = 0; id < vocabulary.size(); ++id) {
    const std::string& token = vocabulary.token(static_cast<int32_t>(id));
    if (token.empty()) continue;
    text += fmt::format("{}      {}: {}", separator, quote_json(token), id);
    separator = ",\n";
  }
  return text + "\n    }";
}

Vocabulary read_vocabulary(const JsonAt& json) {
  const JsonAt vocab = json.object("vocab");
  const auto& rows = json.rows().ids;
  const size_t count = vocab.size() + rows.size();
  // Ids may have gaps, but not so many that a small file could ask for all memory.
  const uint64_t most = 2 * count + 1024;
  Vocabulary result;
  result.reserve(count);
  const auto add = [&](const std::string& token, uint64_t id) {
    if (id > most)
      vocab.malformed(fmt::format("{} has id {} in a vocabulary of {}", quote_json(token), id, count));
    if (token.empty()) vocab.malformed("the vocabulary has an empty token");
    const auto number = static_cast<int32_t>(id);
    if (result.has(number)) {
      vocab.malformed(fmt::format("{} and {} have the same id {}", quote_json(result.token(number)),
                                  quote_json(token), number));
    }
    result.add(number, token);
  };
  for (size_t i = 0; i < rows.size(); ++i) {
    add(rows[i].first, static_cast<uint64_t>(rows[i].second));
    if (result.count() != i + 1) vocab.malformed(fmt::format("the key \"{}\" is given twice", rows[i].first));
  }
  for (const auto& [token, id] : vocab.value().items()) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() > std::numeric_limits<int32_t>::max()) {
      vocab.malformed(fmt::format("the id of {} is {}, expected a whole number from 0", quote_json(token),
                                  dump_json(id, -1)));
    }
    add(token, id.get<uint64_t>());
  }
  return result;
}

// Files of versions that wrote no type have the keys of one.
static std::string type_of(const JsonAt& json) {
  if (json.has("type")) return json.text("type");
  if (json.has("merges")) return "BPE";
  if (json.has("max_input_chars_per_word")) return "WordPiece";
  if (json.has("vocab") && json.value()["vocab"].is_array()) return "Unigram";
  if (json.has("unk_token")) return "WordLevel";
  json.malformed("a model without a type");
}

ReadModel read_model(const JsonAt& json, bool spells_bytes) {
  const std::string type = type_of(json);
  if (json.has("sentencepiece")) return {read_sentencepiece_model(json)};
  if (type == "BPE") return read_bpe(json, spells_bytes);
  if (type == "Unigram") return {read_unigram(json)};
  if (type == "WordPiece") return {read_wordpiece(json)};
  if (type == "WordLevel") return {read_wordlevel(json)};
  json.unknown("model", type);
}

}  // namespace plumb
