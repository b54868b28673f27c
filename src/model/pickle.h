// Python's pickles as far as weights need them: protocol 2, its opcodes for plain data and for calls, and of
// everything that can be named only what the reader's caller allows. Nothing is ever called: a call stays
// what would be called and its arguments. https://docs.python.org/3/library/pickletools.html lists the
// opcodes.
//
// Nothing here recurses, and each byte makes at most one value, so a pickle costs memory and time by its
// size, which is limited.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace plumb {

constexpr uint64_t kMaxPickleBytes = 32'000'000;
constexpr size_t kMaxPickleValues = 4'000'000;  // a tensor takes about 16
constexpr size_t kMaxPickleDepth = 64;

struct PickleValue {
  enum class Kind { none, boolean, integer, real, text, list, tuple, dict, global, call, persistent };
  Kind kind = Kind::none;
  int64_t integer = 0;          // of an integer, and 0 or 1 of a boolean
  std::string_view text;        // of a text, in the pickle; of a global, "module.name"
  std::vector<uint32_t> items;  // of a list and a tuple; key, value, ... of a dict; a call's callee and its
                                // arguments' tuple; what a persistent id is
};

struct Pickle {
  std::vector<PickleValue> values;  // items are places in it; a value may be an item of many, and of itself
  uint32_t root = 0;
};

// collections.OrderedDict is known, and a dict here. Throws Error(unsupported) naming a global that is not
// among `globals` or an opcode that is not read, Error(file) for one that is damaged. `name` stands in
// messages. Texts of the result are in `bytes` and in `globals`.
Pickle read_pickle(std::string_view bytes, std::span<const std::string_view> globals,
                   const std::string& name);

}  // namespace plumb
