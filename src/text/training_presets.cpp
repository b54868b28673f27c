// The normalizers and pre-tokenizers that training knows by name.
#include "plumb/tokenizer_trainer.h"

namespace plumb {

const std::vector<TrainingPreset>& normalizer_presets() {
  static const std::vector<TrainingPreset> all = {
      {"none", "the text as it is", ""},
      {"nfc", "composed characters", R"({"type": "NFC"})"},
      {"nfkc", "composed, compatibility forms folded", R"({"type": "NFKC"})"},
      {"lowercase", "nfc and lower case",
       R"({"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "Lowercase"}]})"},
      {"fold", "nfkc, runs of blanks to one, none at the ends, as SentencePiece does",
       R"({"type": "Sequence", "normalizers": [{"type": "NFKC"},
           {"type": "Replace", "pattern": {"Regex": "\\s+"}, "content": " "},
           {"type": "Strip", "strip_left": true, "strip_right": true}]})"},
      {"bert", "BERT's, lower case and without accents",
       R"({"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true, "strip_accents": null,
           "lowercase": true})"},
      {"bert-cased", "BERT's, with case and accents",
       R"({"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true, "strip_accents": false,
           "lowercase": false})"},
  };
  return all;
}

const std::vector<TrainingPreset>& pre_tokenizer_presets() {
  static const std::vector<TrainingPreset> all = {
      {"byte-level", "GPT-2's pattern, characters as bytes",
       R"({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true})"},
      {"metaspace", "cut before blanks, which become ▁",
       R"({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": true})"},
      {"bert", "cut at blanks and around punctuation", R"({"type": "BertPreTokenizer"})"},
      {"whitespace", "cut at blanks, and between letters and signs", R"({"type": "Whitespace"})"},
      {"blanks", "cut at blanks only", R"({"type": "WhitespaceSplit"})"},
  };
  return all;
}

}  // namespace plumb
