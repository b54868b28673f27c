#include "lab/statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace plumb {
namespace {

// The probability of |T| <= t, by Simpson's rule over the angle: with t = sqrt(n) tan(a) the density is
// proportional to cos(a)^(n - 1).
double within(double t, int degrees) {
  constexpr int kParts = 400;
  const auto area = [&](double angle) {
    double sum = 0;
    for (int i = 0; i <= kParts; ++i) {
      const double weight = i == 0 || i == kParts ? 1 : i % 2 == 1 ? 4 : 2;
      sum += weight * std::pow(std::cos(angle * i / kParts), degrees - 1);
    }
    return sum * angle;
  };
  return area(std::atan(t / std::sqrt(static_cast<double>(degrees)))) / area(std::acos(0.0));
}

}  // namespace

double student_t(double beyond, int degrees) {
  double low = 0, high = 1;
  while (1 - within(high, degrees) > beyond && high < 1e6) high *= 2;
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    (1 - within(middle, degrees) > beyond ? low : high) = middle;
  }
  return (low + high) / 2;
}

Interval interval(const std::vector<double>& values, double beyond) {
  std::vector<double> v;
  std::copy_if(values.begin(), values.end(), std::back_inserter(v),
               [](double x) { return std::isfinite(x); });
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  if (v.empty()) return {kNone, kNone, kNone, 0, false};
  const auto n = static_cast<double>(v.size());
  double mean = 0, squares = 0;
  for (const double x : v) mean += x / n;
  for (const double x : v) squares += (x - mean) * (x - mean);
  if (v.size() < 3) {
    const auto [least, most] = std::minmax_element(v.begin(), v.end());
    return {mean, *least, *most, static_cast<int>(v.size()), false};
  }
  const double half = student_t(beyond, static_cast<int>(v.size()) - 1) * std::sqrt(squares / (n - 1) / n);
  return {mean, mean - half, mean + half, static_cast<int>(v.size()), true};
}

Line fit_line(const std::vector<double>& x, const std::vector<double>& y) {
  double n = 0, mx = 0, my = 0, xx = 0, xy = 0, yy = 0;
  const size_t count = std::min(x.size(), y.size());
  const auto known = [&](size_t i) { return std::isfinite(x[i]) && std::isfinite(y[i]); };
  for (size_t i = 0; i < count; ++i) {
    if (!known(i)) continue;
    n += 1;
    mx += x[i];
    my += y[i];
  }
  mx /= n;
  my /= n;
  for (size_t i = 0; i < count; ++i) {
    if (!known(i)) continue;
    xx += (x[i] - mx) * (x[i] - mx);
    xy += (x[i] - mx) * (y[i] - my);
    yy += (y[i] - my) * (y[i] - my);
  }
  Line line{.count = static_cast<int>(n)};
  if (n < 2 || xx == 0) {
    line.slope = line.intercept = line.r2 = std::numeric_limits<double>::quiet_NaN();
    return line;
  }
  line.slope = xy / xx;
  line.intercept = my - line.slope * mx;
  line.r2 = yy == 0 ? 1 : xy * xy / (xx * yy);
  return line;
}

Line fit_power(const std::vector<double>& x, const std::vector<double>& y) {
  const auto logs = [](const std::vector<double>& values) {
    std::vector<double> v;
    v.reserve(values.size());
    for (const double a : values) v.push_back(a > 0 ? std::log(a) : std::numeric_limits<double>::quiet_NaN());
    return v;
  };
  return fit_line(logs(x), logs(y));
}

}  // namespace plumb
