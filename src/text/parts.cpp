#include "text/parts.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "plumb/error.h"

namespace plumb {

void set_part(Tokenizer::Impl& impl, const char* name, const OrderedJson& value) {
  const std::string file = std::string("the ") + name;
  const Json parsed = parse_json(dump_json(value, -1), file);
  impl.set_part(name, JsonAt(parsed, file));
}

void set_byte_level(Tokenizer::Impl& impl, const ByteLevelParts& parts) {
  const OrderedJson bytes = {{"type", "ByteLevel"},
                             {"add_prefix_space", parts.add_prefix_space},
                             {"trim_offsets", true},
                             {"use_regex", parts.patterns.empty()}};
  set_part(impl, "decoder", bytes);
  if (parts.patterns.empty()) return set_part(impl, "pre_tokenizer", bytes);
  OrderedJson steps = OrderedJson::array();
  for (const std::string& pattern : parts.patterns) {
    steps.push_back(
        {{"type", "Split"}, {"pattern", {{"Regex", pattern}}}, {"behavior", "Isolated"}, {"invert", false}});
  }
  steps.push_back(bytes);
  set_part(impl, "pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", steps}});
}

void set_bpe(Tokenizer::Impl& impl, Vocabulary vocabulary, std::vector<BpeMerge> merges,
             const BpeOptions& options) {
  ReadModel made =
      make_bpe(std::move(vocabulary), std::move(merges), options, impl.pre_tokenizer.spells_bytes);
  impl.model = std::move(made.model);
  impl.reads_bytes = made.reads_bytes;
}

namespace {

// A template for one text and for two.
class Templates {
 public:
  explicit Templates(const Vocabulary& vocabulary) : vocabulary_(vocabulary) {}
  void token(std::optional<int32_t> id, int type, bool in_single) {
    if (!id) return;
    const std::string& token = vocabulary_.token(*id);
    special_[token] = {{"id", token}, {"ids", {*id}}, {"tokens", {token}}};
    put({{"SpecialToken", {{"id", token}, {"type_id", type}}}}, in_single);
  }
  void text(const char* text, int type, bool in_single) {
    put({{"Sequence", {{"id", text}, {"type_id", type}}}}, in_single);
  }
  void set(Tokenizer::Impl& impl) const {
    set_part(
        impl, "post_processor",
        {{"type", "TemplateProcessing"}, {"single", single_}, {"pair", pair_}, {"special_tokens", special_}});
  }

 private:
  void put(const OrderedJson& slot, bool in_single) {
    if (in_single) single_.push_back(slot);
    pair_.push_back(slot);
  }
  const Vocabulary& vocabulary_;
  OrderedJson single_ = OrderedJson::array(), pair_ = OrderedJson::array(), special_ = OrderedJson::object();
};

}  // namespace

void set_ends(Tokenizer::Impl& impl, std::optional<int32_t> bos, std::optional<int32_t> eos) {
  if (!bos && !eos) return;
  Templates templates(impl.model->vocabulary());
  templates.token(bos, 0, true);
  templates.text("A", 0, true);
  templates.token(eos, 0, true);
  templates.text("B", 1, false);
  templates.token(eos, 1, false);
  templates.set(impl);
}

void set_bert_ends(Tokenizer::Impl& impl, int32_t cls, int32_t sep) {
  set_ends(impl, cls, sep);
  set_part(impl, "decoder", {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}});
}

BpeMerge read_merge(std::string_view text, const Vocabulary& vocabulary, const std::string& where) {
  const size_t space = text.find(' ', 1);
  const auto fail = [&](const std::string& what) {
    throw Error(ErrorKind::file,
                fmt::format("{}: the merge {} {}", where, quote_json(text.substr(0, 80)), what));
  };
  if (space == std::string_view::npos || space + 1 == text.size()) fail("is no pair of tokens");
  const std::string left(text.substr(0, space)), right(text.substr(space + 1));
  const auto id_of = [&](const std::string& token) {
    const int32_t id = vocabulary.find(token);
    if (id < 0) fail(fmt::format("needs the token {}, which the vocabulary lacks", quote_json(token)));
    return id;
  };
  return {id_of(left), id_of(right), id_of(left + right)};
}

}  // namespace plumb
