// The sub-layers of a run by the names that the probe gives them, and what follows from their formula.
#pragma once

#include <optional>
#include <string>

#include "lab/run_records.h"

namespace plumb {

struct SublayerPlace {
  Side side = Side::decoder;
  int64_t layer = 0;
  std::string part;  // attention, cross_attention, feed_forward
};

// "decoder.3.feed_forward"; nothing for the name of anything else.
std::optional<SublayerPlace> sublayer_place(const std::string& at);

// "layer 3's feed-forward", with "decoder" before it where `both` stacks are there.
std::string in_words(const SublayerPlace& place, bool both);

// Adds to each sub-layer's measures "step.added": rms(g branch) / rms(alpha x), from the formula and, where g
// or alpha is learned, the recorded RMS of it. Left out where there is no shortcut, or a learned factor was
// not recorded. Does nothing without a config.
void add_contributions(RunRecords& run);

}  // namespace plumb
