#include "text/unicode_forms.h"

#include <algorithm>

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

// Everything below is its own normal form and combines with nothing before it.
char32_t first_that_changes(UnicodeForm form) {
  if (form.compatible) return 0xA0;
  return form.composed ? 0x300 : 0xC0;
}

bool is_unchanged(std::string_view text, UnicodeForm form) {
  const char32_t limit = first_that_changes(form);
  for (size_t i = 0; i < text.size();) {
    if (next_code_point(text, i) >= limit) return false;
  }
  return true;
}

std::vector<Part> decomposed(std::string_view text, bool compatible) {
  std::vector<Part> parts;
  parts.reserve(text.size());
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
  return parts;
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

void normalize(Aligned& text, UnicodeForm form) {
  if (is_unchanged(text.text, form)) return;
  std::vector<Part> parts = decomposed(text.text, form.compatible);
  if (form.composed) recompose(parts);
  Rewrite out(text);
  for (const Part& part : parts) out.put(part.c, part.change);
  out.finish(text);
}

}  // namespace plumb
