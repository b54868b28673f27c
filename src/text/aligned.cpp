#include "text/aligned.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/utf8.h"
#include "plumb/error.h"

namespace plumb {
namespace {

constexpr size_t kMostGrowth = 1024;      // of a text in all steps
constexpr size_t kMostGrowthOfStep = 64;  // so that the step that goes too far does not go much farther

[[noreturn]] void refuse_growth(size_t before, size_t after) {
  throw Error(ErrorKind::input,
              fmt::format("the tokenizer's steps make more than {} bytes of a text of {}", after, before));
}

}  // namespace

void check_growth(size_t before, size_t after) {
  if (after / kMostGrowth > before + 1024) refuse_growth(before, after);
}

void Rewrite::pass() {
  if (at_ < from_.text.size()) next_code_point(from_.text, at_);
}

void Rewrite::put(char32_t c, int change) {
  const size_t before = text_.size();
  append_utf8(text_, c);
  if (from_.tracked) {
    TextSpan place = {from_.origin, from_.origin};
    if (change <= 0) place = from_.place(at_);
    if (change > 0 && at_ > 0) place = from_.place(at_ - 1);
    places_.insert(places_.end(), text_.size() - before, place);
  }
  for (int passed = change; passed <= 0; ++passed) pass();
}

void Rewrite::put(std::string_view utf8, TextSpan place) {
  text_ += utf8;
  if (text_.size() / kMostGrowthOfStep > from_.text.size() + (1 << 14))
    refuse_growth(from_.text.size(), text_.size());
  if (from_.tracked) places_.insert(places_.end(), utf8.size(), place);
}

void Rewrite::keep(size_t end) {
  text_.append(from_.text, at_, end - at_);
  if (from_.tracked) {
    places_.insert(places_.end(), from_.places.begin() + static_cast<ptrdiff_t>(at_),
                   from_.places.begin() + static_cast<ptrdiff_t>(end));
  }
  at_ = end;
}

void Rewrite::finish(Aligned& to) {
  to.text = std::move(text_);
  to.places = std::move(places_);
}

}  // namespace plumb
