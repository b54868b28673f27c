#include <gtest/gtest.h>

#include "base/file.h"
#include "fuzz_cases.h"
#include "plumb/tokenizer.h"

namespace plumb::fuzz {
namespace {

class FuzzTest : public testing::TestWithParam<std::string> {};

TEST_P(FuzzTest, Corpus) {
  const std::string folder = join_path(PLUMB_FUZZ_CORPUS, GetParam());
  const std::vector<std::string> names = list_folder(folder);
  EXPECT_FALSE(names.empty());
  for (const std::string& name : names) {
    SCOPED_TRACE(name);
    EXPECT_NO_THROW(run_case(GetParam(), read_file(join_path(folder, name))));
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, FuzzTest, testing::ValuesIn(kinds()),
                         [](const auto& kind) { return kind.param; });

}  // namespace
}  // namespace plumb::fuzz
