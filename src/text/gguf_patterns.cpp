#include "text/gguf_patterns.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/json.h"
#include "plumb/error.h"

namespace plumb {
namespace {

// What the patterns have in common. Contractions; blanks up to the last before a word; a word with what
// stands before it; signs with the line breaks behind them.
#define PLUMB_CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define PLUMB_BLANKS "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define PLUMB_WORD "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+"
#define PLUMB_SIGNS " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*"
#define PLUMB_PATH_SIGNS " ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*"
#define PLUMB_LEAD "[^\\r\\n\\p{L}\\p{N}]?"
#define PLUMB_UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define PLUMB_LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define PLUMB_CASED(contraction)                                                                    \
  PLUMB_LEAD PLUMB_UPPER "*" PLUMB_LOWER "+" contraction "|" PLUMB_LEAD PLUMB_UPPER "+" PLUMB_LOWER \
                         "*" contraction

constexpr const char* kGpt2 =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
constexpr const char* kLlama3 =
    PLUMB_CONTRACTIONS "|" PLUMB_WORD "|\\p{N}{1,3}|" PLUMB_SIGNS "|" PLUMB_BLANKS;
constexpr const char* kQwen2 = PLUMB_CONTRACTIONS "|" PLUMB_WORD "|\\p{N}|" PLUMB_SIGNS "|" PLUMB_BLANKS;
constexpr const char* kQwen35 = PLUMB_CONTRACTIONS
    "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|" PLUMB_BLANKS;
constexpr const char* kGpt4o =
    PLUMB_CASED(PLUMB_CONTRACTIONS "?") "|\\p{N}{1,3}|" PLUMB_PATH_SIGNS "|" PLUMB_BLANKS;
constexpr const char* kTekken = PLUMB_CASED("") "|\\p{N}|" PLUMB_PATH_SIGNS "|" PLUMB_BLANKS;
constexpr const char* kBloom = " ?[^(\\s|.,!?…。，、।۔،)]+";
constexpr const char* kDeepSeek3 =
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
    "| ?[\\p{P}\\p{S}]+[\\r\\n]*|" PLUMB_BLANKS;
constexpr const char* kKanaAndHan = "[一-龥぀-ゟ゠-ヿ]+";
constexpr const char* kHanAndHangul = "[一-龥ࠀ-一가-퟿]+";
// clang-format does not know how wide these characters are.
// clang-format off
constexpr const char* kDeepSeekLetters =
    "\\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-"
    "Ჿ"
    "ᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-ώᾀ-ᾴᾶ-ᾼιῂ-ῄῆ-ῌῐ-ΐῖ-Ίῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤΩℨK-ℭℯ-ℴ"
    "ℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-"
    "𐳲𑢠-𑣟𞤀-𞥃]+";
// clang-format on
constexpr const char* kEarlySigns = "[\\p{P}\\$\\+<=>\\^~\\|]+";

struct Entry {
  std::vector<const char*> names;
  std::vector<std::string> patterns;
  bool ignore_merges = false;
  bool add_bos = false;
};

const std::vector<Entry>& entries() {
  static const std::vector<Entry> all = {
      {{"gpt-2",        "gpt2",       "phi-2",   "jina-es",  "jina-de",         "gigachat",
        "jina-v2-es",   "jina-v2-de", "a.x-4.0", "mellum",   "modern-bert",     "exaone4",
        "mpt",          "olmo",       "jais",    "trillion", "granite-docling", "jina-v1-en",
        "jina-v2-code", "roberta-bpe"},
       {kGpt2}},
      {{"default"}, {kEarlySigns, kGpt2, "\\p{N}+", "[0-9][0-9][0-9]"}},
      {{"llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2",
        "jina-v5-nano"},
       {kLlama3},
       true,
       true},
      {{"dbrx", "smaug-bpe", "chatglm-bpe"}, {kLlama3}},
      {{"glm4", "glm5"}, {kLlama3}, true},
      {{"deepseek-llm"},
       {"[\\r\\n]", kDeepSeekLetters, "\\s?[!-/:-~！-／：-～‘-‟　-。]+", "\\s+\\z", kHanAndHangul,
        "\\p{N}+"}},
      {{"deepseek-coder"}, {"[\\r\\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", kHanAndHangul, "\\p{N}"}},
      {{"deepseek-v3", "hunyuan-dense", "joyai-llm", "hy_v4"}, {"\\p{N}{1,3}", kKanaAndHan, kDeepSeek3}},
      {{"falcon"}, {"[\\p{P}\\$\\+<=>\\^~\\|`]+", kGpt2, "[0-9][0-9][0-9]"}},
      {{"starcoder", "refact", "command-r", "smollm", "codeshell", "exaone", "minerva-7b", "mellum2"},
       {"\\p{N}", kGpt2}},
      {{"qwen2", "deepseek-r1-qwen", "kormo", "f2llmv2", "megrez", "stablelm2", "hunyuan", "solar-open",
        "grok-2"},
       {kQwen2}},
      {{"qwen35"}, {kQwen35}},
      {{"gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2"}, {kGpt4o}},
      {{"granite-embed-multi-97m"}, {kGpt4o}, true},
      {{"tiny_aya", "cohere2moe"}, {"\\d{1,3}(?=(?:\\d{3})*\\b)", kGpt4o}},
      {{"tekken"}, {kTekken}, true, true},
      {{"bloom", "poro-chat", "gpt3-finnish"}, {kBloom}},
      {{"viking"}, {kBloom, "\\p{N}"}},
      {{"bailingmoe", "bailingmoe2", "llada-moe"},
       {"'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*"
        "|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+"}},
      {{"seed-coder"},
       {PLUMB_CONTRACTIONS "|" PLUMB_WORD "|\\p{N}{1}| ?[^\\s\\p{L}\\p{N}\\r\\n]+|" PLUMB_BLANKS}},
  };
  return all;
}

}  // namespace

GgufPatterns gguf_patterns(const std::string& name, const std::string& where) {
  for (const Entry& entry : entries()) {
    if (std::find(entry.names.begin(), entry.names.end(), name) == entry.names.end()) continue;
    return {entry.patterns, entry.ignore_merges, entry.add_bos};
  }
  throw Error(ErrorKind::unsupported,
              fmt::format("{}: how {} cuts a text is not known to this build", where, quote_json(name)));
}

}  // namespace plumb
