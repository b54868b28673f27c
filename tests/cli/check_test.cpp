// plumb check: formats, exit codes, and no false alarm on what is sound.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "plumb/check.h"
#include "plumb/model.h"
#include "plumb/tokenizer.h"
#include "plumb/trainer.h"
#include "support/files.h"
#include "support/process.h"

namespace plumb::test {
namespace {

using nlohmann::json;

std::vector<json> lines_of(const std::string& text) {
  std::vector<json> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(json::parse(line));
  return lines;
}

// A folder with an error (a final norm too few), a warning (no gain on branch norms) and a note.
std::string faulty(const TempFolder& folder, bool error) {
  ModelConfig c;
  c.vocab_size = 20;
  c.width = 16;
  c.max_length = 64;
  c.decoder_layers = 2;
  c.layer.placement = Placement::sandwich;
  c.layer.norm_affine = false;
  if (error) c.final_norm = false;
  std::string path = folder / (error ? "error" : "a warning");
  Model::create(c, 1).save(path);
  return path;
}

void expect_sound(const std::string& model) {
  const auto result = run_plumb({"check", model, "--strict"});
  EXPECT_EQ(result.exit_code, 0) << model << "\n" << result.out << result.err;
  EXPECT_NE(result.out.find("nothing found"), std::string::npos) << result.out;
}

TEST(Check, ExitCodesFollowTheWorstFinding) {
  const TempFolder folder;
  const std::string error = faulty(folder, true), warning = faulty(folder, false);
  EXPECT_EQ(run_plumb({"check", error}).exit_code, 2);
  EXPECT_EQ(run_plumb({"check", error, "--strict"}).exit_code, 2);
  EXPECT_EQ(run_plumb({"check", warning}).exit_code, 0);
  EXPECT_EQ(run_plumb({"check", warning, "--strict"}).exit_code, 1);
}

TEST(Check, TextNamesRuleReasonFixAndFigures) {
  const TempFolder folder;
  const auto result = run_plumb({"check", faulty(folder, true)});
  for (const char* part : {"placement\n", "PL103 error", "2002.04745", "fix  Set final_norm", "at   decoder",
                           "found 2 layers", "expected final_norm: true", "PL110 warning",
                           "decoder layers 0 to 1", "1 error, 1 warning, 1 note"}) {
    EXPECT_NE(result.out.find(part), std::string::npos) << part << "\n" << result.out;
  }
  EXPECT_EQ(result.out.find('\x1b'), std::string::npos) << "colours are for terminals";
  EXPECT_EQ(result.err, "");
}

TEST(Check, JsonLines) {
  const TempFolder folder;
  const auto lines = lines_of(run_plumb({"check", faulty(folder, true), "--json"}).out);
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0].at("code"), "PL103");
  EXPECT_EQ(lines[0].at("severity"), "error");
  for (const json& line : lines) {
    for (const char* key :
         {"code", "severity", "subject", "where", "found", "expected", "sentence", "source", "fix"})
      EXPECT_FALSE(line.at(key).get<std::string>().empty()) << key;
  }
  EXPECT_EQ(run_plumb({"check", "default", "--json"}).out, "");
}

// What the schema of SARIF 2.1.0 requires, and that the parts refer to one another rightly.
TEST(Check, Sarif) {
  const TempFolder folder;
  const json sarif = json::parse(run_plumb({"check", faulty(folder, false), "--sarif"}).out);
  EXPECT_EQ(sarif.at("version"), "2.1.0");
  EXPECT_TRUE(sarif.at("$schema").get<std::string>().ends_with("sarif-2.1.0.json"));
  ASSERT_EQ(sarif.at("runs").size(), 1u);
  const json& run = sarif["runs"][0];
  const json& driver = run.at("tool").at("driver");
  EXPECT_TRUE(driver.at("name").is_string());
  const std::set<std::string> levels{"none", "note", "warning", "error"};
  std::set<std::string> ids;
  for (const json& rule : driver.at("rules")) {
    EXPECT_TRUE(ids.insert(rule.at("id").get<std::string>()).second) << "ids are unique";
    EXPECT_TRUE(rule.at("shortDescription").at("text").is_string());
    EXPECT_TRUE(levels.contains(rule.at("defaultConfiguration").at("level").get<std::string>()));
    EXPECT_TRUE(rule.at("properties").at("tags").is_array());
  }
  EXPECT_EQ(ids.size(), check_rules().size());
  ASSERT_EQ(run.at("results").size(), 2u);
  for (const json& result : run["results"]) {
    EXPECT_FALSE(result.at("message").at("text").get<std::string>().empty());
    EXPECT_TRUE(levels.contains(result.at("level").get<std::string>()));
    EXPECT_EQ(driver["rules"].at(result.at("ruleIndex").get<size_t>()).at("id"), result.at("ruleId"));
    ASSERT_TRUE(result.at("locations").is_array());
    const json& location = result["locations"].at(0);
    const std::string uri = location.at("physicalLocation").at("artifactLocation").at("uri");
    EXPECT_TRUE(uri.ends_with("a%20warning")) << uri;
    ASSERT_TRUE(location.at("logicalLocations").is_array());
    EXPECT_TRUE(location["logicalLocations"].at(0).at("fullyQualifiedName").is_string());
  }
}

TEST(Check, TheDocumentHoldsTheRules) {
  const auto rules = run_plumb({"check", "--rules"});
  EXPECT_EQ(rules.exit_code, 0);
  EXPECT_EQ(std::count(rules.out.begin(), rules.out.end(), '\n'),
            static_cast<long>(check_rules().size()) + 2);
  const std::string document = read_file(source_folder() / "docs/check.md");
  EXPECT_NE(document.find("\n" + rules.out), std::string::npos)
      << "put the output of `plumb check --rules` into docs/check.md";
  const std::string readme = read_file(source_folder() / "README.md");
  EXPECT_NE(readme.find(std::to_string(check_rules().size()) + " rules"), std::string::npos);
}

TEST(Check, WrongCommandLinesAndFoldersAreOneLine) {
  const TempFolder folder;
  const std::string model = faulty(folder, false);
  write_file(folder / "empty", "");
  write_file(folder / "broken/config.json", "{");
  const auto expect = [](const std::vector<std::string>& arguments, int code, const std::string& part) {
    const auto result = run_plumb(arguments);
    EXPECT_TRUE(is_one_line_error(result, code)) << result.exit_code << result.err;
    EXPECT_NE(result.err.find(part), std::string::npos) << result.err;
    EXPECT_EQ(result.out, "");
  };
  expect({"check"}, 2, "check takes a model");
  expect({"check", model, "--json", "--sarif"}, 2, "choose one");
  expect({"check", "no-such-recipe"}, 2, "no-such-recipe");
  expect({"check", folder.str()}, 1, "config.json");
  expect({"check", folder / "broken"}, 1, "config.json");
  expect({"check", model, "--text", folder / "absent"}, 1, "absent");
  expect({"check", model, "--text", folder / "empty"}, 1, "is empty");
}

TEST(Check, TheSampleTextIsTheUsers) {
  const TempFolder folder;
  ModelConfig c;
  c.vocab_size = 259;
  c.width = 16;
  c.max_length = 64;
  c.decoder_layers = 2;
  c.eos_ids = {256};
  Model::create(c, 1).save(folder / "m");
  Tokenizer::bytes().save(folder / "m");
  write_file(folder / "same.txt", std::string(100, 'a'));  // one token: every state is the same
  expect_sound(folder / "m");
  const auto result = run_plumb({"check", folder / "m", "--text", folder / "same.txt", "--json"});
  ASSERT_EQ(lines_of(result.out).size(), 1u) << result.out;
  EXPECT_EQ(lines_of(result.out)[0].at("code"), "PL710");
}

TEST(Check, RecipesAreSound) {
  ASSERT_FALSE(recipe_names().empty());
  for (const std::string& name : recipe_names()) expect_sound(name);
}

TEST(Check, AFaultyRecipe) {
  const TempFolder folder;
  write_file(folder / "r.toml",
             "layers = 12\nplacement = \"post-norm\"\nlr = 1e-3\nwarmup = 0\nheads = 3\nwidth = 64\n");
  const auto result = run_plumb({"check", folder / "r.toml", "--json"});
  EXPECT_EQ(result.exit_code, 2);
  std::set<std::string> codes;
  for (const json& line : lines_of(result.out)) codes.insert(line.at("code"));
  EXPECT_EQ(codes, (std::set<std::string>{"PL001", "PL402", "PL801"})) << result.out;
}

TEST(Check, PublishedLayoutsAreSound) {
  for (const char* name : {"gpt2", "llama", "bert", "marian"}) {
    const auto path = shared_path(std::string("golden/") + name);
    SKIP_WITHOUT(path);
    expect_sound(path);
  }
}

TEST(Check, ATrainedRunIsSound) {
  const TempFolder folder;
  std::string text;
  for (int i = 0; text.size() < 20000; ++i)
    text += "The " + std::to_string(i * 7919 % 1000) + "th line of it.\n";
  write_file(folder / "text.txt", text);
  for (const char* placement : {"pre-norm", "deep-norm", "re-zero"}) {
    const std::string run = folder / placement;
    const auto trained = run_plumb({"train",
                                    "--text",
                                    folder / "text.txt",
                                    "--tokenizer",
                                    "bytes",
                                    "--out",
                                    run,
                                    "--placement",
                                    placement,
                                    "--layers",
                                    "3",
                                    "--width",
                                    "32",
                                    "--heads",
                                    "2",
                                    "--length",
                                    "32",
                                    "--batch",
                                    "8",
                                    "--steps",
                                    "60",
                                    "--warmup",
                                    "5",
                                    "--lr",
                                    "3e-3",
                                    "--optimizer",
                                    "adamw",
                                    "--max-length",
                                    "64",
                                    "--sample-tokens",
                                    "0"});
    ASSERT_EQ(trained.exit_code, 0) << trained.err;
    expect_sound(run);
  }
}

}  // namespace
}  // namespace plumb::test
