// Against plain loops in f64, for both layouts, within a matrix that holds more than the map.
#include "kernels/spectral.h"

#include <gtest/gtest.h>

#include "kernels/test_arrays.h"

namespace plumb {
namespace {

double length(const std::vector<double>& x) {
  double sum = 0;
  for (const double v : x) sum += v * v;
  return std::sqrt(sum);
}

// A map of (outputs, inputs) that lies in a matrix with 3 numbers more in each row.
struct Case {
  int64_t outputs, inputs, ld, rows;
  bool in_out;
  Floats w;

  Case(int64_t o, int64_t i, bool turned)
      : outputs(o),
        inputs(i),
        ld((turned ? o : i) + 3),
        rows(turned ? i : o),
        in_out(turned),
        w(random_array(rows * ld, 7)) {}
  MapView view() { return {w.data(), outputs, inputs, ld, in_out}; }
  int64_t at(int64_t o, int64_t i) const { return in_out ? i * ld + o : o * ld + i; }
  std::vector<double> times(const std::vector<double>& v) {
    std::vector<double> y(outputs);
    for (int64_t o = 0; o < outputs; ++o)
      for (int64_t i = 0; i < inputs; ++i) y[o] += w[at(o, i)] * v[i];
    return y;
  }
  std::vector<double> back(const std::vector<double>& u) {
    std::vector<double> y(inputs);
    for (int64_t o = 0; o < outputs; ++o)
      for (int64_t i = 0; i < inputs; ++i) y[i] += w[at(o, i)] * u[o];
    return y;
  }
};

void check(Case c) {
  std::vector<double> v = random_array(c.inputs, 2);
  Floats vector(v), u(c.outputs);
  std::vector<double> image = c.times(v);
  const double value = length(image) / length(v);
  EXPECT_NEAR(spectral_value(c.view(), vector.data(), u.data()), value, 1e-6 * value);
  const double image_length = length(image);
  for (double& x : image) x /= image_length;
  expect_close(u, image, 1e-6, "u");

  Floats dw(std::vector<double>(c.rows * c.ld, 0.5));
  std::vector<double> want(c.rows * c.ld, 0.5);
  for (const bool add : {false, true}) {
    spectral_backward({c.view(), u.data(), vector.data(), 1.5, dw.data(), add});
    for (int64_t o = 0; o < c.outputs; ++o)
      for (int64_t i = 0; i < c.inputs; ++i)
        want[c.at(o, i)] = (add ? want[c.at(o, i)] : 0) + 1.5 * image[o] * v[i] / length(v);
    expect_close(dw, want, 1e-6, "dw, and nothing outside the map");
  }

  EXPECT_NEAR(power_iteration(c.view(), vector.data()), value, 1e-6 * value);
  for (int step = 0; step < 3000; ++step) {
    v = c.back(c.times(v));
    const double norm = length(v);
    for (double& x : v) x /= norm;
  }
  const double largest = length(c.times(v));
  for (int step = 0; step < 3000; ++step) power_iteration(c.view(), vector.data());
  EXPECT_NEAR(spectral_value(c.view(), vector.data(), u.data()), largest, 1e-6 * largest);
}

TEST(Spectral, ValueGradientAndIterationInBothLayouts) {
  for (const bool in_out : {false, true}) {
    check(Case(5, 9, in_out));
    check(Case(70, 33, in_out));
    check(Case(1, 1, in_out));
  }
}

TEST(Spectral, AMapOfZerosIsZeroAndKeepsItsVector) {
  Floats w(std::vector<double>(12, 0.0)), v(random_array(4, 1)), u(3);
  const float first = v[0];
  const MapView view{w.data(), 3, 4, 4, false};
  EXPECT_EQ(spectral_value(view, v.data(), u.data()), 0);
  EXPECT_EQ(u[2], 0);
  EXPECT_EQ(power_iteration(view, v.data()), 0);
  EXPECT_EQ(v[0], first);
}

}  // namespace
}  // namespace plumb
