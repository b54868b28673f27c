#include "base/file.h"
#include "base/json.h"
#include "lab/check_cases.h"

namespace plumb::check_test {
namespace {

// The model folder with this tokenizer.json in it.
Change file(const nlohmann::json& tokenizer, const std::function<void(Made&)>& more = {}) {
  return [=](Made& m) {
    m.check_tokenizer = true;
    m.files = [=](const std::string& folder) {
      write_file_atomically(folder + "/tokenizer.json", tokenizer.dump());
    };
    if (more) more(m);
  };
}

nlohmann::json tokenizer_of(const nlohmann::json& model, const nlohmann::json& parts = {}) {
  nlohmann::json j = {{"version", "1.0"}, {"added_tokens", nlohmann::json::array()}, {"model", model}};
  if (!parts.is_null()) j.update(parts);
  return j;
}

nlohmann::json pieces(const std::vector<std::pair<std::string, double>>& list) {
  nlohmann::json j = nlohmann::json::array();
  for (const auto& [text, score] : list) j.push_back(nlohmann::json::array({text, score}));
  return j;
}

nlohmann::json unigram(double whole) {
  return tokenizer_of({{"type", "Unigram"},
                       {"unk_id", 0},
                       {"vocab", pieces({{"<unk>", 0.0}, {"a", -1.0}, {"b", -1.0}, {"ab", whole}})}});
}

nlohmann::json words(const nlohmann::json& vocab, const nlohmann::json& parts = {}) {
  return tokenizer_of({{"type", "WordPiece"},
                       {"unk_token", "[UNK]"},
                       {"continuing_subword_prefix", "##"},
                       {"max_input_chars_per_word", 100},
                       {"vocab", vocab}},
                      parts);
}

nlohmann::json pairs(const std::vector<std::string>& merges) {
  return tokenizer_of({{"type", "BPE"},
                       {"vocab", {{"a", 0}, {"b", 1}, {"c", 2}, {"ab", 3}, {"abc", 4}, {"bc", 5}}},
                       {"merges", merges}});
}

Change bytes(const std::function<void(const std::string& folder)>& files = {},
             const nlohmann::json& generation = nullptr) {
  return [=](Made& m) {
    m.check_tokenizer = m.tokenizer = true;
    m.files = files;
    m.generation_patch = generation;
  };
}

std::function<void(const std::string&)> config_with(const nlohmann::json& added) {
  return [=](const std::string& folder) {
    write_file_atomically(folder + "/tokenizer_config.json",
                          nlohmann::json{{"added_tokens_decoder", added}}.dump());
  };
}

// The tokenizer of bytes whose token of "e" is spelled as that of "i", which two bytes then decode to.
void spell_wrong(const std::string& folder) {
  const std::string path = folder + "/tokenizer.json";
  nlohmann::json j = parse_json_file(path);
  j["decoder"] = nullptr;
  j["model"]["vocab"].erase("e");
  j["model"]["vocab"]["ee"] = int{'e'};
  j["decoder"] = {{"type", "ByteLevel"}};
  write_file_atomically(path, j.dump());
}

}  // namespace

std::vector<Case> tokenizer_cases() {
  const nlohmann::json lower = {{"normalizer", {{"type", "Lowercase"}}}};
  const nlohmann::json bert = {{"pre_tokenizer", {{"type", "BertPreTokenizer"}}}};
  return {
      {"PL902", "unknown", file(unigram(-1)), bytes()},
      {"PL903", "folded",
       file(tokenizer_of({{"type", "BPE"}, {"vocab", {{"a", 0}}}, {"merges", nlohmann::json::array()}})),
       bytes()},
      {"PL904", "twice",
       file(tokenizer_of(
           {{"type", "Unigram"}, {"unk_id", 0}, {"vocab", pieces({{"?", 0.0}, {"a", -1.0}, {"a", -2.0}})}})),
       file(unigram(-1))},
      {"PL905", "dominated_piece", file(unigram(-3)), file(unigram(-1.5))},
      {"PL905", "merge_that_comes_too_late", file(pairs({"a b", "b c"})),
       file(pairs({"a b", "b c", "ab c"}))},
      {"PL905", "capital_in_a_lower_case_vocabulary", file(words({{"[UNK]", 0}, {"a", 1}, {"B", 2}}, lower)),
       file(words({{"[UNK]", 0}, {"a", 1}, {"B", 2}, {"##c", 3}}))},
      {"PL905", "cut_by_the_pre_tokenizer", file(words({{"[UNK]", 0}, {"a", 1}, {"a-b", 2}}, bert)),
       file(words({{"[UNK]", 0}, {"a", 1}, {"ab", 2}, {"##a", 3}}, bert))},
      {"PL905", "inside_and_nothing_before", file(words({{"[UNK]", 0}, {"##a", 1}, {"##ab", 2}})),
       file(words({{"[UNK]", 0}, {"a", 1}, {"##a", 2}, {"##ab", 3}}))},
      {"PL906", "gap", file(words({{"[UNK]", 0}, {"a", 2}})), file(words({{"[UNK]", 0}, {"a", 1}}))},
      {"PL907", "other_content", bytes(config_with({{"257", {{"content", "<pad>"}, {"special", true}}}})),
       bytes(config_with({{"257", {{"content", "<|pad|>"}, {"special", true}}}}))},
      {"PL907", "not_special", bytes(config_with({{"257", {{"content", "<|pad|>"}, {"special", false}}}}))},
      {"PL908", "eos", bytes({}, {{"eos_token_id", 3}}), bytes({}, {{"eos_token_id", {3, 256}}})},
      {"PL909", "own_text", file(unigram(-1), [](Made& m) { m.text = "abc"; }),
       file(unigram(-1), [](Made& m) { m.text = "abba"; })},
      {"PL901", "a_byte_too_few", bytes(spell_wrong), bytes()},
  };
}

}  // namespace plumb::check_test
