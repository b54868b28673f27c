#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/json.h"
#include "base/test_support.h"
#include "plumb/tokenizer.h"

namespace plumb {
namespace {

using Ids = std::vector<int32_t>;

// A GPT-2-like file in the older spelling: no model type, merges as strings, the special token behind the
// vocabulary.
constexpr const char* kOld = R"({"version": "1.0", "truncation": null, "padding": null,
 "added_tokens": [{"id": 7, "content": "<|endoftext|>", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true}],
 "normalizer": null, "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true},
 "post_processor": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": false},
 "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true},
 "model": {"dropout": null, "unk_token": null, "continuing_subword_prefix": "", "end_of_word_suffix": "", "fuse_unk": false,
  "vocab": {"a": 0, "b": 1, "Ġ": 2, "ab": 3, "Ġab": 4, "Ã": 5, "©": 6},
  "merges": ["a b", "Ġ ab"]}})";

class TokenizerJsonTest : public testing::Test {
 protected:
  std::string file() const { return folder_ / "tokenizer.json"; }

  Tokenizer load(const std::string& text) const {
    write_file_atomically(file(), text);
    return Tokenizer::load(file());
  }
  // The message without the path, of the old file with `patch` merged in (RFC 7386).
  std::string refusal(const std::string& patch, ErrorKind kind) const {
    Json value = parse_json(kOld, "");
    value.merge_patch(parse_json(patch, "patch"));
    return refusal_of(dump_json(value), kind);
  }
  std::string refusal_of(const std::string& text, ErrorKind kind) const {
    const std::string message = error_of(kind, [&] { load(text); }), start = file() + ": ";
    EXPECT_TRUE(message.starts_with(start)) << message;
    return message.substr(std::min(message.size(), start.size()));
  }
  TempFolder folder_;
};

TEST_F(TokenizerJsonTest, ReadsTheOlderSpelling) {
  const Tokenizer tokenizer = load(kOld);
  EXPECT_EQ(tokenizer.encode("ab abé"), (Ids{3, 4, 5, 6}));
  EXPECT_EQ(tokenizer.vocab_size(), 8);
  EXPECT_EQ(tokenizer.special(TokenRole::eos), 7);
  EXPECT_EQ(tokenizer.special(TokenRole::bos), 7);
  EXPECT_EQ(tokenizer.special(TokenRole::pad), std::nullopt);
}

// Without offsets a text without a pre-tokenizer is read in parts that end before a mark; with them as a
// whole. A token with the mark inside forbids the parts.
TEST_F(TokenizerJsonTest, PartsGiveTheIdsOfTheWhole) {
  for (const char* joined : {"ab", "a▁"}) {
    const std::string token = joined, right = token.substr(1);
    const Tokenizer tokenizer = load(
        R"({"version": "1.0", "model": {"type": "BPE", "unk_token": "b", "fuse_unk": true,
        "vocab": {"▁": 0, "a": 1, "b": 2, "▁▁": 3, "▁a": 4, ")" +
        token + R"(": 5}, "merges": [["a", ")" + right + R"("], ["▁", "▁"], ["▁", "a"]]}})");
    for (const std::string text : {"▁a▁▁a", "a▁▁▁b▁", "xy▁a▁x▁▁▁▁ab▁", "▁", "b▁▁▁aa▁b▁ab"}) {
      const Encoding whole = tokenizer.encode_input({text}, {.offsets = OffsetUnit::bytes});
      EXPECT_EQ(tokenizer.encode(text), whole.ids) << text << " with " << joined;
    }
  }
}

TEST_F(TokenizerJsonTest, PrefixSpaceAndPlainAddedTokens) {
  Json value = parse_json(kOld, "");
  value["pre_tokenizer"]["add_prefix_space"] = true;
  value["added_tokens"].push_back({{"id", 8}, {"content", "bb"}, {"special", false}});
  value["added_tokens"].push_back({{"id", 9}, {"content", "bbb"}, {"special", false}});
  const Tokenizer tokenizer = load(dump_json(value));
  EXPECT_EQ(tokenizer.encode("ab"), Ids{4});
  EXPECT_EQ(tokenizer.encode("abbab"), (Ids{2, 0, 8, 4}));  // each stretch of text gets its space
  EXPECT_EQ(tokenizer.encode("bbbb"), (Ids{9, 2, 1}));      // the longest
  EXPECT_EQ(tokenizer.decode(Ids{9, 4}), "bbb ab");
}

TEST_F(TokenizerJsonTest, RolesFromTheFilesBeside) {
  const std::string map = folder_ / "special_tokens_map.json";
  write_file_atomically(map, R"({"eos_token": {"content": "ab"}, "unk_token": "b", "pad_token": null})");
  Tokenizer tokenizer = load(kOld);
  EXPECT_EQ(tokenizer.special(TokenRole::eos), 3);
  EXPECT_EQ(tokenizer.special(TokenRole::unk), 1);
  EXPECT_EQ(tokenizer.special(TokenRole::bos), std::nullopt);
  write_file_atomically(folder_ / "tokenizer_config.json", R"({"bos_token": "a"})");
  EXPECT_EQ(load(kOld).special(TokenRole::bos), 0);
  remove_file(folder_ / "tokenizer_config.json");
  write_file_atomically(map, R"({"eos_token": "nothing"})");
  EXPECT_EQ(error_of(ErrorKind::file, [&] { load(kOld); }),
            map + R"(: "eos_token" is "nothing", which the vocabulary lacks)");
}

TEST_F(TokenizerJsonTest, RefusesByNameWhatItDoesNotFollow) {
  const auto refused = [&](const char* patch) { return refusal(patch, ErrorKind::unsupported); };
  EXPECT_EQ(refused(R"({"normalizer": {"type": "Shout"}})"),
            "normalizer: the normalizer \"Shout\" is not known");
  EXPECT_EQ(
      refused(R"({"normalizer": {"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "Shout"}]}})"),
      "normalizer.normalizers[1]: the normalizer \"Shout\" is not known");
  EXPECT_EQ(refused(R"({"pre_tokenizer": {"type": "Shout"}})"),
            "pre_tokenizer: the pre-tokenizer \"Shout\" is not known");
  EXPECT_EQ(refused(R"({"decoder": {"type": "Shout"}})"), "decoder: the decoder \"Shout\" is not known");
  EXPECT_EQ(refused(R"({"post_processor": {"type": "Shout"}})"),
            "post_processor: the post-processor \"Shout\" is not known");
  EXPECT_EQ(refused(R"({"model": {"type": "Shout"}})"), "model: the model \"Shout\" is not known");
  EXPECT_EQ(refused(R"({"normalizer": {"type": "Replace", "pattern": {"Regex": "a(b"}, "content": ""}})"),
            "normalizer.pattern: the pattern 'a(b' cannot be followed: a parenthesis that is not closed at "
            "offset 3");
}

TEST_F(TokenizerJsonTest, RefusesMalformedFiles) {
  const auto refused = [&](const char* patch) { return refusal(patch, ErrorKind::file); };
  EXPECT_EQ(refused(R"({"model": null})"), "\"model\" is missing or no object");
  EXPECT_EQ(refused(R"({"model": {"vocab": [1]}})"), "model: \"vocab\" is missing or no object");
  EXPECT_EQ(refused(R"({"model": {"vocab": {"a": -1}}})"),
            "model.vocab: the id of \"a\" is -1, expected a whole number from 0");
  EXPECT_EQ(refused(R"({"model": {"vocab": {"a": 1.5}}})"),
            "model.vocab: the id of \"a\" is 1.5, expected a whole number from 0");
  EXPECT_EQ(refused(R"({"model": {"vocab": {"a": 2000000000}}})"),
            "model.vocab: \"a\" has id 2000000000 in a vocabulary of 7");
  EXPECT_EQ(refused(R"({"model": {"vocab": {"a": 1}}})"), "model.vocab: \"a\" and \"b\" have the same id 1");
  EXPECT_EQ(refused(R"({"model": {"vocab": {"": 9}}})"), "model.vocab: the vocabulary has an empty token");
  EXPECT_EQ(refused(R"({"model": {"merges": ["a b c"]}})"),
            "model.merges: the merge \"a b c\" is no pair of tokens");
  EXPECT_EQ(refused(R"({"model": {"merges": [["a"]]}})"),
            "model.merges: the merge [\"a\"] is no pair of tokens");
  EXPECT_EQ(refused(R"({"model": {"merges": ["b a"]}})"),
            "model.merges: the merge \"b a\" needs the token \"ba\", which the vocabulary lacks");
  EXPECT_EQ(refused(R"({"model": {"merges": 1}})"), "model: \"merges\" is missing or no list");
  EXPECT_EQ(refused(R"({"added_tokens": [{"content": "x"}]})"), "added_tokens[0]: an added token has no id");
  EXPECT_EQ(refused(R"({"added_tokens": [{"id": 7}]})"), "added_tokens[0]: an added token has no content");
  EXPECT_EQ(refused(R"({"added_tokens": [{"id": 3, "content": "x"}]})"),
            "added_tokens[0]: the added token \"x\" has the id of \"ab\"");
  EXPECT_EQ(refused(R"({"added_tokens": [{"id": 5, "content": "ab"}]})"),
            "added_tokens[0]: the added token \"ab\" has id 5, but 3 in the vocabulary");
  EXPECT_EQ(refused(R"({"added_tokens": [{"id": 99999999, "content": "x"}]})"),
            "added_tokens[0]: the added token \"x\" has id 99999999 behind a vocabulary of 7");
  EXPECT_EQ(refused(R"({"pre_tokenizer": {"use_regex": 1}})"),
            "pre_tokenizer: \"use_regex\" is 1, expected true or false");
  EXPECT_EQ(refusal_of("[]", ErrorKind::file), "expected an object");
  EXPECT_NE(refusal_of("{", ErrorKind::file).find("not valid JSON"), std::string::npos);
  const std::string whole = kOld;
  for (size_t cut = 0; cut < whole.size(); cut += 29)
    EXPECT_NE(refusal_of(whole.substr(0, cut), ErrorKind::file), "accepted");
  EXPECT_THROW(Tokenizer::load(folder_ / "none"), Error);
}

}  // namespace
}  // namespace plumb
