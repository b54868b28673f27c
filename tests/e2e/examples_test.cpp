// The programs of examples/, each for a few steps on a small text.
#include <gtest/gtest.h>

#include "plumb/generator.h"
#include "support/files.h"
#include "support/process.h"

namespace plumb::test {
namespace {

class Examples : public testing::Test {
 protected:
  void SetUp() override {
    std::string text;
    for (int i = 0; i < 400; ++i)
      text += "Number " + std::to_string(i * i) + " stands in line " + std::to_string(i) + ".\n";
    write_file(folder_ / "text.txt", text);
  }
  ProcessResult run(const std::string& name, std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), {std::string(PLUMB_EXAMPLES_FOLDER) + "/" + name, folder_ / name});
    ProcessOptions options;
    options.environment = {{"XDG_CACHE_HOME", folder_ / "cache"}};
    return run_process(arguments, options);
  }
  TempFolder folder_;
};

TEST_F(Examples, DecoderTrainsAndWrites) {
  const auto result = run("decoder", {folder_ / "text.txt", "3"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.out.find("parameters"), std::string::npos) << result.out;
  const Model model = Model::load(folder_ / "decoder/model");
  const Tokenizer tokenizer = Tokenizer::load(folder_ / "decoder/model");
  GenerateOptions options;
  options.max_new_tokens = 4;
  EXPECT_GE(Generator(model, tokenizer).generate("Number", options).ids.size(), 1u);
}

TEST_F(Examples, EncoderTrainsAndFillsMasks) {
  const auto result = run("encoder", {folder_ / "text.txt", "3"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.out.find(" %"), std::string::npos) << result.out;
}

TEST_F(Examples, EncoderDecoderTrainsAndReverses) {
  const auto result = run("encoder_decoder", {"3"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.out.find("plumbline"), std::string::npos) << result.out;
}

TEST_F(Examples, RefuseInOneLine) {
  const auto result = run("decoder", {folder_ / "nothing.txt", "3"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_NE(result.err.find("nothing.txt"), std::string::npos) << result.err;
}

}  // namespace
}  // namespace plumb::test
