// What holds for the command as a whole: help, version, and how a wrong command line ends.
#include <gtest/gtest.h>

#include "support/process.h"

namespace plumb::test {
namespace {

TEST(CommandLine, HelpAndVersion) {
  const auto help = run_plumb({"--help"});
  EXPECT_EQ(help.exit_code, 0);
  EXPECT_NE(help.out.find("--threads"), std::string::npos);
  EXPECT_EQ(help.err, "");
  const auto version = run_plumb({"--version"});
  EXPECT_EQ(version.exit_code, 0);
  EXPECT_TRUE(version.out.starts_with("plumb 0.")) << version.out;
}

void expect_usage_error(const std::vector<std::string>& arguments, const std::string& names) {
  const auto result = run_plumb(arguments);
  EXPECT_TRUE(is_one_line_error(result, 2)) << result.exit_code << " " << result.err;
  EXPECT_NE(result.err.find(names), std::string::npos) << result.err;
  EXPECT_EQ(result.out, "");
}

TEST(CommandLine, WrongOnesEndInOneLine) {
  expect_usage_error({}, "plumb --help");
  expect_usage_error({"--thread", "2"}, "unknown flag --thread; did you mean \"--threads\"?");
  expect_usage_error({"--threads", "two"}, "two");
  expect_usage_error({"--threads", "0"}, "threads is 0, expected 1 to 1024");
  expect_usage_error({"--threads", "99999999999999999999"}, "--threads");
  expect_usage_error({"no-such-command"}, "unknown command \"no-such-command\"");
  expect_usage_error({"two\nlines"}, "two lines");
  expect_usage_error({"tokenizer", "train", "--out", "x", "--vocab-size", "0"},
                     "(plumb tokenizer train --help lists");
  expect_usage_error({"tokenizer", "train", "--out", "x", "--kind", "Bytes"}, "did you mean \"bytes\"?");
  // Before the first case is measured.
  expect_usage_error({"bench", "--json", "train-f32", "nrom"},
                     "no bench case \"nrom\"; did you mean \"norm\"?");
  expect_usage_error({"bench", "--json", "tokenizer"}, "needs --tokenizer FILE and --text FILE");
}

TEST(CommandLine, OutputThatCannotBeWrittenIsAnError) {
  const auto result = run_process({"sh", "-c", "\"$0\" --help > /dev/full", PLUMB_COMMAND});
  EXPECT_TRUE(is_one_line_error(result, 1)) << result.err;
  EXPECT_NE(result.err.find("No space left"), std::string::npos) << result.err;
}

}  // namespace
}  // namespace plumb::test
