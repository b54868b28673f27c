#include "text/regex_syntax.h"

#include <fmt/format.h>
#include <unicode/uchar.h>
#include <unicode/uscript.h>

#include <string_view>
#include <utility>
#include <vector>

#include "base/utf8.h"
#include "plumb/error.h"

namespace plumb {
namespace {

constexpr int kMostNesting = 100;

// What stands between the brackets of a class.
constexpr const char* kSpace = R"(\t-\r\x{85}\p{Z})";
constexpr const char* kWord = R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc})";
// Of \w outside of brackets, and of \b: Oniguruma takes Latin-1 from an older table.
constexpr const char* kLatinWord = R"(\x{B2}\x{B3}\x{B9}\x{BC}-\x{BE})";
constexpr const char* kHex = "0-9a-fA-F";

struct NamedClass {
  const char *name, *items;
};
constexpr NamedClass kPosix[] = {
    {"alnum", R"(\p{Alphabetic}\p{Nd})"},
    {"alpha", R"(\p{Alphabetic})"},
    {"blank", R"(\t\p{Zs})"},
    {"cntrl", R"(\p{Cc})"},
    {"digit", R"(\p{Nd})"},
    {"lower", R"(\p{Lowercase})"},
    {"punct", R"(\p{P}\p{S})"},
    {"space", kSpace},
    {"upper", R"(\p{Uppercase})"},
    {"xdigit", kHex},
    {"word", kWord},
    {"ascii", R"(\x{0}-\x{7F})"},
    {"any", R"(\x{0}-\x{10FFFF})"},
    {"assigned", R"(\P{Cn})"},
};

std::string code_point(char32_t c) {
  return fmt::format("\\x{{{:X}}}", static_cast<uint32_t>(c));
}

bool is_ascii_letter_or_digit(char32_t c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

std::string quoted(char32_t c) {
  if (is_ascii_letter_or_digit(c)) return {static_cast<char>(c)};
  if (c < ' ' || c == 0x7F || c >= 0x80) return code_point(c);
  return {'\\', static_cast<char>(c)};
}

// A set of characters: items of one pair of brackets, and patterns of one character each that no brackets can
// hold.
struct Set {
  std::string items;
  std::vector<std::string> others;

  void add(const Set& more) {
    items += more.items;
    others.insert(others.end(), more.others.begin(), more.others.end());
  }
  std::string pattern() const {
    if (others.empty()) return items.empty() ? "(?!)" : "[" + items + "]";
    std::string all = items.empty() ? "" : "[" + items + "]";
    for (const std::string& other : others) all += (all.empty() ? "" : "|") + other;
    return "(?:" + all + ")";
  }
  std::string complement() const {
    if (!others.empty()) return "(?:(?!" + pattern() + ")(?s:.))";
    return items.empty() ? "(?s:.)" : "[^" + items + "]";
  }
};

Set set_of(std::string items, bool negated) {
  if (!negated) return {std::move(items), {}};
  return {"", {"[^" + items + "]"}};
}

class Translator {
 public:
  explicit Translator(const std::string& pattern) : pattern_(pattern) {}

  std::string all() {
    std::string result = alternatives();
    if (at_ < pattern_.size()) refuse("a closing parenthesis without its opening");
    return result;
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw Error(ErrorKind::unsupported,
                fmt::format("the pattern '{}' cannot be followed: {} at offset {}", pattern_, what, at_));
  }
  bool ended() const { return at_ >= pattern_.size(); }
  bool sees(std::string_view text) const { return std::string_view(pattern_).substr(at_).starts_with(text); }
  bool take(std::string_view text) {
    if (!sees(text)) return false;
    at_ += text.size();
    return true;
  }
  char32_t next() {
    if (ended()) refuse("an end too early");
    return next_code_point(pattern_, at_);
  }
  std::string until(std::string_view end) {
    const size_t place = pattern_.find(end, at_);
    if (place == std::string::npos) refuse(fmt::format("no '{}'", end));
    std::string inside = pattern_.substr(at_, place - at_);
    at_ = place + end.size();
    return inside;
  }

  std::string alternatives();
  std::string atom();
  std::string with_quantifiers(std::string atom);
  bool interval(std::string& text, bool& exact);
  std::string group();
  std::string options();
  std::string escape();
  bool shorthand(char32_t letter, Set& set);
  char32_t escaped_character(char32_t letter);
  char32_t hex(size_t least, size_t most);
  Set property(bool negated);
  Set bracket();
  void bracket_item(Set& set);
  Set posix(const std::string& name, bool negated);

  const std::string& pattern_;
  size_t at_ = 0;
  int depth_ = 0;
  bool extended_ = false;
};

std::string Translator::alternatives() {
  if (++depth_ > kMostNesting) refuse("nested too deep");
  std::string result;
  while (!ended() && !sees(")")) {
    if (take("|")) {
      result += '|';
      continue;
    }
    if (extended_) {
      const char c = pattern_[at_];
      if (c == ' ' || (c >= '\t' && c <= '\r')) {
        ++at_;
        continue;
      }
      if (c == '#') {
        while (!ended() && pattern_[at_] != '\n') ++at_;
        continue;
      }
    }
    result += with_quantifiers(atom());
  }
  --depth_;
  return result;
}

// {n}, {n,}, {,m}, {n,m} as PCRE2 writes it; false, and nothing taken, where the brace is a brace.
bool Translator::interval(std::string& text, bool& exact) {
  size_t i = at_ + 1;
  std::string numbers[2];
  size_t part = 0;
  for (; i < pattern_.size() && pattern_[i] != '}'; ++i) {
    if (pattern_[i] == ',' && part == 0) {
      part = 1;
    } else if (pattern_[i] >= '0' && pattern_[i] <= '9' && numbers[part].size() < 6) {
      numbers[part] += pattern_[i];
    } else {
      return false;
    }
  }
  if (i >= pattern_.size() || (numbers[0].empty() && numbers[1].empty())) return false;
  at_ = i + 1;
  exact = part == 0;
  const std::string low = numbers[0].empty() ? "0" : numbers[0];
  text = exact ? "{" + low + "}" : "{" + low + "," + numbers[1] + "}";
  return true;
}

std::string Translator::with_quantifiers(std::string atom) {
  int count = 0;
  while (!ended()) {
    std::string quantifier;
    bool exact = false;
    if (pattern_[at_] == '{') {
      if (!interval(quantifier, exact)) break;
      if (!exact && take("?")) quantifier += '?';
    } else if (std::string_view("*+?").find(pattern_[at_]) != std::string_view::npos) {
      quantifier = pattern_[at_++];
      if (take("?")) {
        quantifier += '?';
      } else if (take("+")) {
        quantifier += '+';
      }
    } else {
      break;
    }
    if (count > 0) atom = fmt::format("(?:{})", atom);
    if (++count > kMostNesting) refuse("too many repeats of repeats");
    atom += quantifier;
  }
  return atom;
}

std::string Translator::atom() {
  const size_t start = at_;
  const char32_t c = next();
  if (c == '\\') return escape();
  if (c == '[') return bracket().pattern();
  if (c == '(') return group();
  if (c == '.' || c == '^' || c == '$') return {static_cast<char>(c)};
  if (c == '*' || c == '+' || c == '?') {
    at_ = start;
    refuse("nothing to repeat");
  }
  return quoted(c);
}

std::string Translator::group() {
  std::string head = "(";
  const bool extended = extended_;
  if (take("?")) {
    if (take("#")) {
      until(")");
      return "";
    }
    head = "(?";
    bool found = false;
    for (const char* kind : {":", "=", "!", ">", "<=", "<!"}) {
      if (!take(kind)) continue;
      head += kind;
      found = true;
      break;
    }
    if (!found && (take("<") || take("'"))) {
      const char end = pattern_[at_ - 1] == '<' ? '>' : '\'';
      head += "<" + until({&end, 1}) + ">";
    } else if (!found) {
      head += options();
      // Options without a body hold to the end of the group around them, alternatives included.
      if (sees(")")) {
        ++at_;
        std::string rest = head + ":" + alternatives() + ")";
        extended_ = extended;
        return rest;
      }
      if (!take(":")) refuse("an unknown kind of group");
      head += ':';
    }
  }
  std::string result = head + alternatives() + ")";
  extended_ = extended;
  if (!take(")")) refuse("a parenthesis that is not closed");
  return result;
}

// Ruby's i, m, x: on, and behind "-" off.
std::string Translator::options() {
  std::string result;
  bool on = true;
  while (!ended() && !sees(")") && !sees(":")) {
    const char32_t c = next();
    if (c == '-' && on) {
      on = false;
      result += '-';
    } else if (c == 'i') {
      result += 'i';
    } else if (c == 'm') {
      result += 's';
    } else if (c == 'x') {
      extended_ = on;
    } else {
      refuse("an unknown option or kind of group");
    }
  }
  return result;
}

char32_t Translator::hex(size_t least, size_t most) {
  char32_t value = 0;
  size_t digits = 0;
  while (digits < most && !ended()) {
    const char c = pattern_[at_];
    const int digit = c >= '0' && c <= '9'   ? c - '0'
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                             : -1;
    if (digit < 0) break;
    value = value * 16 + static_cast<char32_t>(digit);
    ++digits;
    ++at_;
  }
  if (digits < least || value > 0x10FFFF) refuse("no hexadecimal number of a character");
  return value;
}

// Of an escape that stands for one character; `letter` was taken.
char32_t Translator::escaped_character(char32_t letter) {
  switch (letter) {
    case 't':
      return '\t';
    case 'n':
      return '\n';
    case 'r':
      return '\r';
    case 'f':
      return '\f';
    case 'v':
      return '\v';
    case 'a':
      return '\a';
    case 'e':
      return 0x1B;
    case 'u':
      return hex(4, 4);
    case 'x': {
      if (!take("{")) return hex(1, 2);
      const char32_t value = hex(1, 8);
      if (!take("}")) refuse("no end of a hexadecimal number");
      return value;
    }
    case '0': {
      char32_t value = 0;
      for (int i = 0; i < 2 && !ended() && pattern_[at_] >= '0' && pattern_[at_] <= '7'; ++i)
        value = value * 8 + static_cast<char32_t>(pattern_[at_++] - '0');
      return value;
    }
    default:
      break;
  }
  if (is_ascii_letter_or_digit(letter)) refuse(fmt::format("the escape \\{}", static_cast<char>(letter)));
  return letter;
}

// Escapes that stand for a set, inside brackets and outside.
bool Translator::shorthand(char32_t letter, Set& set) {
  switch (letter) {
    case 's':
      set = set_of(kSpace, false);
      return true;
    case 'S':
      set = set_of(kSpace, true);
      return true;
    case 'w':
      set = set_of(kWord, false);
      return true;
    case 'W':
      set = set_of(kWord, true);
      return true;
    case 'h':
      set = set_of(kHex, false);
      return true;
    case 'H':
      set = set_of(kHex, true);
      return true;
    case 'd':
      set = set_of("\\p{Nd}", false);
      return true;
    case 'D':
      set = set_of("\\P{Nd}", false);
      return true;
    case 'p':
      set = property(false);
      return true;
    case 'P':
      set = property(true);
      return true;
    default:
      return false;
  }
}

std::string Translator::escape() {
  const char32_t letter = next();
  const std::string word_items = std::string(kWord) + kLatinWord;
  std::string word = "[" + word_items + "]";
  if (letter == 'w') return word;
  if (letter == 'W') return "[^" + word_items + "]";
  Set set;
  if (shorthand(letter, set)) return set.pattern();
  switch (letter) {
    case 'b':
      return fmt::format("(?:(?<={0})(?!{0})|(?<!{0})(?={0}))", word);
    case 'B':
      return fmt::format("(?:(?<={0})(?={0})|(?<!{0})(?!{0}))", word);
    case 'A':
    case 'Z':
    case 'z':
    case 'G':
    case 'K':
    case 'R':
    case 'X':
      return {'\\', static_cast<char>(letter)};
    case 'N':
      return "(?-s:.)";
    case 'O':
      return "(?s:.)";
    case 'k':
    case 'g':
      if (!take("<")) refuse("a reference without its name");
      return fmt::format("\\{}<{}>", static_cast<char>(letter), until(">"));
    default:
      break;
  }
  if (letter >= '1' && letter <= '9') return fmt::format("\\g{{{}}}", static_cast<char>(letter));
  return quoted(escaped_character(letter));
}

Set Translator::posix(const std::string& name, bool negated) {
  for (const NamedClass& named : kPosix) {
    if (name == named.name) return set_of(named.items, negated);
  }
  // Both are said by what they leave out.
  if (name == "graph" || name == "print") {
    const std::string outside =
        std::string(R"(\p{Cc}\p{Cn}\p{Cs})") + (name == "graph" ? kSpace : R"(\p{Zl}\p{Zp})");
    return set_of(outside, !negated);
  }
  return {};
}

// \p{Name}, \p{^Name}, \P{Name}; the letter was taken.
Set Translator::property(bool negated) {
  if (!take("{")) refuse("a property without its braces");
  std::string name;
  for (const char c : until("}")) {
    if (c == '^' && name.empty()) {
      negated = !negated;
    } else if (c != ' ' && c != '_' && c != '-') {
      name += c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
    }
  }
  if (name == "punct") return set_of("\\p{P}", negated);  // unlike [:punct:]
  Set known = posix(name, negated);
  if (!known.items.empty() || !known.others.empty()) return known;
  const char* sign = negated ? "\\P{" : "\\p{";
  const int category = u_getPropertyValueEnum(UCHAR_GENERAL_CATEGORY_MASK, name.c_str());
  if (category != UCHAR_INVALID_CODE) {
    const std::string short_name =
        u_getPropertyValueName(UCHAR_GENERAL_CATEGORY_MASK, category, U_SHORT_PROPERTY_NAME);
    return {sign + (short_name == "LC" ? "L&" : short_name) + "}", {}};
  }
  const int script = u_getPropertyValueEnum(UCHAR_SCRIPT, name.c_str());
  if (script != UCHAR_INVALID_CODE)
    return {fmt::format("{}sc:{}}}", sign, uscript_getShortName(static_cast<UScriptCode>(script))), {}};
  const UProperty binary = u_getPropertyEnum(name.c_str());
  if (binary >= UCHAR_BINARY_START && binary < UCHAR_BINARY_LIMIT)
    return {sign + std::string(u_getPropertyName(binary, U_LONG_PROPERTY_NAME)) + "}", {}};
  refuse(fmt::format("the property '{}'", name));
}

// One member or range of a class, or a class inside it.
void Translator::bracket_item(Set& set) {
  for (const bool negated : {true, false}) {
    if (!take(negated ? "[:^" : "[:")) continue;
    const std::string name = until(":]");
    const Set named = posix(name, negated);
    if (named.items.empty() && named.others.empty()) refuse(fmt::format("the class [:{}:]", name));
    return set.add(named);
  }
  if (take("[")) return set.add(bracket());
  const auto character = [&](Set& short_set) -> char32_t {
    const char32_t c = next();
    if (c != '\\') return c;
    const char32_t letter = next();
    if (shorthand(letter, short_set)) return 0;
    return letter == 'b' ? U'\b' : escaped_character(letter);
  };
  Set members;
  const char32_t first = character(members);
  if (!members.items.empty() || !members.others.empty()) return set.add(members);
  if (sees("-") && at_ + 1 < pattern_.size() && pattern_[at_ + 1] != ']') {
    const size_t dash = at_++;
    const char32_t last = character(members);
    if (members.items.empty() && members.others.empty()) {
      if (last < first) refuse("a range that runs backwards");
      set.items += quoted(first) + "-" + quoted(last);
      return;
    }
    at_ = dash;
  }
  set.items += quoted(first);
}

// Behind "[", to the "]" that belongs to it.
Set Translator::bracket() {
  if (++depth_ > kMostNesting) refuse("nested too deep");
  const bool negated = take("^");
  Set whole, part;
  std::string required;  // what the operands of && before this one demand
  bool first = true;
  while (first || !sees("]")) {
    if (ended()) refuse("a class that is not closed");
    first = false;
    if (take("&&")) {
      required += "(?=" + part.pattern() + ")";
      part = {};
      continue;
    }
    bracket_item(part);
  }
  ++at_;
  --depth_;
  if (required.empty()) {
    whole = std::move(part);
  } else {
    whole.others.push_back("(?:" + required + part.pattern() + ")");
  }
  if (!negated) return whole;
  return {"", {whole.complement()}};
}

}  // namespace

std::string pcre_pattern(const std::string& ruby_pattern) {
  if (const size_t fault = utf8_fault(ruby_pattern); fault != kUtf8Valid) {
    throw Error(ErrorKind::unsupported, fmt::format("a pattern is not UTF-8 at offset {}", fault));
  }
  return "(?m)" + Translator(ruby_pattern).all();
}

}  // namespace plumb
