// Which steps are sampled, what a record holds beyond one pass of one stack, and the file that it goes to.
#include "plumb/probe.h"

#include "base/test_support.h"
#include "probe/test_model.h"

namespace plumb::probe_test {
namespace {

TEST(Probe, MicroBatchesAreMeasuredTogether) {
  const auto path = new_file("micro.jsonl");
  Probe probe(path.string());
  Fixture f(config_of(Placement::pre_norm));
  RunObserver* observer = probe.observer();
  ASSERT_TRUE(observer->wants(1));
  Copies copies(observer);
  run_batch(f.model, batch_of(0), {.observer = &copies}, 1.0 / 28);
  run_batch(f.model, batch_of(20), {.observer = &copies}, 1.0 / 28);
  observer->gradients(1, f.model.parameters(), 1);
  observer->finish(1, 3, 0.1);
  const Json r = records(path).at(0);
  for (const auto& [site, s] : copies.shown) {
    const Json& got = entry(r, "sites", site.first).at(site.second);
    double sum = 0, fourths = 0;
    for (double x : s.values) sum += x, fourths += x * x * x * x;
    const auto n = static_cast<double>(s.values.size());
    expect_near(got.at("rms"), norm_of(s.values) / std::sqrt(n), site.first);
    EXPECT_NEAR(got.at("mean").get<double>(), sum / n, 1e-6);
    expect_near(got.at("kurtosis"), fourths * n / std::pow(norm_of(s.values), 4), site.first);
    expect_near(got.at("grad_norm"), norm_of(s.gradient), site.first);
    expect_near(got.at("grad_rms"), norm_of(s.gradient) / std::sqrt(n), site.first);
  }
  // No update was made: nothing is said of one.
  EXPECT_FALSE(r.at("parameters")[0].contains("update_rms"));
}

TEST(Probe, EncoderAndDecoderAreSitesInTheOrderOfThePass) {
  const auto path = new_file("both.jsonl");
  Probe probe(path.string());
  ModelConfig config = config_of(Placement::post_norm);
  config.encoder_layers = config.decoder_layers = 1;
  Fixture f(config);
  ASSERT_TRUE(probe.observer()->wants(1));
  run_batch(f.model, batch_of(0), {.observer = probe.observer()});
  probe.observer()->finish(1, 3, 0.1);
  const Json r = records(path).at(0);
  std::vector<std::string> sites;
  for (const Json& site : r.at("sites")) sites.push_back(site.at("at"));
  EXPECT_EQ(sites, (std::vector<std::string>{"encoder.0.attention", "encoder.0.feed_forward", "encoder",
                                             "decoder.0.attention", "decoder.0.cross_attention",
                                             "decoder.0.feed_forward", "decoder", "head"}));
}

TEST(Probe, NumbersThatAreNotFiniteAreNullAndCounted) {
  const auto path = new_file("nan.jsonl");
  Probe probe(path.string());
  const Tensor x = Tensor::of<float>({1, 2, 3}, {1, 2, NAN, 4, INFINITY, 6});
  ASSERT_TRUE(probe.observer()->wants(1));
  const std::string at = "decoder";
  probe.observer()->forward({at, "output"}, x);
  probe.observer()->finish(1, NAN, 0.1);
  const Json r = records(path).at(0);
  EXPECT_TRUE(r.at("loss").is_null());
  const Json& output = r.at("sites")[0].at("output");
  EXPECT_TRUE(output.at("rms").is_null());
  EXPECT_EQ(output.at("not_finite"), 2);
}

void write_steps(const std::filesystem::path& path, const std::vector<int64_t>& steps, double loss) {
  Probe probe(path.string(), {.every = 5});
  for (int64_t s : steps) {
    if (probe.observer()->wants(s)) probe.observer()->finish(s, loss, 0.1);
  }
}

std::vector<std::pair<int64_t, double>> steps_of(const std::filesystem::path& path) {
  std::vector<std::pair<int64_t, double>> result;
  for (const Json& r : records(path)) result.emplace_back(r.at("step"), r.at("loss"));
  return result;
}

TEST(Probe, SamplesTheFirstStepAndEveryKth) {
  const auto path = new_file("every.jsonl");
  write_steps(path, {1, 2, 3, 4, 5, 6, 9, 10, 11}, 1);
  EXPECT_EQ(steps_of(path), (std::vector<std::pair<int64_t, double>>{{1, 1}, {5, 1}, {10, 1}}));
}

TEST(Probe, AResumedRunContinuesItsFile) {
  const auto path = new_file("resumed.jsonl");
  write_steps(path, {1, 5, 10, 15}, 1);
  {
    std::FILE* f = std::fopen(path.c_str(), "ab");  // a line that a crash cut off
    std::fputs("{\"step\": 20, \"lo", f);
    std::fclose(f);
  }
  write_steps(path, {11, 12, 13, 14, 15, 20}, 2);
  EXPECT_EQ(steps_of(path),
            (std::vector<std::pair<int64_t, double>>{{1, 1}, {5, 1}, {10, 1}, {15, 2}, {20, 2}}));
}

TEST(Probe, RefusesWhatCannotBe) {
  EXPECT_THROW(Probe("x.jsonl", {.every = 0}), Error);
  Probe probe("/no/such/folder/probe.jsonl");
  ASSERT_TRUE(probe.observer()->wants(1));
  EXPECT_NE(error_of(ErrorKind::file, [&] { probe.observer()->finish(1, 1, 1); })
                .find("/no/such/folder/probe.jsonl"),
            std::string::npos);
}

}  // namespace
}  // namespace plumb::probe_test
