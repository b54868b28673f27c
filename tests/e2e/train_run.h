// What the tests of `plumb train` share.
#pragma once

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "support/files.h"
#include "support/process.h"

namespace plumb::test {

class TrainCommand : public ::testing::Test {
 protected:
  TrainCommand() {
    std::string text;
    for (int i = 0; text.size() < 12000; ++i)
      text += "The " + std::to_string(i * 7919 % 1000) + "th line of it.\n";
    write_file(folder / "text.txt", text);
  }

  // plumb train with a small model, in the folder.
  ProcessResult train(std::vector<std::string> more, ProcessOptions options = {}) {
    std::vector<std::string> all = {
        "train", "--text",   "text.txt", "--tokenizer",  "bytes", "--width",         "32", "--heads",
        "2",     "--layers", "2",        "--max-length", "32",    "--batch",         "4",  "--length",
        "16",    "--warmup", "3",        "--held-out",   "0.1",   "--sample-tokens", "8"};
    all.insert(all.end(), more.begin(), more.end());
    return plumb(all, options);
  }
  ProcessResult plumb(const std::vector<std::string>& arguments, ProcessOptions options = {}) {
    options.folder = folder.path();
    options.environment.emplace_back("XDG_CACHE_HOME", folder / "cache");
    return run_plumb(arguments, options);
  }

  // metrics.jsonl without what depends on the clock.
  std::vector<nlohmann::json> metrics(const std::string& run) {
    std::ifstream in(folder / (run + "/metrics.jsonl"));
    std::vector<nlohmann::json> lines;
    for (std::string line; std::getline(in, line);) {
      lines.push_back(nlohmann::json::parse(line));
      lines.back().erase("seconds");
    }
    return lines;
  }
  std::string model_bytes(const std::string& run) {
    return read_file(folder / (run + "/model/model.safetensors"));
  }

  // Ends with one line that names the cause, behind what was told before.
  static void expect_error(const ProcessResult& r, int exit_code, const std::vector<std::string>& names) {
    EXPECT_EQ(r.exit_code, exit_code) << r.err;
    EXPECT_FALSE(r.timed_out);
    const std::string body = r.err.empty() ? "" : r.err.substr(0, r.err.size() - 1);
    const std::string last = body.substr(body.rfind('\n') + 1);
    EXPECT_TRUE(last.starts_with("plumb: ")) << r.err;
    for (const std::string& name : names)
      EXPECT_NE(last.find(name), std::string::npos) << name << "\n" << r.err;
  }

  TempFolder folder;
};

}  // namespace plumb::test
