#include <gtest/gtest.h>

#include "kernels/norm.h"
#include "kernels/reference.h"
#include "kernels/test_arrays.h"

namespace plumb {
namespace {

using reference::Array;
using reference::complex;
using reference::Complex;

void check_dyt(int64_t rows, int64_t width) {
  const auto x = random_array(rows * width, 1), gain = random_array(width, 2, 0.5, 1),
             bias = random_array(width, 3);
  const auto g = random_array(rows * width, 4);
  const Array<double> alpha{0.75};
  const auto loss = [&](const Array<Complex>& xs, Complex a, const Array<Complex>& gains,
                        const Array<Complex>& biases) {
    return reference::weighted_sum(reference::dyt(width, xs, a, gains, biases), g);
  };
  Floats in(x), a(alpha), w(gain), b(bias), dy(g), y(rows * width), dx(rows * width), da(1), dw(width),
      db(width);
  dyt_forward({rows, width, in.data(), a.data(), w.data(), b.data(), y.data()});
  expect_close(y, reference::dyt<double>(width, x, alpha[0], gain, bias), 1e-6, "y");
  DytBackward back{rows,     width,     in.data(), dy.data(), a.data(),
                   w.data(), dx.data(), da.data(), dw.data(), db.data()};
  dyt_backward(back);
  const auto xs = complex(x), gains = complex(gain), biases = complex(bias);
  Array<double> want[4] = {
      reference::gradient(x, [&](const Array<Complex>& z) { return loss(z, alpha[0], gains, biases); }),
      reference::gradient(alpha, [&](const Array<Complex>& z) { return loss(xs, z[0], gains, biases); }),
      reference::gradient(gain, [&](const Array<Complex>& z) { return loss(xs, alpha[0], z, biases); }),
      reference::gradient(bias, [&](const Array<Complex>& z) { return loss(xs, alpha[0], gains, z); })};
  Floats* got[4] = {&dx, &da, &dw, &db};
  // dalpha sums rows * width terms.
  const double floor = std::sqrt(static_cast<double>(rows * width)) + 1;
  for (int k = 0; k < 4; ++k) expect_close(*got[k], want[k], 2e-6, "gradient", floor);
  back.add_x = back.add_alpha = back.add_gain = back.add_bias = true;  // B21
  dyt_backward(back);
  for (int k = 0; k < 4; ++k) {
    for (double& v : want[k]) v *= 2;
    expect_close(*got[k], want[k], 2e-6, "twice", floor);
  }
}

TEST(Dyt, AgainstOracle) {
  for_each_target([] {
    check_dyt(5, 3);
    check_dyt(35, 17);
    check_dyt(0, 4);
    check_dyt(1, 64);
  });
}

}  // namespace
}  // namespace plumb
