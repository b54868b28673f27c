#include "train/metrics.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/file.h"
#include "base/test_support.h"

namespace plumb {
namespace {

class Metrics : public ::testing::Test {
 protected:
  std::string path() const { return folder_ / "metrics.jsonl"; }

  TempFolder folder_;
};

TEST_F(Metrics, OneObjectALineAndNullForWhatIsNotFinite) {
  MetricsFile file(path());
  file.add({.step = 1,
            .loss = 2.5,
            .nll = 2.25,
            .learning_rate = 0.5,
            .gradient_norm = 1,
            .tokens = 8,
            .seconds = 0.5});
  file.add({.step = 2, .loss = NAN, .nll = NAN, .tokens = 8, .skipped = true});
  file.add(2, Evaluation{.loss = 1.5, .perplexity = 4.5, .accuracy = 0.25, .exact = 0.5, .seconds = 2});
  EXPECT_EQ(
      read_file(path()),
      "{\"step\":1,\"loss\":2.5,\"nll\":2.25,\"lr\":0.5,\"grad_norm\":1.0,\"tokens\":8,\"seconds\":0.5}\n"
      "{\"step\":2,\"loss\":null,\"nll\":null,\"lr\":0.0,\"grad_norm\":0.0,\"tokens\":8,\"seconds\":0.0,"
      "\"skipped\":true}\n"
      "{\"step\":2,\"validation_loss\":1.5,\"perplexity\":4.5,\"accuracy\":0.25,\"exact\":0.5,\"seconds\":2."
      "0}\n");
}

TEST_F(Metrics, TruncateDropsLaterStepsAndWhatWasCut) {
  write_file_atomically(
      path(), "{\"step\":1}\n{\"step\":2}\n{\"step\":2,\"validation_loss\":1}\n{\"step\":3}\n{\"st");
  MetricsFile file(path());
  file.truncate(2);
  EXPECT_EQ(read_file(path()), "{\"step\":1}\n{\"step\":2}\n{\"step\":2,\"validation_loss\":1}\n");
  file.add({.step = 3});
  file.truncate(0);
  EXPECT_EQ(read_file(path()), "");
}

TEST_F(Metrics, AFolderThatCannotBeWrittenIsNamed) {
  MetricsFile file(folder_ / "missing/metrics.jsonl");
  EXPECT_NE(
      error_of(ErrorKind::file, [&] { file.add({.step = 1}); }).find("missing/metrics.jsonl: No such file"),
      std::string::npos);
}

}  // namespace
}  // namespace plumb
