#include "model/pickle.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "base/json.h"
#include "base/utf8.h"
#include "plumb/error.h"

namespace plumb {
namespace {

using Kind = PickleValue::Kind;

constexpr std::string_view kOrderedDict = "collections.OrderedDict";
constexpr uint8_t kProtocol = 2;

enum Opcode : uint8_t {
  kMark = '(',
  kStop = '.',
  kEmptyTuple = ')',
  kBinFloat = 'G',
  kBinInt = 'J',
  kBinInt1 = 'K',
  kBinInt2 = 'M',
  kNone = 'N',
  kBinPersistent = 'Q',
  kReduce = 'R',
  kBinUnicode = 'X',
  kEmptyList = ']',
  kAppend = 'a',
  kBuild = 'b',
  kGlobal = 'c',
  kAppends = 'e',
  kBinGet = 'h',
  kLongBinGet = 'j',
  kBinPut = 'q',
  kLongBinPut = 'r',
  kSetItem = 's',
  kTuple = 't',
  kSetItems = 'u',
  kEmptyDict = '}',
  kProto = 0x80,
  kTuple1 = 0x85,
  kTuple2 = 0x86,
  kTuple3 = 0x87,
  kNewTrue = 0x88,
  kNewFalse = 0x89,
  kLong1 = 0x8a,
};

// The stack machine that a pickle is a program of.
class Machine {
 public:
  Machine(std::string_view bytes, std::span<const std::string_view> globals, const std::string& name)
      : bytes_(bytes), globals_(globals), name_(name) {}

  Pickle run() {
    if (bytes_.size() > kMaxPickleBytes) {
      fail(fmt::format("has {} bytes, more than the {} that weights may need", bytes_.size(),
                       kMaxPickleBytes));
    }
    for (;;) {
      const auto op = number<uint8_t>();
      if (op == kStop) break;
      if (!read_number(op) && !read_text(op) && !read_memo(op) && !build_tuple(op) && !fill(op) &&
          !call(op)) {
        throw Error(
            ErrorKind::unsupported,
            fmt::format("{}: the pickle has the opcode 0x{:02x} at byte {}, which files of weights don't "
                        "need; plumb reads no others",
                        name_, op, at_ - 1));
      }
    }
    pickle_.root = pop();
    return std::move(pickle_);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ErrorKind::file, fmt::format("{}: the pickle {} (at byte {})", name_, what, at_));
  }

  std::string_view take(uint64_t count) {
    if (count > bytes_.size() - at_) fail("ends too early");
    at_ += count;
    return bytes_.substr(at_ - count, count);
  }

  template <class T>
  T number() {
    T value;
    std::memcpy(&value, take(sizeof(T)).data(), sizeof(T));
    return value;
  }

  std::string_view line() {
    const size_t end = bytes_.find('\n', at_);
    if (end == bytes_.npos) fail("ends too early");
    const std::string_view text = take(end - at_);
    take(1);
    return text;
  }

  void push(PickleValue value) {
    if (pickle_.values.size() == kMaxPickleValues)
      fail(fmt::format("has more than {} values", kMaxPickleValues));
    stack_.push_back(static_cast<uint32_t>(pickle_.values.size()));
    pickle_.values.push_back(std::move(value));
  }

  // What the innermost mark lets one take from the stack.
  size_t available() const { return stack_.size() - (marks_.empty() ? 0 : marks_.back()); }

  uint32_t pop() {
    if (available() == 0) fail("takes a value from an empty stack");
    const uint32_t top = stack_.back();
    stack_.pop_back();
    return top;
  }

  std::vector<uint32_t> pop(size_t count) {
    if (available() < count) fail("takes a value from an empty stack");
    std::vector<uint32_t> items(stack_.end() - static_cast<ptrdiff_t>(count), stack_.end());
    stack_.resize(stack_.size() - count);
    return items;
  }

  std::vector<uint32_t> pop_to_mark() {
    if (marks_.empty()) fail("goes back to a mark that it did not set");
    std::vector<uint32_t> items = pop(available());
    marks_.pop_back();
    return items;
  }

  PickleValue& top(Kind kind, const char* what) {
    if (available() == 0) fail("takes a value from an empty stack");
    PickleValue& value = pickle_.values[stack_.back()];
    if (value.kind != kind) fail(fmt::format("adds {} to something else", what));
    return value;
  }

  void integer(int64_t value) { push({.kind = Kind::integer, .integer = value}); }

  bool read_number(uint8_t op) {
    switch (op) {
      case kProto:
        if (const auto version = number<uint8_t>(); version != kProtocol) {
          throw Error(
              ErrorKind::unsupported,
              fmt::format("{}: a pickle of protocol {}; plumb reads protocol {}, which torch.save writes "
                          "by default",
                          name_, version, kProtocol));
        }
        return true;
      case kNone:
        push({});
        return true;
      case kNewTrue:
      case kNewFalse:
        push({.kind = Kind::boolean, .integer = op == kNewTrue});
        return true;
      case kBinInt:
        integer(number<int32_t>());
        return true;
      case kBinInt1:
        integer(number<uint8_t>());
        return true;
      case kBinInt2:
        integer(number<uint16_t>());
        return true;
      case kLong1:
        integer(long_number());
        return true;
      case kBinFloat:
        take(8);
        push({.kind = Kind::real});
        return true;
      default:
        return false;
    }
  }

  // Little-endian, of as many bytes as needed, the last one with the sign.
  int64_t long_number() {
    const std::string_view digits = take(number<uint8_t>());
    if (digits.size() > sizeof(int64_t)) fail("has a whole number beyond 64 bits");
    if (digits.empty()) return 0;
    int64_t value = static_cast<signed char>(digits.back()) < 0 ? -1 : 0;
    std::memcpy(&value, digits.data(), digits.size());
    return value;
  }

  bool read_text(uint8_t op) {
    if (op == kBinUnicode) {
      const std::string_view text = take(number<uint32_t>());
      if (utf8_fault(text) != kUtf8Valid) fail("has a text that is not UTF-8");
      push({.kind = Kind::text, .text = text});
      return true;
    }
    if (op != kGlobal) return false;
    const std::string_view module = line();
    const std::string named = fmt::format("{}.{}", module, line());
    const auto known = std::find(globals_.begin(), globals_.end(), named);
    if (known == globals_.end() && named != kOrderedDict) {
      throw Error(
          ErrorKind::unsupported,
          fmt::format(
              "{}: the pickle names {}, which weights don't need; plumb reads tensors alone and calls "
              "nothing",
              name_, quote_json(named.substr(0, 200))));
    }
    push({.kind = Kind::global, .text = known == globals_.end() ? kOrderedDict : *known});
    return true;
  }

  bool read_memo(uint8_t op) {
    switch (op) {
      case kBinPut:
      case kLongBinPut:
        if (available() == 0) fail("keeps a value of an empty stack");
        if (memo_.size() == kMaxPickleValues)
          fail(fmt::format("keeps more than {} values", kMaxPickleValues));
        memo_[op == kBinPut ? number<uint8_t>() : number<uint32_t>()] = stack_.back();
        return true;
      case kBinGet:
      case kLongBinGet: {
        const auto kept = memo_.find(op == kBinGet ? number<uint8_t>() : number<uint32_t>());
        if (kept == memo_.end()) fail("takes a value that it did not keep");
        stack_.push_back(kept->second);
        return true;
      }
      default:
        return false;
    }
  }

  bool build_tuple(uint8_t op) {
    switch (op) {
      case kMark:
        if (marks_.size() == kMaxPickleDepth) fail(fmt::format("nests deeper than {}", kMaxPickleDepth));
        marks_.push_back(stack_.size());
        return true;
      case kEmptyTuple:
        push({.kind = Kind::tuple});
        return true;
      case kTuple1:
      case kTuple2:
      case kTuple3:
        push({.kind = Kind::tuple, .items = pop(op - kTuple1 + 1)});
        return true;
      case kTuple:
        push({.kind = Kind::tuple, .items = pop_to_mark()});
        return true;
      default:
        return false;
    }
  }

  // Lists and dicts, which are made empty and then added to.
  bool fill(uint8_t op) {
    switch (op) {
      case kEmptyList:
        push({.kind = Kind::list});
        return true;
      case kEmptyDict:
        push({.kind = Kind::dict});
        return true;
      case kAppend:
      case kAppends: {
        const std::vector<uint32_t> items = op == kAppend ? pop(1) : pop_to_mark();
        add(items, top(Kind::list, "an item"));
        return true;
      }
      case kSetItem:
      case kSetItems: {
        const std::vector<uint32_t> pairs = op == kSetItem ? pop(2) : pop_to_mark();
        if (pairs.size() % 2 != 0) fail("adds a key without its value");
        add(pairs, top(Kind::dict, "a key"));
        return true;
      }
      default:
        return false;
    }
  }

  static void add(const std::vector<uint32_t>& items, PickleValue& to) {
    to.items.insert(to.items.end(), items.begin(), items.end());
  }

  bool call(uint8_t op) {
    switch (op) {
      case kBinPersistent:
        push({.kind = Kind::persistent, .items = pop(1)});
        return true;
      case kReduce:
        reduce(pop(2));
        return true;
      case kBuild:  // attributes of a dict: versions of modules
        pop();
        top(Kind::dict, "attributes");
        return true;
      default:
        return false;
    }
  }

  void reduce(std::vector<uint32_t> call) {
    const PickleValue &callee = pickle_.values[call[0]], &arguments = pickle_.values[call[1]];
    if (callee.kind != Kind::global || arguments.kind != Kind::tuple)
      fail("calls something that can't be called");
    if (callee.text != kOrderedDict) return push({.kind = Kind::call, .items = std::move(call)});
    if (!arguments.items.empty()) fail("makes an OrderedDict of something");
    push({.kind = Kind::dict});
  }

  std::string_view bytes_;
  std::span<const std::string_view> globals_;
  const std::string& name_;
  uint64_t at_ = 0;
  Pickle pickle_;
  std::vector<uint32_t> stack_;
  std::vector<size_t> marks_;
  std::unordered_map<uint32_t, uint32_t> memo_;
};

}  // namespace

Pickle read_pickle(std::string_view bytes, std::span<const std::string_view> globals,
                   const std::string& name) {
  return Machine(bytes, globals, name).run();
}

}  // namespace plumb
