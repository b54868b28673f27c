#include "text/unicode.h"

#include <unicode/uchar.h>
#include <unicode/unorm2.h>
#include <unicode/uscript.h>
#include <unicode/utf16.h>

#include "base/check.h"

namespace plumb {
namespace {

UChar32 icu(char32_t c) {
  return static_cast<UChar32>(c);
}

// Whether the character was in Unicode `major`.
bool known_in(char32_t c, int major) {
  UVersionInfo age;
  u_charAge(icu(c), age);
  return age[0] != 0 && age[0] <= major;
}

constexpr int kCategories = 8, kNormalization = 9, kScripts = 9;  // versions of Unicode

bool in(char32_t c, uint32_t categories) {
  return (U_MASK(u_charType(icu(c))) & categories) != 0;
}

const UNormalizer2& normalizer(bool compatible) {
  UErrorCode status = U_ZERO_ERROR;
  const UNormalizer2* found = compatible ? unorm2_getNFKCInstance(&status) : unorm2_getNFCInstance(&status);
  PLUMB_CHECK(U_SUCCESS(status), "ICU has its normalization data");
  return *found;
}

}  // namespace

bool is_number(char32_t c) {
  return c < 0x80 ? c >= '0' && c <= '9' : in(c, U_GC_N_MASK);
}

bool is_punctuation(char32_t c) {
  if (c < 0x80)
    return (c > ' ' && c < '0') || (c > '9' && c < 'A') || (c > 'Z' && c < 'a') || (c > 'z' && c < 0x7F);
  if (c == 0x166D || c == 0x111C9) return true;  // until Unicode 12 and 11
  return in(c, U_GC_P_MASK) && known_in(c, kCategories);
}

bool is_other(char32_t c) {
  if (c < 0x80) return c < ' ' || c == 0x7F;
  return in(c, U_GC_CC_MASK | U_GC_CF_MASK | U_GC_CO_MASK) && known_in(c, kCategories);
}

bool is_nonspacing_mark(char32_t c) {
  if (c == 0x1734) return true;                                                 // until Unicode 14
  if (c == 0x1885 || c == 0x1886 || c == 0xA9BD || c == 0x111C9) return false;  // in Unicode 8 they were none
  return c >= 0x300 && in(c, U_GC_MN_MASK) && known_in(c, kCategories);
}

bool is_mark(char32_t c) {
  if (c == 0x1CF2 || c == 0x1CF3) return true;  // until Unicode 12
  return c >= 0x300 && c != 0x111C9 && in(c, U_GC_M_MASK) && known_in(c, kNormalization);
}

bool is_word(char32_t c) {
  if (c < 0x80) return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  return u_hasBinaryProperty(icu(c), UCHAR_ALPHABETIC) || in(c, U_GC_M_MASK | U_GC_ND_MASK | U_GC_PC_MASK) ||
         u_hasBinaryProperty(icu(c), UCHAR_JOIN_CONTROL);
}

bool is_ideograph(char32_t c) {
  struct Range {
    char32_t first, last;
  };
  // The blocks that BERT's own code names.
  static constexpr Range kBlocks[] = {{0x4E00, 0x9FFF},   {0x3400, 0x4DBF},   {0x20000, 0x2A6DF},
                                      {0x2A700, 0x2B73F}, {0x2B740, 0x2B81F}, {0x2B920, 0x2CEAF},
                                      {0xF900, 0xFAFF},   {0x2F800, 0x2FA1F}};
  if (c < 0x3400) return false;
  for (const Range& block : kBlocks) {
    if (c >= block.first && c <= block.last) return true;
  }
  return false;
}

Lower lower_case(char32_t c) {
  if (c < 0x80) return {c >= 'A' && c <= 'Z' ? c + 32 : c, 0};
  if (c == 0x130) return {'i', 0x307};  // the only one that grows
  return {static_cast<char32_t>(u_tolower(icu(c))), 0};
}

int combining_class(char32_t c) {
  return c < 0x300 || !known_in(c, kNormalization) ? 0 : u_getCombiningClass(icu(c));
}

size_t decompose(char32_t c, bool compatible, char32_t (&parts)[32]) {
  parts[0] = c;
  if (c < 0xA0) return 1;
  UChar units[64];
  UErrorCode status = U_ZERO_ERROR;
  const int32_t length = unorm2_getDecomposition(&normalizer(compatible), icu(c), units, 64, &status);
  if (length < 0 || U_FAILURE(status) || !known_in(c, kNormalization)) return 1;
  size_t count = 0;
  for (int32_t i = 0; i < length && count < 32;) {
    UChar32 part;
    U16_NEXT(units, i, length, part);
    parts[count++] = static_cast<char32_t>(part);
  }
  return count;
}

char32_t compose(char32_t first, char32_t second) {
  const UChar32 both = unorm2_composePair(&normalizer(false), icu(first), icu(second));
  return both < 0 || !known_in(static_cast<char32_t>(both), kNormalization) ? 0 : static_cast<char32_t>(both);
}

bool is_inert(char32_t c, bool compatible, bool composed) {
  if (!known_in(c, kNormalization)) return true;
  const UProperty check = composed ? (compatible ? UCHAR_NFKC_QUICK_CHECK : UCHAR_NFC_QUICK_CHECK)
                                   : (compatible ? UCHAR_NFKD_QUICK_CHECK : UCHAR_NFD_QUICK_CHECK);
  return u_getCombiningClass(icu(c)) == 0 && u_getIntPropertyValue(icu(c), check) == UNORM_YES;
}

int script_group(char32_t c) {
  if (c == ' ') return 0;
  if (c == 0x30FC) return USCRIPT_HAN + 1;
  UErrorCode status = U_ZERO_ERROR;
  const UScriptCode script = uscript_getScript(icu(c), &status);
  if (U_FAILURE(status) || script == USCRIPT_UNKNOWN || !known_in(c, kScripts)) return 0;
  if (script == USCRIPT_HIRAGANA || script == USCRIPT_KATAKANA) return USCRIPT_HAN + 1;
  return script + 1;
}

}  // namespace plumb
