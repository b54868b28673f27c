// A placement as a picture: the stream runs down on the left, the branch beside it.
#pragma once

#include <string>
#include <vector>

#include "plumb/config.h"

namespace plumb {

struct DrawnSublayer {
  std::string caption;  // "layers 1 to 3"; may be empty
  SublayerFormula formula;
  NormKind norm = NormKind::layer_norm;
};

// One SVG, the sub-layers side by side. Readable on light and dark pages: it brings its own ground.
std::string placement_diagram(const std::vector<DrawnSublayer>& sublayers);

}  // namespace plumb
