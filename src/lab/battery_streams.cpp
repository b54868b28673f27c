// Several residual streams: what the maps between them let grow over depth.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/random.h"
#include "kernels/sinkhorn.h"
#include "lab/battery.h"

namespace plumb::battery {
namespace {

constexpr int64_t kStreams = 4, kMaps = 60;
constexpr uint64_t kDraws = 50;

// Of the product of the first maps, by how many there are: the worst of all draws.
struct Growth {
  std::vector<double> amax = std::vector<double>(kMaps);
  double row_error = 0, column_error = 0;  // of sums, against 1, over all lengths
};

// Each map is I + spread * N(0, 1), as hyper-connections use it, or Sinkhorn's projection of exp() of it, as
// mHC does.
Growth growth(double spread, bool doubly_stochastic) {
  Growth worst;
  for (uint64_t draw = 0; draw < kDraws; ++draw) {
    StreamProduct product(kStreams);
    for (int64_t l = 0; l < kMaps; ++l) {
      double map[kStreams * kStreams];
      for (int64_t i = 0; i < kStreams * kStreams; ++i) {
        const bool diagonal = i / kStreams == i % kStreams;
        map[i] =
            (diagonal ? 1 : 0) + spread * random_normal({11, random_stream(draw, static_cast<uint64_t>(l))},
                                                        static_cast<uint64_t>(i));
      }
      if (doubly_stochastic) sinkhorn_forward(kStreams, map, map);
      product.apply(map);
      const StreamProduct::Gain gain = product.gain();
      double& amax = worst.amax[static_cast<size_t>(l)];
      amax = std::max(amax, gain.amax());
      worst.row_error = std::max({worst.row_error, gain.largest_row - 1, 1 - gain.least_row});
      worst.column_error = std::max({worst.column_error, gain.largest_column - 1, 1 - gain.least_column});
    }
  }
  return worst;
}

}  // namespace

void stream_gain(const Setting&, BatteryExperiment& e) {
  e.x_name = "maps";
  e.y_name = "largest |row or column sum| of their product, worst of 50 draws";
  for (const double spread : {0.1, 0.3}) {
    const Growth free = growth(spread, false), kept = growth(spread, true);
    for (const auto& [name, g] : {std::pair("hyper-connections", &free), {"mhc", &kept}}) {
      BatteryCurve curve{.name = fmt::format("{}, spread {}", name, spread), .y = g->amax};
      for (int64_t l = 1; l <= kMaps; ++l) curve.x.push_back(static_cast<double>(l));
      e.curves.push_back(std::move(curve));
    }
    note(e, fmt::format("hyper-connections, spread {}, 24 maps: largest sum", spread), free.amax[23],
         spread == 0.1 ? "calibrated 10.6" : "calibrated 482");
    add(e, fmt::format("hyper-connections, spread {}, 60 maps: largest sum", spread), free.amax.back(),
        spread == 0.1 ? 10 : 1e3, {},
        spread == 0.1 ? "calibrated 34" : "calibrated 4.5e4; about 3000 in the paper's 27B model");
    add(e, fmt::format("mhc, spread {}, 60 maps: largest sum", spread), kept.amax.back(), {}, 1.05,
        "calibrated at most 1.01; about 1.6 in the paper's 27B model");
    add(e, fmt::format("mhc, spread {}: |row sums - 1|", spread), kept.row_error, {}, 1e-6,
        "0: rows are divided last");
    add(e, fmt::format("mhc, spread {}: |column sums - 1|", spread), kept.column_error, {}, 0.02,
        "within 2 %");
  }
}

}  // namespace plumb::battery
