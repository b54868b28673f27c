// Zip archives (APPNOTE.TXT 6.3.10, zip64 included) in a mapped file: where each member's bytes lie.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/file.h"

namespace plumb {

struct ZipMember {
  std::string name;
  uint64_t begin = 0, end = 0;  // bytes from the start of the file
};

// The members, sorted by name. Costs memory for the archive's directory and nothing that it merely claims.
// Throws Error(file) for a directory or a member that does not lie in the file and for a name given twice,
// and Error(unsupported) for a member that is compressed, encrypted or in another file. Checksums are not
// looked at.
std::vector<ZipMember> read_zip(const MappedFile& file);

}  // namespace plumb
