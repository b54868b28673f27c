#include "text/unicode_forms.h"

#include <algorithm>
#include <optional>

#include "base/utf8.h"
#include "text/unicode.h"

namespace plumb {
namespace {

// A character and how it is written (Rewrite::put).
struct Part {
  char32_t c;
  int change;
  int order;  // its combining class
};

// Which characters of the first plane are inert.
class Inert {
 public:
  explicit Inert(UnicodeForm form) : table_(0x10000) {
    for (char32_t c = 0; c < table_.size(); ++c) table_[c] = is_inert(c, form.compatible, form.composed);
  }
  bool operator()(char32_t c) const { return c < table_.size() && table_[c] != 0; }

 private:
  std::vector<uint8_t> table_;
};

template <bool compatible, bool composed>
const Inert& inert_of() {
  static const Inert table({.compatible = compatible, .composed = composed});
  return table;
}

const Inert& inert(UnicodeForm form) {
  if (form.compatible) return form.composed ? inert_of<true, true>() : inert_of<true, false>();
  return form.composed ? inert_of<false, true>() : inert_of<false, false>();
}

void decompose_all(std::string_view text, bool compatible, std::vector<Part>& parts) {
  parts.clear();
  size_t sorted = 0;
  const auto sort_marks = [&] {
    std::stable_sort(parts.begin() + static_cast<ptrdiff_t>(sorted), parts.end(),
                     [](const Part& a, const Part& b) { return a.order < b.order; });
    sorted = parts.size();
  };
  char32_t pieces[32];
  for (size_t i = 0; i < text.size();) {
    const size_t count = decompose(next_code_point(text, i), compatible, pieces);
    for (size_t piece = 0; piece < count; ++piece) {
      const int order = combining_class(pieces[piece]);
      if (order == 0) sort_marks();
      parts.push_back({pieces[piece], piece > 0, order});
      if (order == 0) sorted = parts.size();
    }
  }
  sort_marks();
}

// Joins in place. A mark joins the last starter unless one of its own class or higher stands between; where
// two become one, what the second replaced is replaced by both.
void recompose(std::vector<Part>& parts) {
  size_t written = 0, starter = 0;
  bool has_starter = false;
  int last = -1;  // class of the last that was kept behind the starter
  for (size_t i = 0; i < parts.size(); ++i) {
    const Part part = parts[i];
    if (has_starter && last < part.order) {
      if (const char32_t both = compose(parts[starter].c, part.c); both != 0) {
        parts[starter].c = both;
        parts[starter].change += part.change - 1;
        continue;
      }
    }
    if (part.order == 0) {
      starter = written;
      has_starter = true;
      last = -1;
    } else if (has_starter) {
      last = part.order;
    }
    parts[written++] = part;
  }
  parts.resize(written);
}

}  // namespace

// What is inert stays, but for the last before something else, which may combine with it.
void normalize(Aligned& text, UnicodeForm form) {
  const auto is_ascii = [](char c) { return static_cast<unsigned char>(c) < 0x80; };
  if (std::all_of(text.text.begin(), text.text.end(), is_ascii)) return;
  const Inert& stays = inert(form);
  const std::string_view all = text.text;
  std::optional<Rewrite> out;
  std::vector<Part> parts;
  size_t last = 0;  // where the last character begins that was inert
  for (size_t i = 0; i < all.size();) {
    const size_t begin = i;
    if (stays(next_code_point(all, i))) {
      last = begin;
      continue;
    }
    size_t end = i;
    while (i < all.size() && !stays(next_code_point(all, i))) end = i;
    if (!out) out.emplace(text);
    if (out->position() < last) out->keep(last);
    decompose_all(all.substr(out->position(), end - out->position()), form.compatible, parts);
    if (form.composed) recompose(parts);
    for (const Part& part : parts) out->put(part.c, part.change);
    out->drop(end);
    last = i = end;
  }
  if (!out) return;
  out->keep(all.size());
  out->finish(text);
}

}  // namespace plumb
