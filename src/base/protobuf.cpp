#include "base/protobuf.h"

#include <fmt/format.h>

#include <cstring>

#include "plumb/error.h"

namespace plumb {

void ProtobufReader::fail(const std::string& what) const {
  throw Error(ErrorKind::file,
              fmt::format("{}: {} (field {}, at byte {})", name_, what, field_, offset_ + at_));
}

uint64_t ProtobufReader::varint() {
  uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    if (at_ == bytes_.size()) fail("the file ends inside a number");
    const auto byte = static_cast<unsigned char>(bytes_[at_++]);
    value |= static_cast<uint64_t>(byte & 0x7F) << shift;
    if (byte < 0x80) return value;
  }
  fail("a number of more than ten bytes");
}

std::string_view ProtobufReader::take(uint64_t count) {
  if (count > bytes_.size() - at_)
    fail(fmt::format("{} bytes are declared, of which {} are there", count, bytes_.size() - at_));
  const std::string_view result = bytes_.substr(at_, count);
  at_ += count;
  return result;
}

void ProtobufReader::expect(Kind kind) const {
  if (kind_ != kind || !pending_) fail("a value of another kind than expected");
}

bool ProtobufReader::next() {
  if (pending_) {
    switch (kind_) {
      case Kind::varint:
        varint();
        break;
      case Kind::fixed64:
        take(8);
        break;
      case Kind::bytes:
        take(varint());
        break;
      case Kind::fixed32:
        take(4);
        break;
    }
  }
  pending_ = at_ < bytes_.size();
  if (!pending_) return false;
  const uint64_t key = varint();
  if (key >> 3 == 0 || key >> 3 > 0x1FFFFFFF) fail("no number of a field");
  field_ = static_cast<uint32_t>(key >> 3);
  if ((key & 7) > 5 || (key & 7) == 3 || (key & 7) == 4) fail(fmt::format("a value of kind {}", key & 7));
  kind_ = static_cast<Kind>(key & 7);
  return true;
}

uint64_t ProtobufReader::whole() {
  expect(Kind::varint);
  pending_ = false;
  return varint();
}

float ProtobufReader::f32() {
  expect(Kind::fixed32);
  pending_ = false;
  float result;
  std::memcpy(&result, take(4).data(), sizeof result);
  return result;
}

std::string_view ProtobufReader::bytes() {
  expect(Kind::bytes);
  pending_ = false;
  return take(varint());
}

ProtobufReader ProtobufReader::message() {
  const std::string_view inside = bytes();
  return {inside, name_, offset_ + at_ - inside.size()};
}

}  // namespace plumb
