#include "text/tokenizer_files.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>

#include "base/file.h"
#include "base/json.h"
#include "base/random.h"
#include "base/test_support.h"
#include "plumb/tokenizer.h"
#include "text/byte_level.h"
#include "text/charsmap.h"

namespace plumb {
namespace {

using namespace std::string_literals;

std::string varint(uint64_t value) {
  std::string out;
  for (; value >= 128; value >>= 7) out += static_cast<char>(value | 128);
  return out + static_cast<char>(value);
}
std::string number(int field, uint64_t value) {
  return varint(static_cast<uint64_t>(field) << 3) + varint(value);
}
std::string bytes(int field, const std::string& content) {
  return varint(static_cast<uint64_t>(field) << 3 | 2) + varint(content.size()) + content;
}
std::string score(float value) {
  std::string out = varint(2 << 3 | 5) + "....";
  std::memcpy(out.data() + 1, &value, 4);
  return out;
}
std::string piece(const std::string& text, float value, int type = 1) {
  return bytes(1, bytes(1, text) + score(value) + number(3, static_cast<uint64_t>(type)));
}

template <typename Number>
std::string raw(Number value) {
  std::string out(sizeof value, '\0');
  std::memcpy(out.data(), &value, sizeof value);
  return out;
}
std::string counted(const std::string& text) {
  return raw(uint64_t{text.size()}) + text;
}
std::string gguf_text(const std::string& key, const std::string& value) {
  return counted(key) + raw(uint32_t{8}) + counted(value);
}
std::string gguf_texts(const std::string& key, const std::vector<std::string>& values) {
  std::string out = counted(key) + raw(uint32_t{9}) + raw(uint32_t{8}) + raw(uint64_t{values.size()});
  for (const std::string& value : values) out += counted(value);
  return out;
}
std::string gguf(uint64_t keys, const std::string& content) {
  return "GGUF" + raw(uint32_t{3}) + raw(uint64_t{0}) + raw(keys) + content;
}

class TokenizerFilesTest : public testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& content) const {
    write_file_atomically(folder_ / name, content);
    return folder_ / name;
  }
  std::string refused(const std::string& name, const std::string& content,
                      ErrorKind kind = ErrorKind::file) const {
    const std::string path = write(name, content);
    const std::string message = error_of(kind, [&] { Tokenizer::load(path); });
    EXPECT_EQ(message.find(folder_.str()), 0u) << message;
    return message.substr(std::min(folder_.str().size() + 1, message.size()));
  }
  TempFolder folder_;
};

const std::string kUnknown = piece("<unk>", 0, 2);

TEST_F(TokenizerFilesTest, SentencePieceUnigram) {
  // "ab" costs less than "a" and "b"; "<s>" in a text is not the control piece; "c" is unknown, twice in a
  // row.
  const Tokenizer tokenizer = Tokenizer::load(
      write("tokenizer.model", kUnknown + piece("<s>", 0, 3) + piece("\u2581", -2) + piece("a", -3) +
                                   piece("b", -3) + piece("ab", -5) + piece("XY", 0, 4) + piece("u", -1, 5)));
  EXPECT_EQ(tokenizer.encode(" ab  a "), (std::vector<int32_t>{2, 5, 2, 3}));
  EXPECT_EQ(tokenizer.encode("acc<s>"), (std::vector<int32_t>{2, 3, 0}));
  EXPECT_EQ(tokenizer.encode("aXYu"), (std::vector<int32_t>{2, 3, 6, 0}));
  EXPECT_EQ(tokenizer.decode(std::vector<int32_t>{1, 2, 5, 2, 3, 0}), "ab a \u2047 ");
  EXPECT_EQ(tokenizer.special(TokenRole::bos), 1);
  EXPECT_EQ(tokenizer.special(TokenRole::unk), 0);
  EXPECT_EQ(tokenizer.encode_input({"a"}).ids, (std::vector<int32_t>{1, 2, 3}));
  EXPECT_TRUE(tokenizer.encode("  ").empty());
}

TEST_F(TokenizerFilesTest, SentencePieceBpe) {
  // The best score is joined first, of equals the leftmost; an unused piece falls back into what it was made
  // of; nothing is joined to a user-defined piece.
  const std::string trainer = bytes(2, number(3, 2)), rules = bytes(3, number(3, 0) + number(4, 0));
  std::string pieces = kUnknown;
  for (const char* c : {"a", "b", "c", "\u2581"}) pieces += piece(c, -10);
  pieces += piece("bc", -1) + piece("ab", -2) + piece("cc", -3, 5) + piece("aca", 0, 4) + piece("bb", -4);
  const Tokenizer tokenizer = Tokenizer::load(write("spm.model", pieces + trainer + rules));
  EXPECT_EQ(tokenizer.encode("abc"), (std::vector<int32_t>{1, 5}));
  EXPECT_EQ(tokenizer.encode("bbb"), (std::vector<int32_t>{9, 2}));
  EXPECT_EQ(tokenizer.encode("cc a"), (std::vector<int32_t>{3, 3, 4, 1}));
  EXPECT_EQ(tokenizer.encode("bacab"), (std::vector<int32_t>{2, 8, 2}));
}

TEST_F(TokenizerFilesTest, BertVocabulary) {
  const std::string path = write("vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\nhe\n##llo\r\nHe\nwo\n");
  EXPECT_EQ(Tokenizer::load(path).encode_input({"Hello x"}).ids, (std::vector<int32_t>{2, 4, 5, 1, 3}));
  write("tokenizer_config.json", R"({"do_lower_case": false, "unk_token": "[UNK]"})");
  const Tokenizer cased = Tokenizer::load(folder_.str());
  EXPECT_EQ(cased.encode("Hello"), (std::vector<int32_t>{6, 5}));
  EXPECT_EQ(cased.special(TokenRole::unk), 1);
}

std::string rank_lines() {
  std::string lines;
  for (int byte = 0; byte < 256; ++byte)
    lines += encode_base64(std::string(1, static_cast<char>(byte))) + " " + std::to_string(byte) + "\n";
  return lines;
}

TEST_F(TokenizerFilesTest, Ranks) {
  // The lowest rank first, whatever it is made of: "bc" before "ab".
  const std::string lines = rank_lines() + "YmM= 256\nYWI= 257\nIGFiYw== 258\n";
  const Tokenizer tokenizer = Tokenizer::load(write("r50k_base.tiktoken", lines));
  EXPECT_EQ(tokenizer.encode("abc"), (std::vector<int32_t>{'a', 256}));
  EXPECT_EQ(tokenizer.encode("x abc"), (std::vector<int32_t>{'x', 258}));  // a whole word
  EXPECT_EQ(tokenizer.encode("<|endoftext|>", true), std::vector<int32_t>{50256});
  EXPECT_EQ(refused("other.tiktoken", lines, ErrorKind::unsupported).substr(0, 52),
            "other.tiktoken: ranks alone do not say how a text is");
  write("tokenizer_config.json", R"({"pat_str": "a|b|c"})");
  EXPECT_EQ(Tokenizer::load(folder_ / "other.tiktoken").encode("abc"), (std::vector<int32_t>{'a', 'b', 'c'}));
}

// 256 bytes and `more` tokens behind 3 special ones.
std::string tekken(const std::string& more, const std::string& special) {
  std::string entries;
  for (int byte = 0; byte < 256; ++byte)
    entries += fmt::format(R"({}{{"rank": {}, "token_bytes": "{}"}})", byte == 0 ? "" : ", ", byte,
                           encode_base64(std::string(1, static_cast<char>(byte))));
  return R"({"vocab": [)" + entries + more + R"(], "config": {"pattern": "\\w+|\\W",
      "default_vocab_size": 260, "default_num_special_tokens": 3}, "special_tokens": [)" +
         special + "]}";
}

TEST_F(TokenizerFilesTest, Tekken) {
  const std::string ab = R"(, {"rank": 256, "token_bytes": "YWI="})";
  const auto names = [](const char* name) {
    return fmt::format(R"({{"token_str": "<unk>"}}, {{"token_str": "<s>"}}, {{"token_str": "{}"}})", name);
  };
  const Tokenizer tokenizer = Tokenizer::load(write("tekken.json", tekken(ab, names("</s>"))));
  EXPECT_EQ(tokenizer.encode("abb"), (std::vector<int32_t>{259, 'b' + 3}));
  EXPECT_EQ(tokenizer.special(TokenRole::eos), 2);
  const auto refusal = [&](const char* name) { return refused("tekken.json", tekken(ab, names(name))); };
  EXPECT_EQ(refusal("<s>"), R"(tekken.json: the special tokens 1 and 2 are both "<s>")");
  EXPECT_EQ(refusal("ab"), R"(tekken.json: the token of rank 256 and the special token 2 are both "ab")");
  EXPECT_EQ(refusal(""), "tekken.json: the special token 2 is empty");
}

TEST_F(TokenizerFilesTest, VocabularyAndMergesHaveAnEndOfText) {
  std::string vocabulary;
  for (int byte = 0; byte < 256; ++byte)
    vocabulary +=
        quote_json(spell_bytes(std::string(1, static_cast<char>(byte)))) + ": " + std::to_string(byte) + ",";
  const std::string path = write("vocab.json", "{" + vocabulary + R"("ab": 256})");
  write("merges.txt", "#version: 0.2\na b\n");
  const Tokenizer behind = Tokenizer::load(path);
  EXPECT_EQ(behind.encode("ab<|endoftext|>", true).back(), 257);
  EXPECT_EQ(behind.special(TokenRole::eos), 257);
  write("vocab.json", "{" + vocabulary + R"("ab": 257, "<|endoftext|>": 256})");
  EXPECT_EQ(Tokenizer::load(path).encode("ab<|endoftext|>", true).back(), 256);
}

TEST_F(TokenizerFilesTest, FoldersInOrder) {
  EXPECT_NE(error_of(ErrorKind::file, [&] { Tokenizer::load(folder_.str()); }).find("there is no tokenizer"),
            std::string::npos);
  write("vocab.txt", "[UNK]\n[CLS]\n[SEP]\nab\n");
  EXPECT_EQ(Tokenizer::load(folder_.str()).vocab_size(), 4);
  write("tokenizer.model", kUnknown + piece("a", -1));
  EXPECT_EQ(Tokenizer::load(folder_.str()).vocab_size(), 2);
  Tokenizer::bytes().save(folder_.str());
  EXPECT_EQ(Tokenizer::load(folder_.str()).vocab_size(), 259);
}

TEST_F(TokenizerFilesTest, RefusesMalformedSentencePiece) {
  const auto model = [&](const std::string& content) { return refused("x.model", content); };
  EXPECT_EQ(model("\n\xFF"), "x.model: the file ends inside a number (field 1, at byte 2)");
  EXPECT_EQ(model("\n\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x7F"s + "abc"),
            "x.model: 9223372036854775807 bytes are declared, of which 3 are there (field 1, at byte 10)");
  EXPECT_EQ(model(piece("a", 0)), "x.model: none of the pieces is the unknown one");
  EXPECT_EQ(model(kUnknown + piece("a", 0) + piece("a", 0)), "x.model: piece 2 (\"a\") is piece 1 too");
  EXPECT_EQ(model(kUnknown + piece("", 0)), "x.model: piece 1 (\"\") is empty");
  EXPECT_EQ(model(kUnknown + piece("\xFF", 0)), "x.model: piece 1 (\"\uFFFD\") is not UTF-8");
  EXPECT_EQ(model(kUnknown + piece("a", 0, 9)), "x.model: piece 1 has type 9, expected 1 to 6");
  EXPECT_EQ(model(kUnknown + piece("a", std::nanf(""))),
            "x.model: piece 1 (\"a\") has a score that is no number");
  EXPECT_EQ(model(kUnknown + kUnknown.substr(0)), "x.model: piece 1 (\"<unk>\") is piece 0 too");
  EXPECT_EQ(model(kUnknown + bytes(2, number(35, 1))),
            "x.model: the piece <0x00> is missing, which unknown characters fall back to");
  EXPECT_EQ(model(kUnknown + number(2, 1)),
            "x.model: a value of another kind than expected (field 2, at byte 17)");
  EXPECT_EQ(
      refused("x.model", kUnknown + bytes(2, number(3, 3)), ErrorKind::unsupported),
      "x.model: a SentencePiece model of type 3; this build reads unigram (1), BPE (2) and characters (4)");
}

TEST_F(TokenizerFilesTest, RefusesMalformedGguf) {
  const auto file = [&](const std::string& content) { return refused("x.gguf", content); };
  EXPECT_EQ(file("GGUF\3"), "x.gguf: the file ends here (at byte 4)");
  EXPECT_EQ(file(gguf(1, "")), "x.gguf: the file ends here (at byte 24)");
  EXPECT_EQ(file(gguf(1, raw(~uint64_t{0}))),
            "x.gguf: a text of 18446744073709551615 bytes, of which the file has 0 (at byte 32)");
  EXPECT_EQ(file(gguf(1, counted("k") + raw(uint32_t{9}) + raw(uint32_t{0}) + raw(uint64_t{1} << 60))),
            "x.gguf: \"k\": a list of 1152921504606846976 values, for which 0 bytes are there (at byte 49)");
  EXPECT_EQ(file(gguf(1, counted("k") + raw(uint32_t{77}))),
            "x.gguf: \"k\": a value of type 77, which is not known (at byte 37)");
  EXPECT_EQ(file(gguf(2, gguf_text("k", "") + gguf_text("k", ""))),
            "x.gguf: \"k\": the key stands there twice (at byte 54)");
  EXPECT_EQ(file(gguf(0, "")), "x.gguf: there is no tokenizer in this GGUF");
  const std::string model = gguf_text("tokenizer.ggml.model", "gpt2");
  EXPECT_EQ(file(gguf(1, model)), "x.gguf: \"tokenizer.ggml.tokens\" is missing or no list");
  const std::string tokens = gguf_texts("tokenizer.ggml.tokens", {"a", "b"});
  EXPECT_EQ(file(gguf(3, model + tokens + gguf_texts("tokenizer.ggml.merges", {"a c"}))),
            "x.gguf: tokenizer.ggml.merges[0]: the merge \"a c\" needs the token \"c\", which the vocabulary "
            "lacks");
  EXPECT_EQ(refused("x.gguf", gguf(3, model + tokens + gguf_text("tokenizer.ggml.pre", "new")),
                    ErrorKind::unsupported),
            "x.gguf: tokenizer.ggml.pre: how \"new\" cuts a text is not known to this build");
  EXPECT_EQ(
      refused("x.gguf", gguf(2, gguf_text("tokenizer.ggml.model", "rwkv") + tokens), ErrorKind::unsupported),
      "x.gguf: tokenizer.ggml.model: a tokenizer of the kind \"rwkv\" is not known");
}

TEST_F(TokenizerFilesTest, RefusesMalformedText) {
  const auto ranks = [&](const std::string& more) {
    return refused("r50k_base.tiktoken", rank_lines() + more);
  };
  EXPECT_EQ(ranks("YWI=\n"),
            "r50k_base.tiktoken: line 257: expected a token in base64, a blank and its rank");
  EXPECT_EQ(ranks("YW 256\n"), "r50k_base.tiktoken: line 257: 2 characters are no base64");
  EXPECT_EQ(ranks("YWI= 3\n"), "r50k_base.tiktoken: line 257: rank 3 for a second time");
  EXPECT_EQ(ranks("YQ== 256\n"), "r50k_base.tiktoken: line 257: the token of rank 97 too");
  EXPECT_EQ(ranks("YWI= 99999999999\n"),
            "r50k_base.tiktoken: line 257: rank 99999999999 in a file of 769 tokens");
  EXPECT_EQ(refused("r50k_base.tiktoken", "AA== 0\n"), "r50k_base.tiktoken: the byte 0x01 has no rank");
  EXPECT_EQ(refused("vocab.txt", "[UNK]\n[CLS]\n[UNK]\n"), "vocab.txt: line 3: \"[UNK]\" is line 1 too");
  EXPECT_EQ(refused("vocab.txt", "[UNK]\n\n"), "vocab.txt: line 2 is empty, expected a token");
  EXPECT_EQ(refused("vocab.txt", "a\n"), "vocab.txt: no line is \"[UNK]\"");
  EXPECT_EQ(refused("vocab.txt", "\xFF\n"), "vocab.txt: not UTF-8: byte 0xff at offset 0");
  EXPECT_EQ(refused("vocab.json", R"({"a": 0})"), "vocab.json: there is no merges.txt beside it");
  write("merges.txt", "#version: 0.2\na b\n");
  const std::string path = write("vocab.json", R"({"a": 0, "b": 1})");
  EXPECT_EQ(error_of(ErrorKind::file, [&] { Tokenizer::load(path); }),
            folder_ / "merges.txt" +
                ": line 2: the merge \"a b\" needs the token \"ab\", which the vocabulary lacks");
  EXPECT_EQ(refused("vocab.json", R"({"a": 0, "b": 1, "ab": 2})", ErrorKind::unsupported).substr(0, 60),
            "vocab.json: the vocabulary lacks some of the 256 bytes that ");
}

// Cut anywhere or with any byte changed: an error or a tokenizer that works, never a crash.
TEST_F(TokenizerFilesTest, DamagedFilesDoNoHarm) {
  const std::string model = kUnknown + piece("<s>", 0, 3) + piece("a", -1) + piece("ab", -2) +
                            bytes(2, number(3, 2) + number(35, 0)) + bytes(3, number(4, 1));
  const std::string file = gguf(3, gguf_text("tokenizer.ggml.model", "gpt2") +
                                       gguf_texts("tokenizer.ggml.tokens", {"a", "b", "ab"}) +
                                       gguf_texts("tokenizer.ggml.merges", {"a b"}));
  const auto try_it = [&](const std::string& name, const std::string& content) {
    try {
      Tokenizer::load(write(name, content)).encode("ab a\u2581 cab");
    } catch (const Error&) {
      return;
    }
  };
  for (const auto& [name, whole] : {std::pair{"x.model"s, model}, {"x.gguf"s, file}}) {
    for (size_t i = 0; i < whole.size(); i += 3) {
      try_it(name, whole.substr(0, i));
      std::string damaged = whole;
      damaged[i] = static_cast<char>(random_u64({7, 0}, i));
      try_it(name, damaged);
    }
  }
}

}  // namespace
}  // namespace plumb
