// The patterns of tokenizer files are written for Oniguruma in its Ruby syntax. PCRE2 reads most of it alike;
// this writes out what it reads otherwise: classes inside classes and their intersections, \s \w \h and the
// POSIX classes by their Unicode meaning, (?m) for "dot matches all", names of properties, {1,3}+ as a
// repeated repetition, {,3}, and ^ $ by lines.
#pragma once

#include <string>

namespace plumb {

// The same pattern for PCRE2 (UTF, UCP). Error(unsupported) with the pattern and the offset where it has
// something that cannot be said there.
std::string pcre_pattern(const std::string& ruby_pattern);

}  // namespace plumb
