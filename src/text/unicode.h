// Properties of characters as the `tokenizers` package has them. Its parts carry tables of different ages: a
// character that is younger than a table has no property there.
#pragma once

#include <string>
#include <string_view>

namespace plumb {

bool is_number(char32_t c);           // Nd, Nl, No
bool is_punctuation(char32_t c);      // P*, and the ASCII symbols
bool is_other(char32_t c);            // Cc, Cf, Co: what BERT's cleaning removes
bool is_nonspacing_mark(char32_t c);  // Mn
bool is_mark(char32_t c);             // M*
bool is_word(char32_t c);             // \w: alphabetic, marks, decimal digits, connectors, joiners
bool is_ideograph(char32_t c);        // BERT's "Chinese character"

// The full lower case without context: at most two characters; the second is 0 where there is one.
struct Lower {
  char32_t first, second;
};
Lower lower_case(char32_t c);

// Unicode normalization, for the versions that the package's tables know.
int combining_class(char32_t c);
size_t decompose(char32_t c, bool compatible, char32_t (&parts)[32]);  // the number of parts, at least 1
char32_t compose(char32_t first, char32_t second);                     // 0 if they do not compose
bool is_inert(char32_t c, bool compatible, bool composed);  // its own form, combines with nothing before it

// A number for the script of a character, 0 for those that go with any: Han, Hiragana and Katakana are one.
int script_group(char32_t c);

}  // namespace plumb
