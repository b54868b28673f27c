// The streams group of the probe's records against the products and cosines written out.
#include "probe/test_model.h"

namespace plumb::probe_test {
namespace {

// Keeps what is shown of the streams, and shows all of it to the probe.
struct Kept : Copies {
  using Copies::Copies;
  void streams(const std::string& module, const Tensor& x, const Tensor& res) override {
    modules.push_back(module);
    xs.push_back({x.f32(), x.f32() + x.numel()});
    maps.push_back({res.f32(), res.f32() + res.numel()});
    Copies::streams(module, x, res);
  }
  std::vector<std::string> modules;
  std::vector<std::vector<double>> xs, maps;
};

class ProbeOfStreams : public testing::TestWithParam<Placement> {};

TEST_P(ProbeOfStreams, MeasuresAreThoseOfASlowComputation) {
  constexpr int64_t kStreams = 3, kRows = 14, kWidth = 24;
  ModelConfig config = config_of(GetParam());
  config.layer.streams = kStreams;
  Fixture fixture(config);
  const auto path = new_file("streams.jsonl");
  Probe probe(path.string());
  ASSERT_TRUE(probe.observer()->wants(1));
  Kept kept(probe.observer());
  const double loss = run_batch(fixture.model, batch_of(0), {.observer = &kept});
  probe.observer()->gradients(1, fixture.model.parameters(), 1);
  probe.observer()->updates(1, {});
  probe.observer()->finish(1, loss, 0.1);
  const Json record = records(path).at(0);
  ASSERT_EQ(kept.modules.size(), 6u);

  std::vector<std::vector<double>> products(kRows, std::vector<double>(kStreams * kStreams));
  for (auto& p : products) {
    for (int64_t i = 0; i < kStreams; ++i) p[i * (kStreams + 1)] = 1;
  }
  for (size_t s = 0; s < kept.modules.size(); ++s) {
    double cosine = 0, row_sum = 0, least_row = 1e9, column_sum = 0, least_column = 1e9;
    for (int64_t r = 0; r < kRows; ++r) {
      std::vector<double> next(kStreams * kStreams);
      for (int64_t i = 0; i < kStreams; ++i) {
        for (int64_t j = 0; j < kStreams; ++j) {
          for (int64_t k = 0; k < kStreams; ++k) {
            next[i * kStreams + j] +=
                kept.maps[s][(r * kStreams + i) * kStreams + k] * products[r][k * kStreams + j];
          }
        }
      }
      products[r] = next;
      for (int64_t i = 0; i < kStreams; ++i) {
        double row = 0, column = 0;
        for (int64_t j = 0; j < kStreams; ++j)
          row += next[i * kStreams + j], column += next[j * kStreams + i];
        row_sum = std::max(row_sum, std::abs(row)), least_row = std::min(least_row, std::abs(row));
        column_sum = std::max(column_sum, std::abs(column)),
        least_column = std::min(least_column, std::abs(column));
        for (int64_t j = 0; j < i; ++j) {
          const double *a = &kept.xs[s][(r * kStreams + i) * kWidth],
                       *b = &kept.xs[s][(r * kStreams + j) * kWidth];
          double ab = 0, aa = 0, bb = 0;
          for (int64_t c = 0; c < kWidth; ++c) ab += a[c] * b[c], aa += a[c] * a[c], bb += b[c] * b[c];
          cosine += ab / std::sqrt(aa * bb) / 3 / kRows;
        }
      }
    }
    const Json& got = entry(record, "sites", kept.modules[s]).at("streams");
    expect_near(got.at("cosine"), cosine, "cosine");
    expect_near(got.at("row_sum"), row_sum, "row_sum");
    expect_near(got.at("least_row_sum"), least_row, "least_row_sum");
    expect_near(got.at("column_sum"), column_sum, "column_sum");
    expect_near(got.at("least_column_sum"), least_column, "least_column_sum");
    expect_near(got.at("amax"), std::max(row_sum, column_sum), "amax");
    EXPECT_NEAR(row_sum, 1, GetParam() == Placement::mhc ? 1e-5 : 10);
  }
  EXPECT_FALSE(entry(record, "sites", "decoder").contains("streams"));
}

INSTANTIATE_TEST_SUITE_P(Both, ProbeOfStreams, testing::Values(Placement::hyper_connections, Placement::mhc),
                         [](const auto& tested) {
                           return std::string(tested.param == Placement::mhc ? "manifold" : "free");
                         });

}  // namespace
}  // namespace plumb::probe_test
