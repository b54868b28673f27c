#define PCRE2_CODE_UNIT_WIDTH 8
#include "text/regex.h"

#include <fmt/format.h>
#include <pcre2.h>

#include "base/utf8.h"
#include "plumb/error.h"
#include "text/regex_syntax.h"

namespace plumb {
namespace {

constexpr uint32_t kMostSteps = 10'000'000;  // a match of a pre-token takes tens
constexpr size_t kSmallStack = 32 << 10, kLargeStack = 16 << 20;

// What a compiled pattern remembers its alternatives on; a thread's own, made when a pattern first needs it.
pcre2_jit_stack* thread_stack(void*) {
  struct Stack {
    pcre2_jit_stack* stack = pcre2_jit_stack_create(kSmallStack, kLargeStack, nullptr);
    ~Stack() { pcre2_jit_stack_free(stack); }
  };
  thread_local Stack stack;
  return stack.stack;
}

std::string reason(int code) {
  PCRE2_UCHAR text[256];
  pcre2_get_error_message(code, text, sizeof text);
  return reinterpret_cast<const char*>(text);
}

}  // namespace

Regex::Regex(const std::string& pattern, const std::string& shown) : pattern_(shown) {
  int code = 0;
  size_t place = 0;
  pcre2_code* compiled = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                                       PCRE2_UTF | PCRE2_UCP, &code, &place, nullptr);
  if (!compiled) {
    throw Error(ErrorKind::unsupported, fmt::format("the pattern '{}' cannot be followed: {} at offset {}",
                                                    shown, reason(code), place));
  }
  code_ = std::shared_ptr<void>(compiled, [](void* p) { pcre2_code_free(static_cast<pcre2_code*>(p)); });
  pcre2_jit_compile(compiled, PCRE2_JIT_COMPLETE);  // without a JIT the interpreter gives the same matches
  pcre2_match_context* context = pcre2_match_context_create(nullptr);
  context_ = std::shared_ptr<void>(
      context, [](void* p) { pcre2_match_context_free(static_cast<pcre2_match_context*>(p)); });
  pcre2_set_match_limit(context, kMostSteps);
  pcre2_jit_stack_assign(context, thread_stack, nullptr);
}

Regex Regex::ruby(const std::string& pattern) {
  return {"(*LF)" + pcre_pattern(pattern), pattern};
}

Regex::Matches::Matches(const Regex& regex, std::string_view text)
    : regex_(regex), text_(text), scratch_(pcre2_match_data_create(1, nullptr)) {}

Regex::Matches::~Matches() {
  pcre2_match_data_free(static_cast<pcre2_match_data*>(scratch_));
}

bool Regex::Matches::next(size_t& begin, size_t& end) {
  const auto* code = static_cast<const pcre2_code*>(regex_.code_.get());
  auto* data = static_cast<pcre2_match_data*>(scratch_);
  while (position_ <= text_.size()) {
    const int result =
        pcre2_match(code, reinterpret_cast<PCRE2_SPTR>(text_.data()), text_.size(), position_,
                    PCRE2_NO_UTF_CHECK, data, static_cast<pcre2_match_context*>(regex_.context_.get()));
    if (result == PCRE2_ERROR_NOMATCH) break;
    if (result < 0) {
      throw Error(ErrorKind::input, fmt::format("the pattern '{}' gave up at byte {} of a text of {}: {}",
                                                regex_.pattern_, position_, text_.size(), reason(result)));
    }
    const size_t* range = pcre2_get_ovector_pointer(data);
    begin = range[0];
    end = range[1];
    if (begin > end || begin < position_) break;  // \K that a look-around calls
    if (begin != end || begin != last_) {
      position_ = last_ = end;
      return true;
    }
    if (position_ == text_.size()) break;
    next_code_point(text_, position_);
  }
  return false;
}

}  // namespace plumb
