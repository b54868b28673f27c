#include "plumb/tokenizer.h"
#include "plumb/tokenizer_trainer.h"

#include <gtest/gtest.h>

#include "base/file.h"
#include "base/random.h"
#include "base/test_support.h"
#include "base/utf8.h"
#include "plumb/threads.h"
#include "text/text_files.h"

namespace plumb {
namespace {

using Ids = std::vector<int32_t>;

class TokenizerTest : public testing::Test {
 protected:
  std::string path(const std::string& name) const { return folder_ / name; }
  std::string write(const std::string& name, std::string_view bytes) const {
    write_file_atomically(path(name), bytes);
    return path(name);
  }
  Tokenizer trained(int vocab_size = 400) const {
    std::string text;
    for (int i = 0; i < 40; ++i)
      text += "the cat sat on the mat, and the Übergröße of it didn't matter; it's 1234 times.\n\n";
    return train_tokenizer({write("corpus", text)}, {.vocab_size = vocab_size});
  }
  TempFolder folder_;
};

// Characters of all planes, blanks, runs, and what the patterns look at.
std::string random_text(uint64_t seed, uint64_t length) {
  const RandomKey key{seed, 77};
  const std::vector<std::string> parts = {" ",       "  ",
                                          "\n",      "\r\n",
                                          "\t",      "'s",
                                          "'LL",     "n't",
                                          "the",     "é",
                                          "e\u0301", "\u00a0",
                                          "\u3000",  "0",
                                          "42",      "!?",
                                          "🦙",    "👨‍👩‍👧",
                                          "漢字",    "<|endoftext|>",
                                          "\u180e",  "\u0085"};
  std::string text;
  for (uint64_t i = 0; i < length; ++i) {
    const uint64_t draw = random_u64(key, i);
    if (draw % 4) {
      text += parts[(draw >> 8) % parts.size()];
    } else {
      const char32_t c = static_cast<char32_t>((draw >> 8) % 0x110000);
      append_utf8(text, c >= 0xD800 && c <= 0xDFFF ? 'a' : c);
    }
  }
  return text;
}

TEST_F(TokenizerTest, BytesAreOneTokenEach) {
  const Tokenizer tokenizer = Tokenizer::bytes();
  EXPECT_EQ(tokenizer.vocab_size(), 259);
  EXPECT_EQ(tokenizer.encode("aé\n"), (Ids{'a', 0xC3, 0xA9, '\n'}));
  EXPECT_EQ(tokenizer.encode(""), Ids{});
  EXPECT_EQ(tokenizer.special(TokenRole::eos), 256);
  EXPECT_EQ(tokenizer.special(TokenRole::bos), 256);
  EXPECT_EQ(tokenizer.special(TokenRole::pad), 257);
  EXPECT_EQ(tokenizer.special(TokenRole::mask), 258);
  EXPECT_EQ(tokenizer.special(TokenRole::unk), std::nullopt);
  EXPECT_EQ(tokenizer.token(' '), "Ġ");
  EXPECT_EQ(tokenizer.id("Ġ"), ' ');
  EXPECT_EQ(tokenizer.id("nothing"), std::nullopt);
  EXPECT_EQ(tokenizer.token(-1), "");
  EXPECT_EQ(tokenizer.describe(), "single bytes, 259 tokens");
}

TEST_F(TokenizerTest, Characters) {
  const Tokenizer tokenizer = Tokenizer::characters("0123ab");
  EXPECT_EQ(tokenizer.vocab_size(), 9);
  EXPECT_EQ(tokenizer.encode("b0"), (Ids{8, 3}));
  EXPECT_EQ(tokenizer.special(TokenRole::pad), 0);
  EXPECT_EQ(tokenizer.special(TokenRole::bos), 1);
  EXPECT_EQ(tokenizer.special(TokenRole::eos), 2);
  EXPECT_EQ(error_of(ErrorKind::input, [&] { tokenizer.encode("a b"); }),
            "the text has a character at byte 1 that this vocabulary of 9 tokens cannot spell (byte 0x20)");
  tokenizer.save(folder_.str());
  const Tokenizer loaded = Tokenizer::load(folder_.str());
  EXPECT_EQ(loaded.fingerprint(), tokenizer.fingerprint());
  EXPECT_EQ(loaded.decode(loaded.encode("ab01")), "ab01");
}

TEST_F(TokenizerTest, SpecialTokensInTextAreTextUnlessAskedFor) {
  const Tokenizer tokenizer = trained();
  const std::string text = "cat<|endoftext|>cat<|mask|>";
  const Ids cat = tokenizer.encode("cat");
  Ids parsed = cat;
  parsed.push_back(0);
  parsed.insert(parsed.end(), cat.begin(), cat.end());
  parsed.push_back(2);
  EXPECT_EQ(tokenizer.encode(text, true), parsed);
  for (const int32_t id : tokenizer.encode(text)) EXPECT_FALSE(tokenizer.is_special(id));
  EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
  EXPECT_EQ(tokenizer.decode(parsed), "catcat");
  EXPECT_EQ(tokenizer.decode(parsed, true), text);
}

TEST_F(TokenizerTest, EveryTextComesBack) {
  const Tokenizer bpe = trained(), bytes = Tokenizer::bytes();
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const std::string text = random_text(seed, seed % 60);
    for (const Tokenizer& tokenizer : {bpe, bytes}) {
      const Ids ids = tokenizer.encode(text);
      EXPECT_EQ(tokenizer.decode(ids), text);
      for (const int32_t id : ids) EXPECT_FALSE(tokenizer.is_special(id));
    }
  }
}

TEST_F(TokenizerTest, StreamNeverGivesHalfACharacter) {
  const Tokenizer tokenizer = trained();
  for (uint64_t seed = 0; seed < 100; ++seed) {
    Ids ids = tokenizer.encode(random_text(seed, 20));
    if (seed % 2) {  // any ids at all, as a model may write them
      for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(random_below({seed, 1}, i, 400));
    }
    StreamDecoder stream = tokenizer.stream_decoder();
    std::string text;
    for (const int32_t id : ids) {
      const std::string part = stream.add(std::min(id, tokenizer.vocab_size() - 1));
      ASSERT_EQ(utf8_fault(part), kUtf8Valid);
      text += part;
    }
    for (int32_t& id : ids) id = std::min(id, tokenizer.vocab_size() - 1);
    EXPECT_EQ(text + stream.finish(), tokenizer.decode(ids));
  }
  StreamDecoder stream = Tokenizer::bytes().stream_decoder();
  for (const int32_t byte : {0xF0, 0x9F, 0xA6}) EXPECT_EQ(stream.add(byte), "");
  EXPECT_EQ(stream.add(0x99), "🦙");
  EXPECT_EQ(stream.add(0xF0), "");
  EXPECT_EQ(stream.add('a'), "\uFFFDa");
}

TEST_F(TokenizerTest, FaultyInput) {
  const Tokenizer tokenizer = Tokenizer::bytes();
  EXPECT_EQ(error_of(ErrorKind::input, [&] { tokenizer.encode("ab\xff"); }),
            "the text is not UTF-8: byte 0xff at offset 2 does not belong to a character");
  EXPECT_EQ(error_of(ErrorKind::input,
                     [&] {
                       tokenizer.decode(Ids{1, 259});
                     }),
            "token id 259 is outside the vocabulary of 259 tokens");
  EXPECT_THROW(tokenizer.decode(Ids{-1}), Error);
}

TEST_F(TokenizerTest, SavesAndLoadsTheSame) {
  for (const Tokenizer& tokenizer : {trained(), Tokenizer::bytes()}) {
    tokenizer.save(path("folder/model"));
    tokenizer.save(path("single.json"));
    EXPECT_EQ(read_file(path("folder/model/tokenizer.json")), read_file(path("single.json")));
    for (const std::string& from : {path("folder/model"), path("single.json")}) {
      const Tokenizer loaded = Tokenizer::load(from);
      EXPECT_EQ(loaded.fingerprint(), tokenizer.fingerprint());
      EXPECT_EQ(loaded.encode("the cat's Größe 12"), tokenizer.encode("the cat's Größe 12"));
      loaded.save(path("again.json"));
      EXPECT_EQ(read_file(path("again.json")), read_file(path("single.json")));
    }
  }
}

TEST_F(TokenizerTest, TrainingIsDeterministic) {
  std::string text;
  for (uint64_t i = 0; i < 100; ++i) text += random_text(i % 37, 60) + " ";
  std::string large;
  while (large.size() < 3'000'000) large += text;  // several pieces, so that threads share the work
  make_folder(path("in"));
  write("in/a", large);
  write("in/b", "more words " + text);
  const int before = threads();
  set_threads(1);
  const Tokenizer one = train_tokenizer({path("in")}, {.vocab_size = 500});
  set_threads(4);
  const Tokenizer four = train_tokenizer({path("in/a"), path("in/b")}, {.vocab_size = 500});
  set_threads(before);
  EXPECT_EQ(one.fingerprint(), four.fingerprint());
  EXPECT_EQ(one.vocab_size(), 500);
  EXPECT_LT(one.encode(text).size(), Tokenizer::bytes().encode(text).size());
}

TEST_F(TokenizerTest, EveryKindIsTheSameForAnyNumberOfThreads) {
  std::string text;
  for (uint64_t i = 0; i < 400; ++i) text += random_text(i, 60) + " words of many kinds\n";
  write("text", text);
  const int before = threads();
  for (const TokenizerTraining& options :
       {TokenizerTraining{.kind = TokenizerKind::unigram, .vocab_size = 1500, .alphabet_limit = 1000},
        TokenizerTraining{.kind = TokenizerKind::wordpiece, .vocab_size = 1500, .alphabet_limit = 600},
        TokenizerTraining{
            .vocab_size = 1500, .pre_tokenizer = "blanks", .alphabet_limit = 600, .suffix = "</w>"}}) {
    set_threads(1);
    const Tokenizer one = train_tokenizer({path("text")}, options);
    set_threads(3);
    EXPECT_EQ(train_tokenizer({path("text")}, options).json(), one.json());
    set_threads(before);
    one.save(path("saved.json"));
    EXPECT_EQ(Tokenizer::load(path("saved.json")).fingerprint(), one.fingerprint());
    EXPECT_EQ(one.decode(one.encode("words of many kinds")), "words of many kinds");
  }
}

TEST_F(TokenizerTest, TrainingOnPiecesCountsTheWords) {
  const Tokenizer tokenizer = trained(300);
  // " the" is the most frequent word of four letters: joined early.
  EXPECT_EQ(tokenizer.encode(" the").size(), 1u);
  EXPECT_EQ(tokenizer.describe(), "byte-level BPE, 300 tokens");
}

TEST_F(TokenizerTest, TrainingRefusals) {
  write("text", "some text");
  EXPECT_EQ(
      error_of(ErrorKind::usage, [&] { train_tokenizer({path("text")}, {.vocab_size = 100}); }),
      "a vocabulary of 100 tokens was asked for, and 3 special tokens and 256 characters are already more: "
      "raise the size, or limit the alphabet");
  EXPECT_THROW(train_tokenizer({path("none")}), Error);
  EXPECT_EQ(train_tokenizer({path("text")}, {.vocab_size = 4096}).vocab_size(), 259);  // no pair twice
}

TEST_F(TokenizerTest, TokenizingPiecesGivesTheIdsOfTheWhole) {
  const Tokenizer tokenizer = trained();
  for (uint64_t seed = 0; seed < 40; ++seed) {
    std::string text;
    for (uint64_t i = 0; i < 30; ++i)
      text += random_text(seed * 100 + i, 5) + (i % 3 ? " " : "\n\n") + "word";
    TextReader reader(write("text", text), 200);
    Ids ids;
    for (std::string piece; reader.next(piece);) {
      const Ids part = tokenizer.encode(piece);
      ids.insert(ids.end(), part.begin(), part.end());
    }
    EXPECT_EQ(ids, tokenizer.encode(text)) << "seed " << seed;
  }
}

}  // namespace
}  // namespace plumb
