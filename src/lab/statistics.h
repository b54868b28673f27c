// Small samples: means with intervals, and straight lines.
#pragma once

#include <vector>

namespace plumb {

// Two-sided quantile of Student's t: the probability beyond +-t is `beyond`. degrees >= 1.
double student_t(double beyond, int degrees);

struct Interval {
  double mean = 0, low = 0, high = 0;
  int count = 0;
  bool confident = false;  // low and high are a confidence interval (3 values or more), else the range
};

// Of values that are finite; of none: NaN. The interval's probability is 1 - beyond.
Interval interval(const std::vector<double>& values, double beyond = 0.05);

struct Line {
  double slope = 0, intercept = 0, r2 = 0;
  int count = 0;  // points; below 2, or without spread in x: slope is NaN
};

// Least squares of y on x, over the pairs that are finite.
Line fit_line(const std::vector<double>& x, const std::vector<double>& y);
// Of log y on log x, over the pairs that are positive.
Line fit_power(const std::vector<double>& x, const std::vector<double>& y);

}  // namespace plumb
