// Byte-level pre-tokens (Radford et al. 2019, "Language models are unsupervised multitask learners",
// section 2.2): text is cut by a fixed pattern, and each of the 256 bytes is spelled by one printable
// character in vocabulary files.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "text/regex.h"

namespace plumb {

char32_t byte_to_character(unsigned char byte);
std::optional<unsigned char> character_to_byte(char32_t character);

std::string spell_bytes(std::string_view bytes);  // " the" -> "Ġthe"
// The bytes that a spelling stands for; nothing if it has a character that stands for no byte.
std::optional<std::string> unspell_bytes(std::string_view spelling);

const Regex& gpt2_pattern();

}  // namespace plumb
