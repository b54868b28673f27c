// The build without HTTP: what stands in for the server refuses, in one line that names a way out.
#include "plumb/watch.h"

#include <gtest/gtest.h>

#include "plumb/error.h"

namespace plumb {
namespace {

TEST(WatchWithoutHttp, SaysSoInOneLine) {
  try {
    const Watch watch("run", 0);
    FAIL() << "made a server";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::unsupported);
    const std::string words = e.what();
    EXPECT_EQ(words.find('\n'), std::string::npos);
    EXPECT_NE(words.find("without HTTP"), std::string::npos);
    EXPECT_NE(words.find("plumb report"), std::string::npos);
  }
}

}  // namespace
}  // namespace plumb
