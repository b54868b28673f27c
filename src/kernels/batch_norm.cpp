// Plain loops in f64: BatchNorm is here to be studied, not to be fast.
#include <cmath>
#include <vector>

#include "base/check.h"
#include "kernels/norm.h"
#include "kernels/row_blocks.h"

namespace plumb {
namespace {

// Sums over the real rows: add_row(n, sums) adds row n to `count` sums.
template <class AddRow>
std::vector<double> sum_rows(int64_t rows, const uint8_t* mask, int64_t count, const AddRow& add_row) {
  std::vector<double> parts(block_count(rows, kBlockRows) * count);
  for_blocks(rows, kBlockRows, [&](int64_t b, int64_t first, int64_t last) {
    for (int64_t n = first; n < last; ++n) {
      if (!mask || mask[n]) add_row(n, parts.data() + b * count);
    }
  });
  std::vector<double> sums(count);
  for (size_t i = 0; i < parts.size(); ++i) sums[i % count] += parts[i];
  return sums;
}

int64_t real_rows(int64_t rows, const uint8_t* mask) {
  if (!mask) return rows;
  return rows - std::count(mask, mask + rows, 0);
}

// Mean and variance of each column over the real rows: (C, 2).
std::vector<double> batch_statistics(const BatchNormForward& a, int64_t count) {
  const double over = count > 0 ? 1.0 / static_cast<double>(count) : 0;
  std::vector<double> mean = sum_rows(a.rows, a.mask, a.width, [&](int64_t n, double* sum) {
    for (int64_t c = 0; c < a.width; ++c) sum[c] += a.x[n * a.width + c];
  });
  for (double& m : mean) m *= over;
  const std::vector<double> square = sum_rows(a.rows, a.mask, a.width, [&](int64_t n, double* sum) {
    for (int64_t c = 0; c < a.width; ++c) {
      const double v = a.x[n * a.width + c] - mean[c];
      sum[c] += v * v;
    }
  });
  std::vector<double> stats(2 * a.width);
  for (int64_t c = 0; c < a.width; ++c) {
    stats[2 * c] = mean[c];
    stats[2 * c + 1] = square[c] * over;
  }
  return stats;
}

void update_running(const BatchNormForward& a, const std::vector<double>& stats, int64_t count) {
  const double m = a.momentum, rows = static_cast<double>(count);
  for (int64_t c = 0; c < a.width; ++c) {
    if (a.running_mean && count > 0) {
      a.running_mean[c] = static_cast<float>((1 - m) * a.running_mean[c] + m * stats[2 * c]);
    }
    if (a.running_var && count > 1) {
      const double unbiased = stats[2 * c + 1] * rows / (rows - 1);
      a.running_var[c] = static_cast<float>((1 - m) * a.running_var[c] + m * unbiased);
    }
  }
}

}  // namespace

void batch_norm_forward(const BatchNormForward& a) {
  PLUMB_CHECK(a.rows >= 0 && a.width > 0 && a.eps > 0, "{} rows of {}, eps {}", a.rows, a.width, a.eps);
  PLUMB_CHECK(a.training || (a.running_mean && a.running_var), "evaluation needs the running statistics");
  std::vector<double> stats(2 * a.width);
  if (a.training) {
    const int64_t count = real_rows(a.rows, a.mask);
    stats = batch_statistics(a, count);
    update_running(a, stats, count);
  } else {
    for (int64_t c = 0; c < a.width; ++c) {
      stats[2 * c] = a.running_mean[c];
      stats[2 * c + 1] = a.running_var[c];
    }
  }
  for (int64_t c = 0; c < a.width; ++c) stats[2 * c + 1] = 1 / std::sqrt(stats[2 * c + 1] + a.eps);
  if (a.stats) std::copy(stats.begin(), stats.end(), a.stats);
  for_blocks(a.rows, kBlockRows, [&](int64_t, int64_t first, int64_t last) {
    for (int64_t n = first; n < last; ++n) {
      const bool real = !a.mask || a.mask[n];
      for (int64_t c = 0; c < a.width; ++c) {
        const double xhat = (a.x[n * a.width + c] - stats[2 * c]) * stats[2 * c + 1];
        const double y = xhat * (a.gain ? a.gain[c] : 1) + (a.bias ? a.bias[c] : 0);
        a.y[n * a.width + c] = real ? static_cast<float>(y) : 0.0f;
      }
    }
  });
}

// With h = dy * gain: dx = (h - mean(h) - xhat * mean(h * xhat)) / deviation, the means over the real rows.
void batch_norm_backward(const BatchNormBackward& a) {
  PLUMB_CHECK(a.rows >= 0 && a.width > 0, "{} rows of {}", a.rows, a.width);
  const auto xhat = [&](int64_t n, int64_t c) {
    return (a.x[n * a.width + c] - a.stats[2 * c]) * a.stats[2 * c + 1];
  };
  const std::vector<double> sums = sum_rows(a.rows, a.mask, 2 * a.width, [&](int64_t n, double* sum) {
    for (int64_t c = 0; c < a.width; ++c) {
      const double dy = a.dy[n * a.width + c];
      sum[2 * c] += dy;
      sum[2 * c + 1] += dy * xhat(n, c);
    }
  });
  const int64_t count = real_rows(a.rows, a.mask);
  const double over = a.training && count > 0 ? 1.0 / static_cast<double>(count) : 0;
  for_blocks(a.dx ? a.rows : 0, kBlockRows, [&](int64_t, int64_t first, int64_t last) {
    for (int64_t n = first; n < last; ++n) {
      const bool real = !a.mask || a.mask[n];
      for (int64_t c = 0; c < a.width; ++c) {
        const double inner = a.dy[n * a.width + c] - over * (sums[2 * c] + xhat(n, c) * sums[2 * c + 1]);
        const double d = real ? inner * (a.gain ? a.gain[c] : 1) * a.stats[2 * c + 1] : 0;
        float& dx = a.dx[n * a.width + c];
        dx = static_cast<float>(a.add_x ? dx + d : d);
      }
    }
  });
  for (int64_t c = 0; c < a.width; ++c) {
    if (a.dbias) a.dbias[c] = static_cast<float>((a.add_bias ? a.dbias[c] : 0.0) + sums[2 * c]);
    if (a.dgain) a.dgain[c] = static_cast<float>((a.add_gain ? a.dgain[c] : 0.0) + sums[2 * c + 1]);
  }
}

}  // namespace plumb
