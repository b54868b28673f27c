// Tables of plain text: columns as wide as their widest cell.
#pragma once

#include <string>
#include <vector>

namespace plumb {

using TextRow = std::vector<std::string>;

// Rows of equal length, the first the head. The first `left` columns stand to the left, the others to the
// right.
std::string text_table(const std::vector<TextRow>& rows, size_t left);

std::string digits(double x);                        // "0.0123", four digits; "-" for what is not a number
std::string percent(double share);                   // "62 %"
std::string quoted_token(const std::string& token);  // "\"the\"", control characters escaped

}  // namespace plumb
