#include "text/pre_tokenizer.h"

#include <utility>

#include "base/utf8.h"
#include "text/byte_level.h"
#include "text/pattern.h"
#include "text/unicode.h"

namespace plumb {
namespace {

using Cut = std::function<void(Pieces&)>;

// What becomes of what is looked for.
enum class Behavior { removed, isolated, merged_with_previous, merged_with_next, contiguous };

struct Match {
  size_t begin, end;
  bool found;  // or what stands between
};

// Calls on({begin, end, found}) for all of the text, in order.
template <typename On>
void each_match(const Pattern& pattern, std::string_view text, const On& on) {
  size_t done = 0;
  pattern.each(text, [&](size_t begin, size_t end) {
    if (begin > done) on(Match{done, begin, false});
    on(Match{begin, end, true});
    done = end;
  });
  if (done < text.size()) on(Match{done, text.size(), false});
}

// Each character that `is` holds for is a match.
template <typename Is, typename On>
void each_character(const Is& is, std::string_view text, const On& on) {
  size_t done = 0;
  for (size_t i = 0; i < text.size();) {
    const size_t begin = i;
    if (!is(next_code_point(text, i))) continue;
    if (begin > done) on(Match{done, begin, false});
    on(Match{begin, i, true});
    done = i;
  }
  if (done < text.size()) on(Match{done, text.size(), false});
}

// Joins a match to its neighbour; of matches in a row, only the one nearest to the neighbour.
template <typename Take>
void merge(const std::vector<Match>& matches, Behavior behavior, const Take& take) {
  std::vector<Match> parts;
  parts.reserve(matches.size());
  const bool backwards = behavior == Behavior::merged_with_next;
  bool before = false;
  for (size_t i = 0; i < matches.size(); ++i) {
    const Match& match = matches[backwards ? matches.size() - 1 - i : i];
    const bool joins = behavior == Behavior::contiguous ? match.found == before : match.found && !before;
    if (joins && !parts.empty()) {
      (backwards ? parts.back().begin : parts.back().end) = backwards ? match.begin : match.end;
    } else {
      parts.push_back(match);
    }
    before = match.found;
  }
  for (size_t i = 0; i < parts.size(); ++i) {
    const Match& part = parts[backwards ? parts.size() - 1 - i : i];
    take(part.begin, part.end);
  }
}

// matches(view, on) finds them.
template <typename Matches>
void split(Pieces& pieces, Behavior behavior, const Matches& matches) {
  pieces.split([&](std::string_view text, const auto& take) {
    if (behavior == Behavior::removed || behavior == Behavior::isolated) {
      matches(text, [&](const Match& match) {
        if (behavior == Behavior::isolated || !match.found) take(match.begin, match.end);
      });
      return;
    }
    std::vector<Match> all;
    matches(text, [&](const Match& match) { all.push_back(match); });
    merge(all, behavior, take);
  });
}

template <typename Is>
Cut split_at(Is is, Behavior behavior) {
  return [=](Pieces& pieces) {
    split(pieces, behavior, [&](std::string_view text, const auto& on) { each_character(is, text, on); });
  };
}

Behavior read_behavior(const JsonAt& json, const char* fallback) {
  const std::string name = fallback ? json.text("behavior", fallback) : json.text("behavior");
  for (const auto& [known, behavior] : {std::pair{"Removed", Behavior::removed},
                                        {"Isolated", Behavior::isolated},
                                        {"MergedWithPrevious", Behavior::merged_with_previous},
                                        {"MergedWithNext", Behavior::merged_with_next},
                                        {"Contiguous", Behavior::contiguous}}) {
    if (name == known) return behavior;
  }
  json.wrong("behavior", "Removed, Isolated, MergedWithPrevious, MergedWithNext or Contiguous");
}

Cut read_split(const JsonAt& json) {
  const Pattern pattern = read_pattern(json);
  const Behavior behavior = read_behavior(json, nullptr);
  const bool invert = json.flag("invert");
  return [=](Pieces& pieces) {
    split(pieces, behavior, [&](std::string_view text, const auto& on) {
      each_match(pattern, text, [&](const Match& m) { on(Match{m.begin, m.end, m.found != invert}); });
    });
  };
}

// Writes `added` before the piece; it stands for the piece's first character.
void prepend(const Pieces& pieces, const Piece& piece, std::string_view added, Rewrite& out) {
  size_t first = piece.begin, first_added = 0;
  next_code_point(pieces.text.text, first);
  next_code_point(added, first_added);
  const TextSpan rest = pieces.text.place(first - 1);
  out.put(added.substr(0, first_added), pieces.text.place(piece.begin));
  out.put(added.substr(first_added), rest);
  out.put(std::string_view(pieces.text.text).substr(piece.begin, first - piece.begin), rest);
  out.drop(first);
}

PreTokenizer read_metaspace(const JsonAt& json) {
  std::string mark;
  const char32_t mark_character = json.character("replacement");
  append_utf8(mark, mark_character);
  const std::string scheme =
      json.text("prepend_scheme", json.flag("add_prefix_space", true) ? "always" : "never");
  if (scheme != "always" && scheme != "first" && scheme != "never")
    json.wrong("prepend_scheme", "always, first or never");
  if (!json.flag("add_prefix_space", true) && scheme != "never")
    json.malformed("\"add_prefix_space\" is false, which \"prepend_scheme\" contradicts");
  const bool always = scheme == "always", first = scheme == "first", cuts = json.flag("split", true);
  PreTokenizer result;
  result.needs_places = first;
  result.cut = [=](Pieces& pieces) {
    const std::string_view text = pieces.text.text;
    pieces.rewrite([&](const Piece& piece, Rewrite& out) {
      const std::string_view view = pieces.view(piece);
      if (!view.starts_with(' ') && !view.starts_with(mark) && (always || (first && piece.origin == 0)))
        prepend(pieces, piece, mark, out);
      for (size_t i = text.find(' ', out.position()); i < piece.end; i = text.find(' ', i + 1)) {
        out.keep(i);
        out.put(mark, pieces.text.place(i));
        out.drop(i + 1);
      }
      out.keep(piece.end);
    });
    if (cuts) split_at([=](char32_t c) { return c == mark_character; }, Behavior::merged_with_next)(pieces);
  };
  return result;
}

PreTokenizer read_byte_level(const JsonAt& json) {
  const bool prefix = json.flag("add_prefix_space"), by_pattern = json.flag("use_regex", true);
  json.flag("trim_offsets", true);
  PreTokenizer result;
  result.spells_bytes = true;
  result.cut_bytes = [=](Pieces& pieces) {
    if (prefix) {
      pieces.rewrite([&](const Piece& piece, Rewrite& out) {
        if (!pieces.view(piece).starts_with(' ')) prepend(pieces, piece, " ", out);
        out.keep(piece.end);
      });
    }
    if (!by_pattern) return;
    pieces.split([](std::string_view text, const auto& take) {
      size_t done = 0, begin = 0, end = 0;
      for (Regex::Matches matches(gpt2_pattern(), text); matches.next(begin, end); done = end) {
        take(done, begin);
        take(begin, end);
      }
      take(done, text.size());
    });
  };
  result.cut = [cut = result.cut_bytes](Pieces& pieces) {
    cut(pieces);
    pieces.rewrite([&](const Piece& piece, Rewrite& out) {
      std::string spelling;
      for (size_t i = piece.begin; i < piece.end; ++i) {
        spelling.clear();
        append_utf8(spelling, byte_to_character(static_cast<unsigned char>(pieces.text.text[i])));
        out.put(spelling, pieces.text.place(i));
      }
    });
  };
  return result;
}

// Runs of letters and digits, and of what is neither that nor blank.
void cut_words(Pieces& pieces) {
  pieces.split([](std::string_view text, const auto& take) {
    enum { blank, word, other };
    size_t begin = 0;
    int kind = blank;
    for (size_t i = 0; i <= text.size();) {
      const size_t at = i;
      const char32_t c = i < text.size() ? next_code_point(text, i) : (++i, U' ');
      const int now = is_white_space(c) ? blank : is_word(c) ? word : other;
      if (now == kind && at < text.size()) continue;
      if (kind != blank) take(begin, at);
      begin = at;
      kind = now;
    }
  });
}

// Words between blanks; each punctuation mark is a piece of its own.
void cut_at_punctuation(Pieces& pieces) {
  pieces.split([](std::string_view text, const auto& take) {
    size_t begin = 0;
    for (size_t i = 0; i < text.size();) {
      const size_t at = i;
      const char32_t c = next_code_point(text, i);
      if (c < 0x80 && is_word(c) && c != '_') continue;
      const bool mark = is_punctuation(c);
      if (!mark && !is_white_space(c)) continue;
      take(begin, at);
      if (mark) take(at, i);
      begin = i;
    }
    take(begin, text.size());
  });
}

// A new piece where the script changes. What stands before the first character with a script of its own
// belongs to no piece: the reference loses it.
void cut_scripts(Pieces& pieces) {
  pieces.split([](std::string_view text, const auto& take) {
    size_t begin = text.size();
    int last = -1;  // none yet
    for (size_t i = 0; i < text.size();) {
      const size_t at = i;
      const int script = script_group(next_code_point(text, i));
      if (script == 0) continue;
      if (script != last) {
        if (begin < at) take(begin, at);
        begin = at;
      }
      last = script;
    }
    take(begin, text.size());
  });
}

Cut read_fixed_length(const JsonAt& json) {
  const size_t length = json.has("length") ? json.whole("length", 1u << 30) : 5;
  if (length == 0) json.wrong("length", "at least 1");
  return [=](Pieces& pieces) {
    pieces.split([&](std::string_view text, const auto& take) {
      for (size_t i = 0; i < text.size();) {
        const size_t begin = i;
        for (size_t n = 0; n < length && i < text.size(); ++n) next_code_point(text, i);
        take(begin, i);
      }
    });
  };
}

PreTokenizer read_sequence(const JsonAt& json) {
  const JsonAt list = json.list("pretokenizers");
  std::vector<Cut> steps;
  PreTokenizer result;
  Cut last;
  for (size_t i = 0; i < list.size(); ++i) {
    const PreTokenizer step = read_pre_tokenizer(list.item(i));
    result.needs_places = result.needs_places || step.needs_places;
    result.spells_bytes = step.spells_bytes;
    steps.push_back(step.cut);
    last = step.cut_bytes;
  }
  const auto run = [](const std::vector<Cut>& cuts) {
    return [cuts](Pieces& pieces) {
      const size_t before = pieces.text.text.size();
      for (const Cut& cut : cuts) {
        cut(pieces);
        check_growth(before, pieces.text.text.size());
      }
    };
  };
  result.cut = run(steps);
  if (result.spells_bytes) {
    steps.back() = last;
    result.cut_bytes = run(steps);
  }
  return result;
}

Cut read_cut(const JsonAt& json, const std::string& type) {
  if (type == "Split") return read_split(json);
  if (type == "Punctuation") return split_at(is_punctuation, read_behavior(json, "Isolated"));
  if (type == "WhitespaceSplit") return split_at(is_white_space, Behavior::removed);
  if (type == "Whitespace") return cut_words;
  if (type == "UnicodeScripts") return cut_scripts;
  if (type == "FixedLength") return read_fixed_length(json);
  if (type == "Digits")
    return split_at(is_number, json.flag("individual_digits") ? Behavior::isolated : Behavior::contiguous);
  if (type == "CharDelimiterSplit") {
    const char32_t delimiter = json.character("delimiter");
    return split_at([=](char32_t c) { return c == delimiter; }, Behavior::removed);
  }
  if (type == "BertPreTokenizer") return cut_at_punctuation;
  json.unknown("pre-tokenizer", type);
}

}  // namespace

PreTokenizer read_pre_tokenizer(const JsonAt& json) {
  const std::string type = json.type("pre-tokenizer", {});
  if (type == "Sequence") return read_sequence(json);
  if (type == "Metaspace") return read_metaspace(json);
  if (type == "ByteLevel") return read_byte_level(json);
  PreTokenizer result;
  result.cut = read_cut(json, type);
  return result;
}

}  // namespace plumb
