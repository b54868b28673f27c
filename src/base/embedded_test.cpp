#include "base/embedded.h"

#include <gtest/gtest.h>

namespace plumb {
namespace {

TEST(Embedded, ChartJsIsWholeAndSafeInsideAScriptElement) {
  const std::string_view script = embedded_file("chart.js");
  EXPECT_NE(script.substr(0, 100).find("Chart.js v"), std::string_view::npos);
  EXPECT_GT(script.size(), 100000u);
  EXPECT_EQ(script.find("</script"), std::string_view::npos);
  EXPECT_EQ(script.find('\0'), std::string_view::npos);
}

TEST(Embedded, NamesAreUnique) {
  for (const EmbeddedFile& file : embedded_files())
    EXPECT_EQ(embedded_file(file.name).data(), file.content.data());
}

TEST(EmbeddedDeathTest, UnknownNameIsADefect) {
  EXPECT_DEATH(embedded_file("no such file"), "no such file");
}

}  // namespace
}  // namespace plumb
