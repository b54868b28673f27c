// The head of a GGUF file (versions 2 and 3, little-endian): keys and values about what the file holds.
#pragma once

#include <string>

#include "base/json.h"

namespace plumb {

// Whether a file's first bytes are those of a GGUF.
bool is_gguf(std::string_view bytes);

// The keys with their values as a JSON object; strings as the file has them, which need not be UTF-8.
// Error(file) names the key and the byte where the file is cut, declares more than it holds, repeats a key
// or has a type that is not known. Nothing is allocated for what is declared and not there.
Json read_gguf_values(const std::string& path);

}  // namespace plumb
