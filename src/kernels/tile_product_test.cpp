#include "kernels/tile_product.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "kernels/test_arrays.h"

namespace plumb {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// A product's arrays, which end where their last number does, with rows that have a gap.
struct ProductCase {
  ProductCase(int64_t m, int64_t n, int64_t k, bool a_transposed)
      : a_values(random_array(m * k, 1, 1, 0.5)),
        b_values(random_array(k * n, 2, 1, 0.25)),
        c_values(random_array(m * n, 3)),
        a(size(a_transposed ? k : m, a_transposed ? m : k, 3)),
        b(size(k, n, 5)),
        c(size(m, n, 2)) {
    p = {.m = m, .n = n, .k = k};
    p.a = a.data();
    p.a_row = a_transposed ? 1 : k + 3;
    p.a_col = a_transposed ? m + 3 : 1;
    p.b = b.data();
    p.ldb = n + 5;
    p.c = c.data();
    p.ldc = n + 2;
    for (int64_t i = 0; i < m * k; ++i)
      a[i / k * p.a_row + i % k * p.a_col] = static_cast<float>(a_values[i]);
    for (int64_t i = 0; i < k * n; ++i) b[i / n * p.ldb + i % n] = static_cast<float>(b_values[i]);
    for (int64_t i = 0; i < m * n; ++i) c[i / n * p.ldc + i % n] = static_cast<float>(c_values[i]);
  }

  static int64_t size(int64_t rows, int64_t width, int64_t gap) {
    return rows * width == 0 ? 0 : (rows - 1) * (width + gap) + width;
  }

  Interval terms(int64_t i) const { return p.terms ? intersection(p.terms[i], {0, p.k}) : Interval{0, p.k}; }

  // Runs it; where `columns` lets a number be anything, it is not looked at.
  void check() {
    tile_product(p);
    for (int64_t i = 0; i < p.m; ++i) {
      for (int64_t j = 0; j < p.n; ++j) {
        if (p.columns && (j < p.columns[i].begin || j >= p.columns[i].end)) continue;
        double want = p.add ? c_values[i * p.n + j] : 0, sum_of_sizes = std::abs(want);
        for (int64_t l = terms(i).begin; l < terms(i).end; ++l) {
          const double term = p.alpha * a_values[i * p.k + l] * b_values[l * p.n + j];
          want += term;
          sum_of_sizes += std::abs(term);
        }
        ASSERT_NEAR(c[i * p.ldc + j], want, 6e-7 * sum_of_sizes) << i << ", " << j;
      }
    }
    for (int64_t i = 0; p.n > 0 && i + 1 < p.m; ++i) {
      for (int64_t j = p.n; j < p.ldc; ++j)
        ASSERT_TRUE(std::isnan(c[i * p.ldc + j])) << "written beyond a row";
    }
  }

  std::vector<double> a_values, b_values, c_values;
  Floats a, b, c;
  TileProduct p;
};

TEST(TileProduct, OddSizesInEveryInstructionSet) {
  for_each_target([] {
    for (const int64_t m : {0, 1, 4, 5, 6, 9, 100}) {
      for (const int64_t n : {0, 1, 16, 23, 83}) {
        for (const int64_t k : {0, 1, 20, 300}) {
          for (const bool transposed : {false, true}) {
            SCOPED_TRACE(std::to_string(m) + " " + std::to_string(n) + " " + std::to_string(k));
            ProductCase c(m, n, k, transposed);
            c.p.add = (m + n + k + transposed) % 2 == 0;
            c.p.alpha = transposed ? -0.75f : 1.0f;
            c.check();
          }
        }
      }
    }
  });
}

// Bands as causal masks and windows make them, rows that need nothing, and no order at all.
std::vector<std::vector<Interval>> bands(int64_t rows, int64_t width) {
  std::vector<std::vector<Interval>> all(5, std::vector<Interval>(rows));
  for (int64_t i = 0; i < rows; ++i) {
    const auto inside = [&](int64_t x) { return std::clamp<int64_t>(x, 0, width); };
    all[0][i] = {0, inside(i + 1)};
    all[1][i] = {inside(i - 3), inside(i + 4)};
    all[2][i] = {inside(i + width - rows - 2), width};
    all[3][i] = i % 7 == 2 ? Interval{5, 3} : Interval{inside(i * 5 % 11), inside(i * 37 % (width + 1))};
    all[4][i] = i == 9 ? Interval{inside(1), inside(2)} : Interval{};
  }
  return all;
}

TEST(TileProduct, ColumnsThatAreNeeded) {
  for_each_target([] {
    for (const int64_t n : {10, 64, 150}) {
      for (const auto& columns : bands(40, n)) {
        ProductCase c(40, n, 30, false);
        c.p.columns = columns.data();
        c.check();
      }
    }
  });
}

// The others' numbers are NaN.
TEST(TileProduct, TermsOfEachRowAlone) {
  for_each_target([] {
    for (const int64_t k : {11, 64, 290}) {
      for (const auto& terms : bands(40, k)) {
        for (const bool transposed : {false, true}) {
          ProductCase c(40, 39, k, transposed);
          c.p.terms = terms.data();
          c.p.add = transposed;
          std::vector<bool> used(k);
          for (int64_t i = 0; i < 40; ++i) {
            for (int64_t l = 0; l < k; ++l) {
              const bool own = l >= terms[i].begin && l < terms[i].end;
              if (own) used[l] = true;
              if (!own) c.a[i * c.p.a_row + l * c.p.a_col] = kNaN;
            }
          }
          for (int64_t l = 0; l < k; ++l) {
            if (!used[l]) std::fill_n(c.b.data() + l * c.p.ldb, c.p.n, kNaN);
          }
          c.check();
        }
      }
    }
  });
}

// A row of B that is NaN reaches the rows that have it among their terms, and no other.
TEST(TileProduct, ANaNReachesItsOwnRows) {
  for_each_target([] {
    const auto terms = bands(40, 40)[0];
    ProductCase c(40, 39, 40, false);
    c.p.terms = terms.data();
    std::fill_n(c.b.data() + 21 * c.p.ldb, c.p.n, kNaN);
    tile_product(c.p);
    for (int64_t i = 0; i < 40; ++i) {
      for (int64_t j = 0; j < 39; ++j) ASSERT_EQ(std::isnan(c.c[i * c.p.ldc + j]), i >= 21) << i << ", " << j;
    }
  });
}

TEST(TileProduct, Transpose) {
  for_each_target([] {
    for (const int64_t rows : {0, 1, 4, 7, 30}) {
      for (const int64_t width : {1, 3, 8, 21}) {
        const int64_t ld = width + 2, out_ld = rows + 3;
        Floats x(random_array(std::max<int64_t>(0, (rows - 1) * ld + width), 4)),
            out((width - 1) * out_ld + rows);
        tile_transpose(
            {.rows = rows, .width = width, .x = x.data(), .ld = ld, .out = out.data(), .out_ld = out_ld});
        for (int64_t j = 0; j < width; ++j) {
          for (int64_t i = 0; i < rows; ++i) ASSERT_EQ(out[j * out_ld + i], x[i * ld + j]);
          for (int64_t i = rows; i < out_ld && j + 1 < width; ++i)
            ASSERT_TRUE(std::isnan(out[j * out_ld + i]));
        }
      }
    }
  });
}

}  // namespace
}  // namespace plumb
