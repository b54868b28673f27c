// plumb diagnose as a command: its exit status, its JSON, and bad input.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "support/files.h"
#include "support/process.h"

namespace plumb::test {
namespace {

class DiagnoseCommand : public testing::Test {
 protected:
  std::string run_with(const std::string& lines) {
    const std::string out = folder / "run";
    std::filesystem::create_directories(out);
    std::ofstream(out + "/metrics.jsonl") << lines;
    return out;
  }
  TempFolder folder;
};

std::string falling(int steps) {
  std::string lines;
  for (int i = 1; i <= steps; ++i) {
    lines +=
        "{\"step\":" + std::to_string(i) + ",\"loss\":" + std::to_string(1 + 4.0 / i) + ",\"grad_norm\":1}\n";
  }
  return lines;
}

TEST_F(DiagnoseCommand, EndsWithZeroForASoundRun) {
  const ProcessResult r = run_plumb({"diagnose", run_with(falling(60))});
  EXPECT_EQ(r.exit_code, 0) << r.err;
  EXPECT_TRUE(r.out.starts_with("sound: loss 3 at the start")) << r.out;
  EXPECT_NE(r.out.find("note: there is no probe.jsonl"), std::string::npos);
}

TEST_F(DiagnoseCommand, EndsWithThreeForOneThatIsNot) {
  const std::string out =
      run_with(falling(60) + "{\"step\":61,\"loss\":null,\"grad_norm\":null,\"skipped\":true}\n");
  const ProcessResult text = run_plumb({"diagnose", out});
  EXPECT_EQ(text.exit_code, 3) << text.err;
  EXPECT_NE(text.out.find("precision-overflow from step 61"), std::string::npos) << text.out;
  EXPECT_NE(text.out.find("try --lr"), std::string::npos) << text.out;
  const ProcessResult json = run_plumb({"diagnose", out, "--json"});
  EXPECT_EQ(json.exit_code, 3);
  const auto j = nlohmann::json::parse(json.out);
  EXPECT_EQ(j.at("course"), "diverged");
  EXPECT_EQ(j.at("onset"), 61);
  EXPECT_EQ(j.at("findings")[0].at("signature"), "precision-overflow");
  EXPECT_TRUE(j.at("findings")[0].at("evidence")[0].at("value").is_null());
}

TEST_F(DiagnoseCommand, RefusesWhatIsNoRunInOneLine) {
  for (const std::string& path : {folder / "none", folder.str()}) {
    const ProcessResult r = run_plumb({"diagnose", path});
    EXPECT_EQ(r.exit_code, 1);
    EXPECT_TRUE(r.out.empty());
    EXPECT_EQ(std::count(r.err.begin(), r.err.end(), '\n'), 1) << r.err;
    EXPECT_NE(r.err.find(path), std::string::npos) << r.err;
  }
  EXPECT_EQ(run_plumb({"diagnose"}).exit_code, 2);
}

}  // namespace
}  // namespace plumb::test
