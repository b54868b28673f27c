#include "lab/compare_kinds.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/reduce.h"
#include "lab/compare_predictions.h"

namespace plumb {
namespace {

// What a fit leaves of the values it is to explain.
double left_of(const Tensor& predicted, const Tensor& other) {
  return relative_difference(predicted, other);
}

std::optional<Fault> missing_norm(const Predictor& p, const Kept& place, const Tensor& other,
                                  const Judge& judge) {
  for (const Prediction& without : without_norm(p, place)) {
    if (!judge.right(left_of(without.value, other))) continue;
    return Fault{FaultKind::missing_norm, fmt::format("{} lacks {}'s {}", p.other, p.mine, without.what)};
  }
  return std::nullopt;
}

std::optional<Fault> missing_residual(const Predictor& p, const Kept& place, const Tensor& other,
                                      const Judge& judge) {
  for (const Prediction& without : without_residual(p, place)) {
    if (!judge.right(left_of(without.value, other))) continue;
    return Fault{FaultKind::missing_residual,
                 fmt::format("{} adds no stream in {}: it hands on the branch alone", p.other, place.module)};
  }
  return std::nullopt;
}

std::optional<Fault> transposed(const Predictor& p, const Kept& place, const Tensor& other,
                                const Judge& judge) {
  for (const Prediction& turned : with_transposed_matrix(p, place)) {
    if (!judge.right(left_of(turned.value, other))) continue;
    return Fault{FaultKind::transposed,
                 fmt::format("{}'s {} is {}'s transposed", p.other, turned.what, p.mine)};
  }
  return std::nullopt;
}

std::optional<Fault> permuted_heads(const Predictor& p, const Kept& place, const Tensor& other) {
  const int64_t dim = head_dim_of(p, place);
  if (dim == 0 || other.width() % dim != 0) return std::nullopt;
  const auto order =
      permutation_of(place.value, other, other.width() / dim, [dim](const Tensor& t, int64_t head) {
        std::vector<float> block;
        for (int64_t r = 0; r < t.rows(); ++r) {
          const float* row = t.f32() + r * t.width() + head * dim;
          block.insert(block.end(), row, row + dim);
        }
        return block;
      });
  if (order.empty()) return std::nullopt;
  return Fault{FaultKind::head_permutation,
               fmt::format("the heads of {}'s {} are {}'s in the order {}", p.other, place.name(), p.mine,
                           fmt::join(order, ", "))};
}

std::optional<Fault> moved_positions(const Predictor& p, const Kept& place, const Tensor& other,
                                     const Judge& judge) {
  for (const Prediction& moved : with_moved_positions(p, place)) {
    // Tokens whose moved position the table has.
    const int64_t rows = moved.last - moved.first;
    const Tensor part = other.reshape({other.rows(), other.width()}).rows_view(moved.first, rows);
    if (!judge.right(left_of(moved.value, part))) continue;
    return Fault{FaultKind::position_offset,
                 fmt::format("{} counts positions from {} where {} counts from 0, at {}", p.other, moved.what,
                             p.mine, place.name())};
  }
  return std::nullopt;
}

std::optional<Fault> other_pairing(const Predictor& p, const Kept& place, const Tensor& other,
                                   const Judge& judge) {
  for (const Prediction& paired : with_other_pairing(p, place)) {
    if (!judge.right(left_of(paired.value, other))) continue;
    return Fault{FaultKind::rotary_pairing,
                 fmt::format("{} pairs {} of a head in rotary positions, which {} does not, at {}", p.other,
                             paired.what, p.mine, place.name())};
  }
  return std::nullopt;
}

std::optional<Fault> other_mask(const Predictor& p, const Kept& place, const Tensor& other,
                                const Judge& judge) {
  for (const Prediction& masked : with_other_mask(p, place)) {
    if (!judge.right(left_of(masked.value, other))) continue;
    return Fault{FaultKind::other_mask,
                 fmt::format("{} {} than {}'s, at {}", p.other, masked.what, p.mine, place.module)};
  }
  return std::nullopt;
}

// other = mine + d, with d of each column alike for every token: a bias.
std::optional<Fault> shifted_by_column(const Tensor& mine, const Tensor& other, const Judge& judge,
                                       const std::string& whose) {
  const int64_t rows = mine.rows(), width = mine.width();
  if (rows < 2) return std::nullopt;
  std::vector<double> d(width);
  for (int64_t i = 0; i < mine.numel(); ++i) d[i % width] += (other.f32()[i] - mine.f32()[i]) / double(rows);
  Tensor predicted = mine.clone();
  double squares = 0;
  for (int64_t i = 0; i < mine.numel(); ++i) predicted.f32()[i] += static_cast<float>(d[i % width]);
  for (const double x : d) squares += x * x;
  if (!judge.right(left_of(predicted, other))) return std::nullopt;
  return Fault{FaultKind::shift,
               fmt::format("{} is the same plus one vector for every token, of RMS {:.4g}: a bias", whose,
                           std::sqrt(squares / static_cast<double>(width)))};
}

// Rows that no earlier one equals: a token that comes again tells nothing new.
int64_t distinct_rows(const Tensor& x) {
  const int64_t width = x.width();
  int64_t count = 0;
  for (int64_t r = 0; r < x.rows(); ++r) {
    const auto equals = [&](int64_t earlier) {
      return std::equal(x.f32() + r * width, x.f32() + (r + 1) * width, x.f32() + earlier * width);
    };
    bool seen = false;
    for (int64_t earlier = 0; earlier < r && !seen; ++earlier) seen = equals(earlier);
    count += !seen;
  }
  return count;
}

// other = c mine + d with c and d of their own for each column: the gain of a norm, with its bias or without.
// More tokens than unknowns, or it would always fit.
std::optional<Fault> scaled_by_column(const Tensor& mine, const Tensor& other, const Judge& judge,
                                      const std::string& whose) {
  const int64_t rows = mine.rows(), width = mine.width();
  if (distinct_rows(mine) < 4) return std::nullopt;
  const auto n = static_cast<double>(rows);
  Tensor predicted = mine.clone();
  double offsets = 0;
  for (int64_t i = 0; i < width; ++i) {
    double x = 0, y = 0, xx = 0, xy = 0;
    for (int64_t at = i; at < mine.numel(); at += width) {
      x += mine.f32()[at] / n;
      y += other.f32()[at] / n;
    }
    for (int64_t at = i; at < mine.numel(); at += width) {
      xx += (mine.f32()[at] - x) * (mine.f32()[at] - x);
      xy += (mine.f32()[at] - x) * (other.f32()[at] - y);
    }
    const double c = xx > 0 ? xy / xx : 0, d = y - c * x;
    for (int64_t at = i; at < mine.numel(); at += width)
      predicted.f32()[at] = static_cast<float>(c * mine.f32()[at] + d);
    offsets += d * d * n;
  }
  if (!judge.right(left_of(predicted, other))) return std::nullopt;
  const bool shifts = std::sqrt(offsets / sum_of_squares(other.numel(), other.f32())) > 1e-3;
  return Fault{FaultKind::scale,
               whose + (shifts ? " is the same times one factor and plus one number for each column: a gain "
                                 "beside a bias"
                               : " is the same times one factor for each column: a gain")};
}

// other = positions + c (mine - positions): an embedding of another scale, to which positions are added.
std::optional<Fault> scaled_tokens(const Predictor& p, const Kept& place, const Tensor& other,
                                   const Judge& judge) {
  const Tensor positions = positions_in(p, place);
  if (!positions.defined()) return std::nullopt;
  double xx = 0, xy = 0;
  const auto token = [&](const Tensor& of, int64_t i) { return double{of.f32()[i]} - positions.f32()[i]; };
  for (int64_t i = 0; i < other.numel(); ++i) {
    xx += token(place.value, i) * token(place.value, i);
    xy += token(place.value, i) * token(other, i);
  }
  Tensor predicted = place.value.clone();
  for (int64_t i = 0; i < other.numel(); ++i)
    predicted.f32()[i] = static_cast<float>(positions.f32()[i] + xy / xx * token(place.value, i));
  if (!judge.right(left_of(predicted, other))) return std::nullopt;
  return Fault{FaultKind::scale,
               fmt::format("{}'s {} has the tokens' part times {:.6g}, and the positions' part as it is",
                           p.other, place.name(), xy / xx)};
}

}  // namespace

std::string fault_name(FaultKind kind) {
  constexpr const char* names[] = {"missing norm",
                                   "missing residual",
                                   "transposed matrix",
                                   "permutation of heads",
                                   "position offset",
                                   "rotary pairing",
                                   "attention mask",
                                   "scale",
                                   "shift"};
  return names[static_cast<size_t>(kind)];
}

bool Judge::right(double left) const {
  return left <= std::max(tolerance, difference / 50) && left <= difference / 10;
}

double relative_difference(const Tensor& a, const Tensor& b) {
  double squares = 0;
  for (int64_t i = 0; i < a.numel(); ++i) squares += std::pow(double{a.f32()[i]} - b.f32()[i], 2);
  if (squares == 0) return 0;
  const double difference = std::sqrt(squares / sum_of_squares(b.numel(), b.f32()));
  return std::isnan(difference) ? std::numeric_limits<double>::infinity() : difference;
}

std::optional<Fault> scale_or_shift(const Tensor& mine, const Tensor& other, const Judge& judge,
                                    const std::string& whose) {
  const int64_t n = mine.numel();
  const double c = dot(n, mine.f32(), other.f32()) / sum_of_squares(n, mine.f32());
  Tensor scaled = mine.clone(), shifted = mine.clone();
  double d = 0;
  for (int64_t i = 0; i < n; ++i) d += (double{other.f32()[i]} - mine.f32()[i]) / static_cast<double>(n);
  for (int64_t i = 0; i < n; ++i) {
    scaled.f32()[i] = static_cast<float>(c * scaled.f32()[i]);
    shifted.f32()[i] += static_cast<float>(d);
  }
  if (judge.right(left_of(scaled, other)))
    return Fault{FaultKind::scale, fmt::format("{} is the same times {:.6g}", whose, c)};
  if (judge.right(left_of(shifted, other)))
    return Fault{FaultKind::shift, fmt::format("{} is the same plus {:.6g}", whose, d)};
  return std::nullopt;
}

std::vector<int64_t> permutation_of(const Tensor& mine, const Tensor& other, int64_t count,
                                    const Block& block) {
  std::vector<std::vector<float>> from;
  for (int64_t i = 0; i < count; ++i) from.push_back(block(mine, i));
  std::vector<int64_t> order;
  std::vector<bool> taken(count);
  for (int64_t i = 0; i < count; ++i) {
    const std::vector<float> want = block(other, i);
    int64_t best = -1;
    double least = 0.02;  // of a block's size: what may be left of it
    for (int64_t j = 0; j < count; ++j) {
      double difference = 0, size = 0;
      for (size_t e = 0; e < want.size(); ++e) {
        difference += std::pow(double{from[j][e]} - want[e], 2);
        size += double{want[e]} * want[e];
      }
      if (taken[j] || size == 0 || std::sqrt(difference / size) >= least) continue;
      least = std::sqrt(difference / size);
      best = j;
    }
    if (best < 0) return {};
    taken[best] = true;
    order.push_back(best);
  }
  return std::is_sorted(order.begin(), order.end()) ? std::vector<int64_t>() : order;
}

std::optional<Fault> recognise(const Predictor& p, const Kept& place, const Tensor& other, double tolerance) {
  const Judge judge{tolerance, relative_difference(place.value, other)};
  if (!std::isfinite(judge.difference)) return std::nullopt;
  const std::string whose = fmt::format("{}'s {}", p.other, place.name());
  auto fault = missing_norm(p, place, other, judge);
  if (!fault) fault = missing_residual(p, place, other, judge);
  if (!fault) fault = transposed(p, place, other, judge);
  if (!fault) fault = permuted_heads(p, place, other);
  if (!fault) fault = moved_positions(p, place, other, judge);
  if (!fault) fault = other_pairing(p, place, other, judge);
  if (!fault) fault = other_mask(p, place, other, judge);
  if (!fault) fault = scale_or_shift(place.value, other, judge, whose);
  if (!fault) fault = scaled_tokens(p, place, other, judge);
  if (!fault) fault = shifted_by_column(place.value, other, judge, whose);
  if (!fault) fault = scaled_by_column(place.value, other, judge, whose);
  return fault;
}

Tensor f32_of(const Tensor& stored) {
  return stored.dtype() == DType::f32 ? stored : owned_f32(stored);
}

}  // namespace plumb
