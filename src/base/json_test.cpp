#include "base/json.h"

#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "plumb/error.h"

namespace plumb {
namespace {

std::string refusal(std::string_view text) {
  try {
    parse_json(text, "x.json");
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::file);
    return error.what();
  }
  return "accepted";
}

TEST(Json, ParsesAndDumps) {
  const std::string text =
      R"({"a":[1,-2,2.5,true,null,"é\n\ud83e\udd99",{}],"b":{"c":18446744073709551615},"d":[[],[0]]})";
  const Json value = parse_json(text, "x");
  EXPECT_EQ(value["a"][5], "é\n🦙");
  EXPECT_EQ(value["b"]["c"].get<uint64_t>(), 18446744073709551615ull);
  EXPECT_EQ(value, Json::parse(text));
  EXPECT_EQ(parse_json(dump_json(value), "x"), value);
  EXPECT_EQ(parse_json("  7 ", "x"), 7);
}

TEST(Json, OrderedDumpKeepsOrder) {
  OrderedJson value;
  value["z"] = 1;
  value["a"] = {1, 2};
  EXPECT_EQ(dump_json(value, -1), R"({"z":1,"a":[1,2]})");
  value["n"] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(dump_json(value, -1), R"({"z":1,"a":[1,2],"n":null})");
}

TEST(Json, Quotes) {
  EXPECT_EQ(quote_json("a\"b\n"), R"("a\"b\n")");
  EXPECT_EQ(quote_json("\xff"), "\"\xef\xbf\xbd\"");
}

TEST(Json, RefusesWithPlace) {
  EXPECT_EQ(
      refusal("{\"a\":1,\n \"b\": }").rfind("x.json: not valid JSON at line 2, column 7: syntax error", 0),
      0u)
      << refusal("{\"a\":1,\n \"b\": }");
  EXPECT_EQ(refusal("{\"a\":1,\"a\":2}"), "x.json: the key \"a\" is given twice");
  EXPECT_EQ(refusal(std::string(100000, '[')), "x.json: JSON nested deeper than 64 levels");
  for (const char* bad :
       {"", "{", "[1,]", "{} {}", "\"\xff\"", "nul", "1e999", "{\"a\"}", "\"\\ud800\"", "NaN"}) {
    const std::string message = refusal(bad);
    EXPECT_EQ(message.rfind("x.json: not valid JSON", 0), 0u) << bad << " -> " << message;
    EXPECT_EQ(message.find('\n'), std::string::npos);
  }
}

}  // namespace
}  // namespace plumb
