#include "kernels/embedding.h"

#include <gtest/gtest.h>
#include <omp.h>

#include "kernels/test_arrays.h"

namespace plumb {
namespace {

struct Ids {
  int64_t rows, vocabulary, width;
  std::vector<int32_t> ids;
};
Ids some_ids(int64_t rows, int64_t vocabulary, int64_t width) {
  Ids c{rows, vocabulary, width, {}};
  for (int64_t r = 0; r < rows; ++r)
    c.ids.push_back(static_cast<int32_t>(random_below({1, 2}, r, vocabulary)));
  return c;
}

TEST(Embedding, ForwardFromEachStorage) {
  for (const Ids& c : {some_ids(9, 5, 7), some_ids(0, 3, 4), some_ids(70, 11, 64), some_ids(1, 1, 1)}) {
    const auto table = random_array(c.vocabulary * c.width, 1), base = random_array(c.rows * c.width, 2);
    std::vector<BFloat16> b;
    std::vector<Float16> h;
    for (const double v : table) {
      b.push_back(to_bf16(static_cast<float>(v)));
      h.push_back(to_f16(static_cast<float>(v)));
    }
    Floats t(table), y(base);
    const auto check = [&](DType dtype, const void* stored, auto value) {
      EmbeddingForward f{c.rows, c.vocabulary, c.width, c.ids.data(), stored, dtype, 3, y.data()};
      for (const bool add : {false, true}) {
        f.add = add;
        y = Floats(base);
        f.y = y.data();
        embedding_forward(f);
        for (int64_t i = 0; i < c.rows * c.width; ++i) {
          const double e = 3 * static_cast<double>(value(c.ids[i / c.width] * c.width + i % c.width));
          ASSERT_NEAR(y[i], add ? base[i] + e : e, 1e-6);
        }
      }
    };
    check(DType::f32, t.data(), [&](int64_t i) { return t[i]; });
    check(DType::bf16, b.data(), [&](int64_t i) { return to_float(b[i]); });
    check(DType::f16, h.data(), [&](int64_t i) { return to_float(h[i]); });
  }
}

TEST(Embedding, BackwardAddsEveryRowForAnyThreads) {
  const int threads = omp_get_max_threads();
  for (const Ids& c : {some_ids(50, 5, 7), some_ids(0, 3, 4), some_ids(200, 11, 100), some_ids(3, 1, 1)}) {
    const auto g = random_array(c.rows * c.width, 1);
    std::vector<double> want(c.vocabulary * c.width);
    for (int64_t i = 0; i < c.rows * c.width; ++i)
      want[c.ids[i / c.width] * c.width + i % c.width] += 0.5 * g[i];
    Floats first(c.vocabulary * c.width);
    for (const int t : {1, 2, 3, 4}) {
      omp_set_num_threads(t);
      Floats dy(g), d(c.vocabulary * c.width);
      EmbeddingBackward b{c.rows, c.vocabulary, c.width, c.ids.data(), dy.data(), 0.5f, d.data()};
      embedding_backward(b);
      expect_close(d, want, 2e-6, "dtable", 1);
      if (t == 1) first = d;
      for (int64_t i = 0; i < d.size(); ++i) ASSERT_EQ(d[i], first[i]);
      b.add = true;  // B21
      embedding_backward(b);
      auto twice = want;
      for (double& v : twice) v *= 2;
      expect_close(d, twice, 2e-6, "twice", 1);
    }
  }
  omp_set_num_threads(threads);
}

TEST(EmbeddingDeathTest, IdsOutOfRange) {
  Floats table(8, 1), y(4);
  const int32_t ids[] = {2};
  EXPECT_DEATH(embedding_forward({1, 2, 4, ids, table.data(), DType::f32, 1, y.data()}), "id 2 of 2");
}

TEST(Embedding, SinusoidalTables) {
  for (const int64_t width : {6, 7, 1}) {
    std::vector<float> paper(5 * width), halves(5 * width);
    sinusoidal_table(Sinusoid::interleaved, 5, width, paper.data());
    sinusoidal_table(Sinusoid::halves, 5, width, halves.data());
    const int64_t sines = (width + 1) / 2;
    for (int64_t p = 0; p < 5; ++p) {
      for (int64_t i = 0; 2 * i < width; ++i) {
        const double angle = static_cast<double>(p) * std::exp(-std::log(10000.0) * 2 * i / width);
        EXPECT_NEAR(paper[p * width + 2 * i], std::sin(angle), 1e-7);
        EXPECT_NEAR(halves[p * width + i], std::sin(angle), 1e-7);
        if (2 * i + 1 == width) continue;
        EXPECT_NEAR(paper[p * width + 2 * i + 1], std::cos(angle), 1e-7);
        EXPECT_NEAR(halves[p * width + sines + i], std::cos(angle), 1e-7);
      }
    }
  }
}

}  // namespace
}  // namespace plumb
