// Cases from public bug reports of tokenizers (their numbers are those of the reference data's list).
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/json.h"
#include "base/test_support.h"
#include "plumb/tokenizer_trainer.h"

namespace plumb {
namespace {

using Tokens = std::vector<std::string>;

Tokenizer tokenizer_of(const Json& json) {
  const TempFolder folder;
  write_file_atomically(folder / "tokenizer.json", dump_json(json));
  return Tokenizer::load(folder / "tokenizer.json");
}

Tokens tokens_of(const Tokenizer& t, std::string_view text) {
  return t.encode_input({text}, {.tokens = true}).tokens;
}

Json scores(const std::vector<std::pair<std::string, double>>& list) {
  Json j = Json::array();
  for (const auto& [text, score] : list) j.push_back(Json::array({text, score}));
  return j;
}

// ggml-org/llama.cpp#28862, huggingface/transformers#28096
Tokenizer unigram(bool fallback) {
  std::vector<std::pair<std::string, double>> pieces = {{"<unk>", 0}, {"▁this", -2}, {"▁is", -2}, {"▁", -3},
                                                        {".", -4},    {"cpp", -4},   {"<", -5},   {"0", -5},
                                                        {"x", -5},    {"A", -5},     {">", -5}};
  for (int byte = 0; byte < 256; ++byte) {
    char name[8];
    std::snprintf(name, sizeof name, "<0x%02X>", static_cast<unsigned>(byte));
    pieces.emplace_back(name, -100);
  }
  return tokenizer_of(
      {{"version", "1.0"},
       {"pre_tokenizer",
        {{"type", "Metaspace"}, {"replacement", "▁"}, {"prepend_scheme", "never"}, {"split", true}}},
       {"decoder",
        {{"type", "Sequence"},
         {"decoders",
          {{{"type", "Replace"}, {"pattern", {{"String", "▁"}}}, {"content", " "}},
           {{"type", "ByteFallback"}},
           {{"type", "Fuse"}}}}}},
       {"model",
        {{"type", "Unigram"}, {"unk_id", 0u}, {"byte_fallback", fallback}, {"vocab", scores(pieces)}}}});
}

TEST(Cases, B51UnigramFallsBackOnBytes) {
  const Tokenizer with = unigram(true), without = unigram(false);
  EXPECT_EQ(tokens_of(with, " this is 🦙.cpp"),
            (Tokens{"▁this", "▁is", "▁", "<0xF0>", "<0x9F>", "<0xA6>", "<0x99>", ".", "cpp"}));
  EXPECT_EQ(tokens_of(with, "\n\t\n"), (Tokens{"<0x0A>", "<0x09>", "<0x0A>"}));
  for (const std::string text : {" this is 🦙.cpp", "\n\t\n", "é", "<0x0A>"})
    EXPECT_EQ(with.decode(with.encode(text)), text);
  const Tokens unknown = tokens_of(without, " this is 🦙.cpp");
  EXPECT_EQ(unknown, (Tokens{"▁this", "▁is", "▁", "🦙", ".", "cpp"}));
  EXPECT_EQ(without.encode(" 🦙")[1], 0) << "one unknown";
  EXPECT_EQ(tokens_of(with, "<0x0A>"), (Tokens{"<", "0", "x", "0", "A", ">"})) << "text, not a byte";
}

TEST(Cases, B51ATrainedUnigramFallsBackOnBytes) {
  const TempFolder folder;
  write_file_atomically(folder / "text", "a byte is written <0x0A> here and there, as this is <0x0A>\n");
  const Tokenizer t = train_tokenizer(
      {folder / "text"},
      {.kind = TokenizerKind::unigram, .vocab_size = 340, .normalizer = "none", .byte_fallback = true});
  for (const std::string text : {"this is 🦙", "there, <0x0A>", "\n\t\n", "<s> is text"})
    EXPECT_EQ(t.decode(t.encode(text)), text);
  for (const std::string& token : tokens_of(t, "there <0x0A>")) EXPECT_NE(token, "<0x0A>");
}

// ztxz16/fastllm#715
Tokenizer bpe(const Tokens& letters, const std::vector<std::pair<std::string, std::string>>& merges) {
  Json vocab = Json::object(), list = Json::array();
  const auto add = [&](const std::string& token) {
    if (!vocab.contains(token)) vocab[token] = vocab.size();
  };
  for (const std::string& letter : letters) add(letter);
  for (const auto& [left, right] : merges) {
    add(left + right);
    list.push_back(Json::array({left, right}));
  }
  return tokenizer_of({{"version", "1.0"}, {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", list}}}});
}

TEST(Cases, B55MergesByRankNotLeftToRight) {
  EXPECT_EQ(tokens_of(bpe({"a", "b", "c"}, {{"b", "c"}, {"a", "b"}}), "abc"), (Tokens{"a", "bc"}));
  EXPECT_EQ(tokens_of(bpe({"a"}, {{"a", "a"}}), "aaa"), (Tokens{"aa", "a"})) << "of equals the leftmost";
  // Those of GPT-2's merges that can stand in the word, in its order.
  const Tokenizer gpt2 = bpe({"b", "r", "u", "t", "a", "l", "i", "s"}, {{"i", "s"},
                                                                        {"a", "l"},
                                                                        {"s", "t"},
                                                                        {"u", "t"},
                                                                        {"is", "t"},
                                                                        {"r", "u"},
                                                                        {"b", "r"},
                                                                        {"l", "i"},
                                                                        {"l", "ist"},
                                                                        {"al", "i"},
                                                                        {"t", "a"},
                                                                        {"al", "is"},
                                                                        {"l", "is"},
                                                                        {"ut", "a"},
                                                                        {"t", "al"},
                                                                        {"al", "ist"}});
  EXPECT_EQ(tokens_of(gpt2, "brutalist"), (Tokens{"br", "ut", "alist"}));
}

// ggml-org/llama.cpp#5496, huggingface/tokenizers#576 and #215, huggingface/transformers#5738
Tokenizer bert(bool lowercase, const Tokens& words) {
  Json vocab = {{"[UNK]", 0u}};
  for (const std::string& word : words) vocab[word] = vocab.size();
  return tokenizer_of({{"version", "1.0"},
                       {"normalizer",
                        {{"type", "BertNormalizer"},
                         {"clean_text", true},
                         {"handle_chinese_chars", true},
                         {"strip_accents", nullptr},
                         {"lowercase", lowercase}}},
                       {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
                       {"model",
                        {{"type", "WordPiece"},
                         {"unk_token", "[UNK]"},
                         {"continuing_subword_prefix", "##"},
                         {"max_input_chars_per_word", 100u},
                         {"vocab", vocab}}}});
}

TEST(Cases, B56AccentsAndMarks) {
  const Tokenizer uncased = bert(true, {"kanto", "lushi", "ハ"});
  EXPECT_EQ(tokens_of(uncased, "Kantō lǜshi バ"), (Tokens{"kanto", "lushi", "ハ"}));
  const Tokenizer cased = bert(false, {"a", "##\u0301", "á"});
  EXPECT_EQ(tokens_of(cased, "a\u0301"), (Tokens{"a", "##\u0301"})) << "as written, nothing composed";
  EXPECT_EQ(tokens_of(cased, "á"), Tokens{"á"});
}

TEST(Cases, B56PrivateUseIsDropped) {  // as by the `tokenizers` package; Google's code keeps it
  EXPECT_EQ(tokens_of(bert(true, {"word"}), "\uF059word"), Tokens{"word"});
  EXPECT_EQ(tokens_of(bert(true, {"word"}), std::string("wo\0rd", 5) + "\uFFFD"), Tokens{"word"});
}

TEST(Cases, B56LongAndUnknownWords) {
  const Tokenizer t = bert(true, {"a", "##a", "b"});
  EXPECT_EQ(tokens_of(t, std::string(100, 'a')).size(), 100u);
  EXPECT_EQ(tokens_of(t, std::string(101, 'a')), Tokens{"[UNK]"});
  EXPECT_EQ(tokens_of(t, "aax b aa"), (Tokens{"[UNK]", "b", "a", "##a"})) << "the whole word is unknown";
}

TEST(Cases, B56IdeographsAreWordsKanaAreNot) {
  const Tokenizer t = bert(true, {"漢", "字", "かな"});
  EXPECT_EQ(tokens_of(t, "漢字かな"), (Tokens{"漢", "字", "かな"}));
}

}  // namespace
}  // namespace plumb
