#include "data/token_file.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>

#include "base/check.h"
#include "plumb/error.h"

namespace plumb {
namespace {

static_assert(std::endian::native == std::endian::little, "token files are mapped as they are");
static_assert(sizeof(TokenFileHeader) <= kTokenFileHeader);

std::string fault_of(const TokenFileHeader& header, uint64_t size) {
  if (std::memcmp(header.magic, TokenFileHeader().magic, sizeof header.magic) != 0)
    return "it is no token file";
  if (header.version != TokenFileHeader().version) return fmt::format("its version is {}", header.version);
  if (header.id_bytes != 2 && header.id_bytes != 4)
    return fmt::format("its ids have {} bytes", header.id_bytes);
  const uint64_t room = (size - kTokenFileHeader) / header.id_bytes;
  if (header.train_count > room || header.valid_count > room - header.train_count ||
      (header.train_count + header.valid_count) * header.id_bytes + kTokenFileHeader != size) {
    return fmt::format("it has {} bytes, which is not what {} + {} ids of {} bytes take", size,
                       header.train_count, header.valid_count, header.id_bytes);
  }
  return "";
}

}  // namespace

TokenFile::TokenFile(const std::string& path) : file_(path) {
  std::string fault = fmt::format("it has {} bytes, less than its header", file_.size());
  if (file_.size() >= kTokenFileHeader) {
    std::memcpy(&header_, file_.data(), sizeof header_);
    fault = fault_of(header_, file_.size());
  }
  if (!fault.empty())
    throw Error(ErrorKind::file, fmt::format("the token file '{}' cannot be used: {}", path, fault));
}

uint64_t TokenFile::count(Split part) const {
  if (part == Split::test) return 0;
  return part == Split::train ? header_.train_count : header_.valid_count;
}

void TokenFile::read(Split part, uint64_t first, uint64_t count, int32_t* out) const {
  PLUMB_CHECK(first <= this->count(part) && count <= this->count(part) - first);
  if (part == Split::validation) first += header_.train_count;
  const char* from = file_.data() + kTokenFileHeader + first * header_.id_bytes;
  uint32_t highest = 0;
  for (uint64_t i = 0; i < count; ++i) {
    uint32_t id = 0;
    std::memcpy(&id, from + i * header_.id_bytes, header_.id_bytes);
    highest = std::max(highest, id);
    out[i] = static_cast<int32_t>(id);
  }
  if (highest >= header_.vocab_size) {
    throw Error(
        ErrorKind::file,
        fmt::format("the token file '{}' is damaged: it has the id {} of a vocabulary of {}; delete it",
                    path(), highest, header_.vocab_size));
  }
}

}  // namespace plumb
