// Errors that a user can cause and mend. Broken invariants of the code itself abort instead
// (src/base/check.h).
#pragma once

#include <stdexcept>
#include <string>

namespace plumb {

enum class ErrorKind {
  usage,        // a flag, a key or an argument
  config,       // a model configuration that cannot be
  input,        // text, labels or token ids
  file,         // missing, unreadable, unwritable, truncated or malformed
  numeric,      // a run whose numbers left the finite
  unsupported,  // well-formed, but not something this build does
  interrupted,  // stopped by the user; what was saved is named in the message
};

// One sentence: what was got, what was expected, which file, tensor or flag, and a hint where there is one.
class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}
  ErrorKind kind() const { return kind_; }

 private:
  ErrorKind kind_;
};

}  // namespace plumb
