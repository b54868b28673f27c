// "Did you mean ...": the nearest of a list of names.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace plumb {

// Insertions, deletions, replacements and swaps of neighbours, each 1 (optimal string alignment), on bytes.
int edit_distance(std::string_view a, std::string_view b);

// The candidate nearest to the word, first of equals; empty if none is near (distance above a third of the
// longer one).
std::string nearest_name(std::string_view word, std::span<const std::string> candidates);

// ", did you mean 'x'?" or "": the tail of a message about an unknown name.
std::string did_you_mean(std::string_view word, std::span<const std::string> candidates);

}  // namespace plumb
