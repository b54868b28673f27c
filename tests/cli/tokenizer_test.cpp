// plumb tokenizer: its subcommands from end to end.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "plumb/tokenizer_trainer.h"
#include "support/files.h"
#include "support/process.h"

namespace plumb::test {
namespace {

using nlohmann::json;

class TokenizerCommand : public testing::Test {
 protected:
  // BERT's kind: [PAD] 0, [UNK] 1, [CLS] 2, [SEP] 3, [MASK] 4, then the characters.
  std::string words() const {
    write_file(folder_ / "text", "the cat sat on the mat and the cat ate the rat ");
    const std::string path = folder_ / "words.json";
    train_tokenizer({folder_ / "text"}, {.kind = TokenizerKind::wordpiece, .vocab_size = 60}).save(path);
    return path;
  }
  std::string bytes() const {
    Tokenizer::bytes().save(folder_ / "bytes");
    return folder_ / "bytes";
  }
  ProcessResult run(std::vector<std::string> arguments, const std::string& input = "") const {
    arguments.insert(arguments.begin(), "tokenizer");
    return run_plumb(arguments, {.input = input});
  }
  std::string out(const std::vector<std::string>& arguments, const std::string& input = "") const {
    const ProcessResult result = run(arguments, input);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.out;
  }
  void refused(const std::vector<std::string>& arguments, int code, const std::string& says,
               const std::string& input = "") const {
    const ProcessResult result = run(arguments, input);
    EXPECT_TRUE(is_one_line_error(result, code)) << result.exit_code << " " << result.err;
    EXPECT_NE(result.err.find(says), std::string::npos) << result.err;
  }
  TempFolder folder_;
};

TEST_F(TokenizerCommand, EncodesTextsLinesAndFiles) {
  const std::string b = bytes();
  EXPECT_EQ(out({"encode", b, "ab", "é"}), "97 98\n195 169\n");
  EXPECT_EQ(out({"encode", b}, "ab\n\nc"), "97 98\n\n99\n");
  write_file(folder_ / "file", "a\nb\n");
  EXPECT_EQ(out({"encode", b, "--file", folder_ / "file"}), "97 10 98 10\n");
  EXPECT_EQ(out({"encode", b, "--from-json"}, "\"a\\nb\"\n[\"a\"]\n{\"text\": \"c\"}\n"),
            "97 10 98\n97\n99\n");
}

TEST_F(TokenizerCommand, SpecialTokensInTextAreTextUnlessAskedFor) {
  const std::string b = bytes();
  EXPECT_EQ(out({"encode", b, "<|pad|>"}), "60 124 112 97 100 124 62\n");
  EXPECT_EQ(out({"encode", b, "--parse-special", "<|pad|>"}), "257\n");
}

TEST_F(TokenizerCommand, JsonHasAllThatThereIs) {
  const std::string w = words();
  const json line = json::parse(out({"encode", w, "--json", "--pair", "Über", "the cat"}));
  const Tokenizer t = Tokenizer::load(w);
  const Encoding e = t.encode_input({"the cat", "Über"}, {.offsets = OffsetUnit::bytes, .tokens = true});
  EXPECT_EQ(line["ids"], json(e.ids));
  EXPECT_EQ(line["tokens"], json(e.tokens));
  EXPECT_EQ(line["type_ids"], json(e.type_ids));
  EXPECT_EQ(line["special_tokens_mask"], json(e.special_mask));
  EXPECT_EQ(line["attention_mask"], json(e.attention_mask));
  EXPECT_EQ(line["tokens"][0], "[CLS]");
  EXPECT_EQ(line["tokens"][1], "the");
  EXPECT_EQ(line["offsets"][1], json({0, 3}));
  EXPECT_EQ(line["offsets"][4], json({0, 5})) << "the word of the pair, which is unknown, by byte";
  const json points =
      json::parse(out({"encode", w, "--json", "--offsets", "code-points", "--pair", "Über", "the cat"}));
  EXPECT_EQ(points["offsets"][4], json({0, 4}));
  EXPECT_FALSE(json::parse(out({"encode", w, "--json", "--offsets", "none", "the"})).contains("offsets"));
  EXPECT_EQ(json::parse(out({"encode", w, "--json", "--bare", "the"}))["tokens"], json({"the"}));
}

TEST_F(TokenizerCommand, TruncatesIntoWindowsAndPads) {
  const std::string w = words(), b = bytes();
  EXPECT_EQ(out({"encode", b, "--max-length", "3", "--stride", "1", "abcde"}), "97 98 99\n99 100 101\n");
  EXPECT_EQ(out({"encode", b, "--max-length", "2", "--cut", "start", "abc"}), "98 99\n97\n");
  const json cut = json::parse(out({"encode", w, "--json", "--max-length", "4", "the cat sat"}));
  EXPECT_EQ(cut["ids"].size(), 4u);
  EXPECT_EQ(cut["overflow"].size(), 1u);
  EXPECT_EQ(cut["overflow"][0]["tokens"][0], "[CLS]");
  const json padded = json::parse(out({"encode", w, "--json", "--pad-to", "5", "--pad-left", "the"}));
  EXPECT_EQ(padded["ids"][0], 0);
  EXPECT_EQ(padded["attention_mask"], json({0, 0, 1, 1, 1}));
  EXPECT_EQ(out({"encode", b, "--pad-to", "3", "a"}), "97 257 257\n");
  // A file that says so itself.
  json j = json::parse(read_file(w));
  j["truncation"] = {{"max_length", 3}, {"stride", 0}, {"strategy", "LongestFirst"}, {"direction", "Right"}};
  j["padding"] = {{"strategy", {{"Fixed", 6}}}, {"direction", "Right"}, {"pad_id", 0},
                  {"pad_type_id", 0},           {"pad_token", "[PAD]"}, {"pad_to_multiple_of", nullptr}};
  write_file(w, j.dump());
  EXPECT_EQ(json::parse(out({"encode", w, "--json", "the cat"}))["ids"].size(), 6u);
  EXPECT_EQ(json::parse(out({"encode", w, "--json", "--no-padding", "the cat"}))["ids"].size(), 3u);
  EXPECT_EQ(
      json::parse(out({"encode", w, "--json", "--no-padding", "--no-truncation", "the cat"}))["ids"].size(),
      4u);
}

TEST_F(TokenizerCommand, DecodesArgumentsLinesAndJson) {
  const std::string b = bytes();
  EXPECT_EQ(out({"decode", b, "97", "195", "169"}), "aé\n");
  EXPECT_EQ(out({"decode", b}, "97 98\n97,98\n[97, 98]\n{\"ids\": [97], \"more\": 1}\n"), "ab\nab\nab\na\n");
  EXPECT_EQ(out({"decode", b, "--json", "97", "10"}), "\"a\\n\"\n");
  EXPECT_EQ(out({"decode", b, "97", "256"}), "a\n");
  EXPECT_EQ(out({"decode", b, "--keep-special", "97", "256"}), "a<|endoftext|>\n");
  const std::string text = "Größe 🦙  x";
  EXPECT_EQ(out({"decode", b}, out({"encode", b, "--json"}, text)), text + "\n");
}

TEST_F(TokenizerCommand, AStreamNeverGivesHalfACharacter) {
  const std::string b = bytes();
  EXPECT_EQ(out({"decode", b, "--stream", "--json"}, "97 240 159\n166 153 240"),
            "\"a\"\n\"🦙\"\n\"\uFFFD\"\n");
  EXPECT_EQ(out({"decode", b, "--stream", "97", "195", "169"}), "aé\n");
}

TEST_F(TokenizerCommand, ShowsPartsTokensAndCuts) {
  const std::string w = words();
  const std::string all = out({"show", w, "--first", "7"});
  for (const char* part :
       {"WordPiece, ", "normalizer      BertNormalizer (", "pre-tokenizer   BertPreTokenizer\n",
        "post-processor  TemplateProcessing: [CLS] A [SEP]; of a pair [CLS] A [SEP] B [SEP]",
        "  [PAD]  (padding)\n", "First tokens", "        5  "})
    EXPECT_NE(all.find(part), std::string::npos) << part << "\n" << all;
  EXPECT_EQ(out({"show", bytes(), "aé\n"}),
            "text  │a │é  │⋯  │␊ │\n"
            "token │a │Ã  │©  │Ċ │\n"
            "id    │97│195│169│10│\n"
            "4 tokens, 3 characters, 4 bytes\n");
  const json j = json::parse(out({"show", w, "--json"}));
  EXPECT_EQ(j["model"]["type"], "WordPiece");
  EXPECT_FALSE(j["model"].contains("vocab"));
}

TEST_F(TokenizerCommand, Converts) {
  const std::string w = words();
  out({"convert", w, "--out", folder_ / "converted"});
  EXPECT_EQ(read_file(folder_ / "converted/tokenizer.json"), read_file(w));
  EXPECT_EQ(Tokenizer::load(folder_ / "converted").fingerprint(), Tokenizer::load(w).fingerprint());
}

TEST_F(TokenizerCommand, CheckEndsBySeverity) {
  const std::string b = bytes();
  const ProcessResult sound = run({"check", b, "--strict"});
  EXPECT_EQ(sound.exit_code, 0) << sound.out;
  EXPECT_NE(sound.out.find("nothing found"), std::string::npos) << sound.out;
  write_file(folder_ / "bytes/generation_config.json", R"({"eos_token_id": 3})");
  EXPECT_EQ(run({"check", b}).exit_code, 0);
  const ProcessResult strict = run({"check", b, "--strict", "--json"});
  EXPECT_EQ(strict.exit_code, 1);
  EXPECT_EQ(json::parse(strict.out)["code"], "PL908");
  write_file(folder_ / "bytes/config.json", R"({"vocab_size": 100})");
  const ProcessResult worse = run({"check", b});
  EXPECT_EQ(worse.exit_code, 2) << worse.out;
  EXPECT_NE(worse.out.find("PL603 error"), std::string::npos) << worse.out;
}

TEST_F(TokenizerCommand, CheckReadsTheLinesOfFilesToo) {
  const std::string w = words();
  write_file(folder_ / "sample", "the cat\nthe zoo\n");
  const std::string found = out({"check", w, "--json", "--text", folder_ / "sample"});
  EXPECT_EQ(found.find("sample line 1"), std::string::npos) << found;
}

TEST_F(TokenizerCommand, TrainsEachKind) {
  write_file(folder_ / "text", "the cat sat on the mat and the cat ate the rat\n");
  for (const std::string kind : {"bpe", "unigram", "wordpiece", "bytes"}) {
    const std::string path = folder_ / (kind + ".json");
    const std::string said =
        out({"train", folder_ / "text", "--kind", kind, "--out", path, "--vocab-size", "300"});
    EXPECT_NE(said.find(path), std::string::npos);
    EXPECT_EQ(out({"decode", path}, out({"encode", path, "the cat"})), "the cat\n") << kind;
  }
}

TEST_F(TokenizerCommand, RefusesInOneLine) {
  words();  // writes the text
  const std::string b = bytes(), none = folder_ / "none.json", o = folder_ / "o.json";
  refused({"encode", none, "a"}, 1, none);
  refused({"encode", b}, 1, "line 2 of the input: the text is not UTF-8", "a\n\xff\n");
  refused({"encode", b, "--from-json"}, 1, "line 1 of the input: expected JSON", "{\"text\": 5}\n");
  refused({"encode", b, "--from-json", "a"}, 2, "--from-json");
  refused({"encode", b, "--file", none}, 1, none);
  refused({"encode", b, "--file", none, "a"}, 2, "choose one");
  refused({"encode", b, "--pair", "x", "a", "b"}, 2, "--pair");
  refused({"encode", b, "--stride", "2", "a"}, 2, "--stride needs --max-length");
  refused({"encode", b, "--max-length", "2", "--stride", "2", "abc"}, 1, "stride");
  refused({"encode", b, "--offsets", "words", "--json", "a"}, 2, "code-points");
  refused({"encode", b, "--pad-left", "a"}, 2, "--pad-to");
  refused({"decode", b, "5", "x"}, 1, "not a list of token ids");
  refused({"decode", b, "--", "-1"}, 1, "not a list of token ids");
  refused({"decode", b, "999"}, 1, "outside the vocabulary");
  refused({"decode", b}, 1, "line 2 of the input", "5\n[1.5]\n");
  refused({"decode", b, "--stream"}, 1, "not a list of token ids", "5 x");
  refused({"show", none}, 1, none);
  refused({"show", b, "--json", "a"}, 2, "encode --json");
  refused({"convert", b}, 2, "--out");
  refused({"convert", none, "--out", o}, 1, none);
  refused({"check", none}, 1, none);
  refused({"check", b, "--json", "--sarif"}, 2, "choose one");
  refused({"check", b, "--text", none}, 1, none);
  refused({"train", "--out", o}, 2, "needs a file or folder");
  refused({"train", none, "--out", o}, 1, none);
  refused({"train", folder_ / "text", "--out", o, "--kind", "unigramm"}, 2, "did you mean \"unigram\"?");
  refused({"train", folder_ / "text", "--out", o, "--normalizer", "nfq"}, 2, "did you mean \"nfc\"?");
  refused({"train", folder_ / "text", "--out", o, "--pre-tokenizer", R"({"type": "Nope"})"}, 1, "Nope");
  refused({"train", folder_ / "text", "--out", o, "--kind", "wordpiece", "--special", "<s>"}, 2,
          "unknown token");
  refused({"train", folder_ / "text", "--out", o, "--special", "<s>", "--special", "<s>"}, 2, "given twice");
  refused({"train", folder_ / "text", "--out", o, "--kind", "unigram", "--suffix", "</w>"}, 2, "suffix");
  const ProcessResult small = run({"train", folder_ / "text", "--out", o, "--vocab-size", "100"});
  EXPECT_EQ(small.exit_code, 2);
  EXPECT_NE(small.err.find("already more"), std::string::npos) << small.err;
  write_file(folder_ / "binary", std::string("a\0b", 3));
  refused({"train", folder_ / "binary", "--out", o}, 1, "NUL byte");
  refused({}, 2, "tokenizer --help");
}

TEST_F(TokenizerCommand, CtrlCLeavesNothingBehind) {
  std::string text;
  for (int i = 0; i < 200000; ++i) text += "word" + std::to_string(i * 7919 % 100003) + (i % 9 ? " " : "\n");
  write_file(folder_ / "large", text);
  const ProcessResult result = run_plumb({"tokenizer", "train", folder_ / "large", "--out",
                                          folder_ / "o.json", "--kind", "unigram", "--vocab-size", "2000"},
                                         {.signal_on = "different words", .signal = SIGINT});
  EXPECT_EQ(result.exit_code, 130) << result.err;
  EXPECT_FALSE(std::filesystem::exists(folder_ / "o.json"));
}

}  // namespace
}  // namespace plumb::test
