#include "base/zip.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/json.h"
#include "plumb/error.h"

namespace plumb {
namespace {

constexpr uint64_t kEndBytes = 22, kLocatorBytes = 20, kEnd64Bytes = 56, kEntryBytes = 46, kLocalBytes = 30;
constexpr uint32_t kEndMark = 0x06054b50, kLocatorMark = 0x07064b50, kEnd64Mark = 0x06064b50,
                   kEntryMark = 0x02014b50, kLocalMark = 0x04034b50;
constexpr uint32_t kInExtra = 0xFFFFFFFF;  // the number stands in the zip64 field
constexpr uint16_t kExtra64 = 1;

class Reader {
 public:
  explicit Reader(const MappedFile& file) : file_(file) {}

  std::vector<ZipMember> read() {
    const auto [begin, end] = directory();
    std::vector<ZipMember> members;
    for (uint64_t at = begin; at < end;) at = read_entry(at, end, members);
    const auto by_name = [](const ZipMember& a, const ZipMember& b) { return a.name < b.name; };
    std::sort(members.begin(), members.end(), by_name);
    for (size_t i = 1; i < members.size(); ++i) {
      if (members[i].name == members[i - 1].name)
        fail(fmt::format("the zip archive holds {} twice", quote_json(members[i].name)));
    }
    return members;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ErrorKind::file, fmt::format("{}: {}", file_.path(), what));
  }

  // bytes from..from + count - 1 lie in the file.
  void expect(uint64_t from, uint64_t count, const char* what) const {
    if (from > file_.size() || count > file_.size() - from)
      fail(fmt::format("{} of the zip archive does not lie in the file: is it cut short?", what));
  }

  template <class T>
  T number(uint64_t at) const {
    T value;
    std::memcpy(&value, file_.data() + at, sizeof(T));
    return value;
  }

  // The record at the end of the file, before a comment.
  uint64_t find_end() const {
    const uint64_t size = file_.size(), furthest = kEndBytes + UINT16_MAX;
    for (uint64_t back = kEndBytes; back <= std::min(size, furthest); ++back) {
      const uint64_t at = size - back;
      if (number<uint32_t>(at) == kEndMark && number<uint16_t>(at + 20) == back - kEndBytes) return at;
    }
    fail("there is no directory of a zip archive at its end: is it cut short?");
  }

  std::pair<uint64_t, uint64_t> directory() const {
    const uint64_t end = find_end();
    uint64_t bytes = number<uint32_t>(end + 12), begin = number<uint32_t>(end + 16);
    if (end >= kLocatorBytes && number<uint32_t>(end - kLocatorBytes) == kLocatorMark) {
      const uint64_t at = number<uint64_t>(end - kLocatorBytes + 8);
      expect(at, kEnd64Bytes, "the zip64 record");
      if (number<uint32_t>(at) != kEnd64Mark) fail("the zip64 record of the zip archive is damaged");
      bytes = number<uint64_t>(at + 40);
      begin = number<uint64_t>(at + 48);
    }
    expect(begin, bytes, "the directory");
    return {begin, begin + bytes};
  }

  // The one that begins at `at` of the directory; where the next one begins.
  uint64_t read_entry(uint64_t at, uint64_t end, std::vector<ZipMember>& members) const {
    if (end - at < kEntryBytes || number<uint32_t>(at) != kEntryMark)
      fail("the directory of the zip archive is damaged");
    const uint64_t name_bytes = number<uint16_t>(at + 28), extra_bytes = number<uint16_t>(at + 30);
    const uint64_t next = at + kEntryBytes + name_bytes + extra_bytes + number<uint16_t>(at + 32);
    if (next > end) fail("the directory of the zip archive is damaged");
    const std::string name(file_.data() + at + kEntryBytes, name_bytes);
    const bool plain = (number<uint16_t>(at + 8) & 1) == 0 && number<uint16_t>(at + 10) == 0 &&
                       number<uint16_t>(at + 34) == 0;
    if (!plain) {
      throw Error(
          ErrorKind::unsupported,
          fmt::format("{}: {} in the zip archive is compressed, encrypted or in another file; plumb reads "
                      "members that are stored as they are",
                      file_.path(), quote_json(name)));
    }
    uint64_t stored = number<uint32_t>(at + 20), whole = number<uint32_t>(at + 24),
             local = number<uint32_t>(at + 42);
    read_extra(at + kEntryBytes + name_bytes, extra_bytes, {&whole, &stored, &local});
    if (stored != whole) fail(fmt::format("{} in the zip archive has two sizes", quote_json(name)));
    const uint64_t begin = data_of(local, name);
    expect(begin, stored, "a member");
    members.push_back({name, begin, begin + stored});
    return next;
  }

  // Where the data of the member begin whose head is at `local`.
  uint64_t data_of(uint64_t local, const std::string& name) const {
    expect(local, kLocalBytes + name.size(), "the head of a member");
    const bool same = number<uint32_t>(local) == kLocalMark && number<uint16_t>(local + 26) == name.size() &&
                      std::memcmp(file_.data() + local + kLocalBytes, name.data(), name.size()) == 0;
    if (!same) fail(fmt::format("{} in the zip archive is not where the directory says", quote_json(name)));
    return local + kLocalBytes + name.size() + number<uint16_t>(local + 28);
  }

  // Those of the numbers that did not fit their 4 bytes, in this order.
  void read_extra(uint64_t at, uint64_t bytes, std::initializer_list<uint64_t*> numbers) const {
    const uint64_t end = at + bytes;
    while (end - at >= 4) {
      const uint64_t from = at + 4, field_end = from + number<uint16_t>(at + 2);
      if (field_end > end) return;
      if (number<uint16_t>(at) == kExtra64) {
        uint64_t next = from;
        for (uint64_t* n : numbers) {
          if (*n != kInExtra || field_end - next < 8) continue;
          *n = number<uint64_t>(next);
          next += 8;
        }
        return;
      }
      at = field_end;
    }
  }

  const MappedFile& file_;
};

}  // namespace

std::vector<ZipMember> read_zip(const MappedFile& file) {
  return Reader(file).read();
}

}  // namespace plumb
