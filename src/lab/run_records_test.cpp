#include "lab/run_records.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <set>

#include "base/file.h"
#include "base/test_support.h"

namespace plumb {
namespace {

class RunRecordsTest : public testing::Test {
 protected:
  RunRecordsTest() { make_folder(join_path(folder, "model")); }

  void put(const std::string& name, const std::string& text) {
    write_file_atomically(join_path(folder, name), text);
  }

  // The message of what read_run throws.
  std::string refusal() {
    return error_of(ErrorKind::file, [&] { read_run(folder); });
  }

  TempFolder temporary;
  std::string folder = temporary.str();
};

TEST_F(RunRecordsTest, StepsAndEvaluations) {
  put("metrics.jsonl",
      R"({"step":1,"loss":8.5,"nll":8.4,"lr":0.001,"grad_norm":2,"tokens":64,"seconds":0.5,"new_key":[1]}
{"step":2,"loss":null,"nll":null,"lr":0.001,"grad_norm":null,"tokens":null,"seconds":1e300,"skipped":true}

{"step":2,"validation_loss":8,"perplexity":2980,"seconds":1}
)");
  const RunRecords run = read_run(folder);
  EXPECT_TRUE(run.problems.empty());
  ASSERT_EQ(run.steps.size(), 2u);
  EXPECT_EQ(run.steps[0].loss, 8.5);
  EXPECT_EQ(run.steps[0].tokens, 64);
  EXPECT_TRUE(std::isnan(run.steps[1].loss));
  EXPECT_TRUE(run.steps[1].skipped);
  ASSERT_EQ(run.evaluations.size(), 1u);
  EXPECT_EQ(run.evaluations[0].measures.at("loss"), 8);
  EXPECT_EQ(run.evaluations[0].measures.at("perplexity"), 2980);
  EXPECT_FALSE(run.config);
}

TEST_F(RunRecordsTest, WhatIsMalformedIsNamedAndPassedOver) {
  put("metrics.jsonl",
      "{\"step\":1,\"loss\":3}\nnot "
      "json\n[]\n{\"loss\":1}\n{\"step\":2,\"loss\":\"low\"}\n{\"step\":3,\"loss\":2}\n"
      "{\"step\":-4,\"loss\":2}\n{\"step\":4,\"lo");
  put("probe.jsonl",
      "{\"step\":1,\"sites\":[{\"stream\":{}}]}\n{\"step\":2,\"sites\":{}}\n"
      "{\"step\":3,\"sites\":[{\"at\":\"decoder.0.attention\",\"stream\":{\"rms\":1.5}}]}\n");
  put("model/config.json", "{\"layers_of_cake\": 3}");
  const RunRecords run = read_run(folder);
  ASSERT_EQ(run.steps.size(), 2u);
  EXPECT_EQ(run.steps[1].step, 3);
  ASSERT_EQ(run.probe.size(), 1u);
  EXPECT_EQ(run.probe[0].sites.at(0).measures.at("stream.rms"), 1.5);
  ASSERT_EQ(run.problems.size(), 9u);
  const std::vector<std::string> begin{"metrics.jsonl, line 2: not valid JSON",
                                       "metrics.jsonl, line 3: ",
                                       "metrics.jsonl, line 4: ",
                                       "metrics.jsonl, line 5: \"loss\" is string",
                                       "metrics.jsonl, line 7: ",
                                       "metrics.jsonl, line 8: ",
                                       "probe.jsonl, line 1: ",
                                       "probe.jsonl, line 2: \"sites\" is not a list",
                                       "model/config.json"};
  for (size_t i = 0; i < begin.size(); ++i)
    EXPECT_TRUE(run.problems[i].starts_with(begin[i])) << run.problems[i];
}

TEST_F(RunRecordsTest, TheLaterLineOfAStepCounts) {
  put("metrics.jsonl",
      "{\"step\":1,\"loss\":3}\n{\"step\":2,\"loss\":4}\n{\"step\":2,\"loss\":5}\n{\"step\":3,\"loss\":6}\n");
  const RunRecords run = read_run(folder);
  ASSERT_EQ(run.steps.size(), 3u);
  EXPECT_EQ(run.steps[1].loss, 5);
}

TEST_F(RunRecordsTest, ALineThatIsBeingWrittenIsNoProblemOfARunThatGrows) {
  put("metrics.jsonl", "{\"step\":1,\"loss\":3}\nbad\n{\"step\":2,");
  put("probe.jsonl", "{\"step\":1,\"sites\":[]}\n{\"st");
  EXPECT_EQ(read_run(folder).problems.size(), 3u);
  EXPECT_EQ(read_run(folder, true).problems.size(), 1u);
  EXPECT_EQ(read_run(folder, true).probe.size(), 1u);
}

TEST_F(RunRecordsTest, TheVersionChangesWithEachFile) {
  std::set<std::string> versions{run_version(folder)};
  for (const char* name :
       {"metrics.jsonl", "probe.jsonl", "recipe.toml", "sample.txt", "model/config.json"}) {
    put(name, "x");
    EXPECT_TRUE(versions.insert(run_version(folder)).second) << name;
    put(name, "xy");
    EXPECT_TRUE(versions.insert(run_version(folder)).second) << name;
    EXPECT_EQ(run_version(folder), run_version(folder));
  }
}

TEST_F(RunRecordsTest, TheRecipeByItsSettings) {
  put("metrics.jsonl", "{\"step\":1,\"loss\":3}\n");
  put("recipe.toml", "# a group = of them\nlr = 3e-3\n\ntext = \"a = b\"");
  const RunRecords run = read_run(folder + "/");
  EXPECT_EQ(run.name, std::filesystem::path(folder).filename());
  const std::vector<std::pair<std::string, std::string>> settings{{"lr", "3e-3"}, {"text", "\"a = b\""}};
  EXPECT_EQ(recipe_settings(run), settings);
  EXPECT_EQ(setting(run, "text"), "a = b");
  EXPECT_EQ(setting(run, "l"), "");
}

TEST_F(RunRecordsTest, WhatIsNoRunIsRefused) {
  EXPECT_NE(refusal().find("no metrics.jsonl"), std::string::npos);
  put("metrics.jsonl", "");
  EXPECT_NE(refusal().find("holds no step"), std::string::npos);
  put("metrics.jsonl", "garbage\n");
  EXPECT_NE(refusal().find("metrics.jsonl, line 1"), std::string::npos);
  std::filesystem::remove_all(folder);
  EXPECT_NE(refusal().find("no folder"), std::string::npos);
}

}  // namespace
}  // namespace plumb
