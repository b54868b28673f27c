#include "base/gguf.h"

#include <fmt/format.h>

#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "plumb/error.h"

namespace plumb {
namespace {

constexpr std::string_view kMagic = "GGUF";
constexpr uint64_t kMostItems = 1u << 24;  // of a list: a hundred times the largest vocabulary
constexpr int kMostDepth = 3;              // lists in lists

enum Type : uint32_t { u8, i8, u16, i16, u32, i32, f32, boolean, string, list, u64, i64, f64 };

// Bytes that a value takes at least.
size_t least_size(uint32_t type) {
  static constexpr uint8_t kSizes[] = {1, 1, 2, 2, 4, 4, 4, 1, 8, 12, 8, 8, 8};
  return type < sizeof kSizes ? kSizes[type] : 0;
}

class Reader {
 public:
  explicit Reader(const std::string& path) : file_(path) {}

  Json read() {
    if (!is_gguf(file_.bytes())) fail("no GGUF file: it does not begin with \"GGUF\"");
    at_ = kMagic.size();
    const auto version = number<uint32_t>();
    if (version != 2 && version != 3) {
      throw Error(ErrorKind::unsupported,
                  fmt::format("{}: GGUF version {}, expected 2 or 3 (little-endian)", file_.path(), version));
    }
    number<uint64_t>();  // of tensors
    const auto count = number<uint64_t>();
    Json values = Json::object();
    for (uint64_t i = 0; i < count; ++i) {
      key_.clear();
      std::string key = text();
      key_ = key;
      if (values.contains(key)) fail("the key stands there twice");
      values[std::move(key)] = value(number<uint32_t>(), 0);
    }
    return values;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    const std::string of = key_.empty() ? "" : fmt::format("{}: ", quote_json(key_));
    throw Error(ErrorKind::file, fmt::format("{}: {}{} (at byte {})", file_.path(), of, what, at_));
  }
  size_t left() const { return file_.size() - at_; }

  template <typename Number>
  Number number() {
    if (left() < sizeof(Number)) fail("the file ends here");
    Number result;
    std::memcpy(&result, file_.data() + at_, sizeof result);
    at_ += sizeof result;
    return result;
  }

  std::string text() {
    const auto size = number<uint64_t>();
    if (size > left()) fail(fmt::format("a text of {} bytes, of which the file has {}", size, left()));
    std::string result(file_.data() + at_, size);
    at_ += size;
    return result;
  }

  Json items(int depth) {
    const auto type = number<uint32_t>();
    const auto count = number<uint64_t>();
    const size_t each = least_size(type);
    if (each == 0) fail(fmt::format("a list of values of type {}, which is not known", type));
    if (count > left() / each || count > kMostItems)
      fail(fmt::format("a list of {} values, for which {} bytes are there", count, left()));
    if (depth == kMostDepth) fail("lists in lists in lists in a list");
    Json result = Json::array();
    result.get_ref<Json::array_t&>().reserve(count);
    for (uint64_t i = 0; i < count; ++i) result.push_back(value(type, depth + 1));
    return result;
  }

  Json value(uint32_t type, int depth) {
    switch (type) {
      case u8:
        return number<uint8_t>();
      case i8:
        return number<int8_t>();
      case u16:
        return number<uint16_t>();
      case i16:
        return number<int16_t>();
      case u32:
        return number<uint32_t>();
      case i32:
        return number<int32_t>();
      case u64:
        return number<uint64_t>();
      case i64:
        return number<int64_t>();
      case f32:
        return number<float>();
      case f64:
        return number<double>();
      case boolean:
        return number<uint8_t>() != 0;
      case string:
        return text();
      case list:
        return items(depth);
      default:
        fail(fmt::format("a value of type {}, which is not known", type));
    }
  }

  MappedFile file_;
  size_t at_ = 0;
  std::string key_;  // that is being read
};

}  // namespace

bool is_gguf(std::string_view bytes) {
  return bytes.starts_with(kMagic);
}

Json read_gguf_values(const std::string& path) {
  return Reader(path).read();
}

}  // namespace plumb
