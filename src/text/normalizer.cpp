#include "text/normalizer.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "base/utf8.h"
#include "text/byte_level.h"
#include "text/charsmap.h"
#include "text/pattern.h"
#include "text/sentencepiece.h"
#include "text/unicode.h"
#include "text/unicode_forms.h"

namespace plumb {
namespace {

// Calls put(c, out) for each character; it writes what takes its place. Characters all of whose bytes are
// `plain` stay as they are.
template <typename Plain, typename Put>
void rewrite(Aligned& text, const Plain& plain, const Put& put) {
  const size_t size = text.text.size();
  size_t i = 0;
  const auto skip = [&] {
    while (i < size && plain(static_cast<unsigned char>(text.text[i]))) ++i;
  };
  skip();
  if (i == size) return;
  Rewrite out(text);
  while (i < size) {
    out.keep(i);
    const char32_t c = next_code_point(text.text, i);
    put(c, out);
    if (out.position() < i) out.drop(i);
    skip();
  }
  out.keep(size);
  out.finish(text);
}

// Plain bytes: those of characters below one with a given first byte.
struct Below {
  unsigned first_byte;
  bool operator()(unsigned char byte) const { return byte < first_byte; }
};
constexpr Below kBelowMarks{0xCC};       // of U+0300
constexpr Below kBelowIdeographs{0xE3};  // of U+3000

bool is_printable(unsigned char byte) {
  return byte >= ' ' && byte <= '~';
}

void lower(Aligned& text) {
  const auto plain = [](unsigned char byte) { return byte < 0x80 && (byte < 'A' || byte > 'Z'); };
  rewrite(text, plain, [](char32_t c, Rewrite& out) {
    const Lower to = lower_case(c);
    out.put(to.first, 0);
    if (to.second != 0) out.put(to.second, 1);
  });
}

template <typename Mark>
void remove_marks(Aligned& text, Mark is_removed) {
  rewrite(text, kBelowMarks, [&](char32_t c, Rewrite& out) {
    if (!is_removed(c)) out.put(c, 0);
  });
}

void clean(Aligned& text) {
  rewrite(text, is_printable, [](char32_t c, Rewrite& out) {
    const bool line = c == '\t' || c == '\n' || c == '\r';
    if (c == 0xFFFD || (!line && is_other(c))) return;
    out.put(is_white_space(c) ? ' ' : c, 0);
  });
}

void space_ideographs(Aligned& text) {
  rewrite(text, kBelowIdeographs, [](char32_t c, Rewrite& out) {
    if (!is_ideograph(c)) return out.put(c, 0);
    out.put(' ', 0);
    out.put(c, 1);
    out.put(' ', 1);
  });
}

void strip(Aligned& text, bool left, bool right) {
  size_t begin = 0, end = text.text.size();
  for (size_t i = 0; left && i < end;) {
    if (!is_white_space(next_code_point(text.text, i))) break;
    begin = i;
  }
  while (right && end > begin) {
    size_t last = end - 1;
    while ((static_cast<unsigned char>(text.text[last]) & 0xC0) == 0x80) --last;
    size_t behind = last;
    if (!is_white_space(next_code_point(text.text, behind))) break;
    end = last;
  }
  Rewrite out(text, begin);
  out.keep(end);
  out.finish(text);
}

void prepend(Aligned& text, const std::string& added) {
  if (text.text.empty()) return;
  size_t first = 0, first_added = 0;
  next_code_point(text.text, first);
  Rewrite out(text);
  const TextSpan rest = text.place(first - 1);
  if (!added.empty()) next_code_point(added, first_added);
  out.put(std::string_view(added).substr(0, first_added), text.place(0));
  out.put(std::string_view(added).substr(first_added), rest);
  out.put(std::string_view(text.text).substr(0, first), rest);
  out.drop(first);
  out.keep(text.text.size());
  out.finish(text);
}

void replace(Aligned& text, const Pattern& pattern, const std::string& content) {
  Rewrite out(text);
  bool found = false;
  pattern.each(text.text, [&](size_t begin, size_t end) {
    found = true;
    out.keep(begin);
    out.put(content, end > 0 ? text.place(end - 1) : TextSpan{text.origin, text.origin});
    out.drop(end);
  });
  if (!found) return;
  out.keep(text.text.size());
  out.finish(text);
}

size_t characters(std::string_view text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

// Of a replacement, as many characters as before stand for one each; what is more, for the last; what is less
// goes to the last that was written, and to nothing where nothing was.
void apply_charsmap(Aligned& text, const Charsmap& map) {
  std::vector<std::pair<char32_t, int>> parts;  // as for Rewrite::put
  parts.reserve(text.text.size());
  std::string_view replacement;
  bool changed = false;
  for (size_t i = 0; i < text.text.size();) {
    const size_t matched = map.find(std::string_view(text.text).substr(i), replacement);
    if (matched == 0) {
      parts.emplace_back(next_code_point(text.text, i), 0);
      continue;
    }
    changed = true;
    const size_t before = characters(std::string_view(text.text).substr(i, matched));
    size_t written = 0;
    for (size_t at = 0; at < replacement.size(); ++written)
      parts.emplace_back(next_code_point(replacement, at), written >= before);
    check_growth(text.text.size(), parts.size());
    if (written < before && !parts.empty()) parts.back().second -= static_cast<int>(before - written);
    i += matched;
  }
  if (!changed) return;
  Rewrite out(text);
  for (const auto& [c, change] : parts) out.put(c, change);
  out.finish(text);
}

char32_t nmt_space(char32_t c) {
  const bool blank = c == '\t' || c == '\n' || c == '\f' || c == '\r' || c == 0x1680 ||
                     (c >= 0x200B && c <= 0x200F) || c == 0x2028 || c == 0x2029 || c == 0x2581 ||
                     c == 0xFEFF || c == 0xFFFD;
  return blank ? ' ' : c;
}

bool nmt_removes(char32_t c) {
  return (c >= 1 && c <= 8) || c == 0xB || (c >= 0xE && c <= 0x1F) || c == 0x7F || c == 0x8F || c == 0x9F;
}

void spell(Aligned& text) {
  Rewrite out(text);
  for (size_t i = 0; i < text.text.size();) {
    const size_t begin = i;
    next_code_point(text.text, i);
    for (size_t byte = begin; byte < i; ++byte)
      out.put(byte_to_character(static_cast<unsigned char>(text.text[byte])), byte > begin);
  }
  out.finish(text);
}

Normalizer read_bert(const JsonAt& json) {
  const bool cleaned = json.flag("clean_text"), ideographs = json.flag("handle_chinese_chars");
  const bool lowered = json.flag("lowercase"), stripped = json.flag("strip_accents", lowered);
  return [=](Aligned& text) {
    if (cleaned) clean(text);
    if (ideographs) space_ideographs(text);
    if (stripped) {
      normalize(text, {});
      remove_marks(text, is_nonspacing_mark);
    }
    if (lowered) lower(text);
  };
}

Normalizer read_charsmap(const JsonAt& json) {
  const std::string name = json.file() + ": " + json.path() + ".precompiled_charsmap";
  const auto map = std::make_shared<Charsmap>(decode_base64(json.text("precompiled_charsmap"), name), name);
  return [map](Aligned& text) { apply_charsmap(text, *map); };
}

Normalizer read_sequence(const JsonAt& json) {
  const JsonAt list = json.list("normalizers");
  std::vector<Normalizer> steps;
  steps.reserve(list.size());
  for (size_t i = 0; i < list.size(); ++i) steps.push_back(read_normalizer(list.item(i)));
  return [steps](Aligned& text) {
    const size_t before = text.text.size();
    for (const Normalizer& step : steps) {
      step(text);
      check_growth(before, text.text.size());
    }
  };
}

}  // namespace

Normalizer read_normalizer(const JsonAt& json) {
  const std::string type = json.type("normalizer", {{"clean_text", "BertNormalizer"},
                                                    {"strip_left", "Strip"},
                                                    {"normalizers", "Sequence"},
                                                    {"precompiled_charsmap", "Precompiled"},
                                                    {"content", "Replace"},
                                                    {"prepend", "Prepend"}});
  if (json.has("sentencepiece")) return read_sentencepiece_normalizer(json);
  if (type == "Sequence") return read_sequence(json);
  if (type == "BertNormalizer") return read_bert(json);
  if (type == "NFC") return [](Aligned& text) { normalize(text, {.composed = true}); };
  if (type == "NFD") return [](Aligned& text) { normalize(text, {}); };
  if (type == "NFKC") return [](Aligned& text) { normalize(text, {.compatible = true, .composed = true}); };
  if (type == "NFKD") return [](Aligned& text) { normalize(text, {.compatible = true}); };
  if (type == "Lowercase") return lower;
  if (type == "StripAccents") return [](Aligned& text) { remove_marks(text, is_mark); };
  if (type == "ByteLevel") return spell;
  if (type == "Precompiled") return read_charsmap(json);
  if (type == "Nmt") {
    return [](Aligned& text) {
      rewrite(text, is_printable, [](char32_t c, Rewrite& out) {
        if (!nmt_removes(c)) out.put(nmt_space(c), 0);
      });
    };
  }
  if (type == "Strip") {
    const bool left = json.flag("strip_left"), right = json.flag("strip_right");
    return [=](Aligned& text) { strip(text, left, right); };
  }
  if (type == "Prepend") {
    const std::string added = json.text("prepend");
    return [=](Aligned& text) { prepend(text, added); };
  }
  if (type == "Replace") {
    const Pattern pattern = read_pattern(json);
    const std::string content = json.text("content");
    return [=](Aligned& text) { replace(text, pattern, content); };
  }
  json.unknown("normalizer", type);
}

}  // namespace plumb
