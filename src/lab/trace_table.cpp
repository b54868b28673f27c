#include "lab/trace_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/json.h"

namespace plumb {
namespace {

size_t characters(const std::string& text) {
  return std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; });
}

}  // namespace

std::string text_table(const std::vector<TextRow>& rows, size_t left) {
  std::vector<size_t> widths(rows.empty() ? 0 : rows[0].size());
  for (const TextRow& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], characters(row[i]));
  }
  std::string text;
  for (const TextRow& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string space(widths[i] - characters(row[i]), ' ');
      line += (i < left ? row[i] + space : space + row[i]) + "  ";
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += "  " + line + "\n";
  }
  return text;
}

std::string digits(double x) {
  return std::isnan(x) ? "-" : fmt::format("{:.4g}", x);
}

std::string percent(double share) {
  return std::isnan(share) ? "-" : fmt::format("{:.{}f} %", 100 * share, std::abs(share) < 0.095 ? 1 : 0);
}

std::string quoted_token(const std::string& token) {
  return quote_json(token);
}

}  // namespace plumb
