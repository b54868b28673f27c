// Reads the wire format of Protocol Buffers: a message is fields one after another, each with a number.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace plumb {

class ProtobufReader {
 public:
  // bytes: of a message, which must outlive the reader; name: of the file; offset: where they stand in it.
  ProtobufReader(std::string_view bytes, const std::string& name, size_t offset = 0)
      : bytes_(bytes), name_(name), offset_(offset) {}

  // Goes to the next field, past the one before whether it was read or not; false at the end. Every read
  // throws Error(file) with the byte where the message is cut or the field is of another kind.
  bool next();
  uint32_t field() const { return field_; }

  uint64_t whole();  // any integer or enum
  bool flag() { return whole() != 0; }
  float f32();
  std::string_view bytes();  // a string, bytes or a message
  ProtobufReader message();

 private:
  enum class Kind { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };
  [[noreturn]] void fail(const std::string& what) const;
  uint64_t varint();
  std::string_view take(uint64_t count);
  void expect(Kind kind) const;

  std::string_view bytes_;
  std::string name_;
  size_t offset_, at_ = 0;
  uint32_t field_ = 0;
  Kind kind_ = Kind::varint;
  bool pending_ = false;  // the field's value was not read yet
};

}  // namespace plumb
