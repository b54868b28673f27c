// Which known name a mistyped one was probably meant to be. Threads: safe.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace plumb {

// The nearest of `known` by edit distance (insert, delete, replace, swap of neighbours), or "" if none is
// near: more than one edit in three letters is another word.
std::string nearest_name(std::string_view got, const std::vector<std::string>& known);

// For the end of a message: `; did you mean "x"?`, or "" if no name is near.
std::string did_you_mean(std::string_view got, const std::vector<std::string>& known);

}  // namespace plumb
