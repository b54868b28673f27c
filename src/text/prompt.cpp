#include "text/prompt.h"

#include <algorithm>
#include <string>

namespace plumb {
namespace {

Encoding whole(const Tokenizer& tokenizer, std::string_view text) {
  constexpr size_t kAll = size_t{1} << 40;
  return tokenizer.encode_input({text}, {.truncation = Truncation{.max_length = kAll}, .padding = Padding{}});
}

}  // namespace

std::vector<int32_t> prompt_ids(const Tokenizer& tokenizer, std::string_view text) {
  Encoding e = whole(tokenizer, text);
  const auto own = [](uint8_t special) { return special == 0; };
  const auto& mask = e.special_mask;
  auto end = std::find_if(mask.rbegin(), mask.rend(), own).base() - mask.begin();
  if (end == 0) {  // nothing of its own: what would stand before something
    const Encoding some = whole(tokenizer, "a");
    end = std::find_if(some.special_mask.begin(), some.special_mask.end(), own) - some.special_mask.begin();
  }
  e.ids.resize(std::min<size_t>(end, e.ids.size()));
  return std::move(e.ids);
}

}  // namespace plumb
