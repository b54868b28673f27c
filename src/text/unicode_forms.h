// NFC, NFD, NFKC and NFKD (Unicode Standard Annex 15) that keep the places of what they change.
#pragma once

#include "text/aligned.h"

namespace plumb {

struct UnicodeForm {
  bool compatible = false;  // K
  bool composed = false;    // C
};

void normalize(Aligned& text, UnicodeForm form);

}  // namespace plumb
