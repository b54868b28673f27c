#include "plumb/watch.h"

#include <gtest/gtest.h>
#include <httplib.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "base/file.h"
#include "base/test_support.h"
#include "plumb/error.h"
#include "plumb/signal.h"

namespace plumb {
namespace {

class WatchTest : public testing::Test {
 protected:
  ~WatchTest() override { stop(); }

  void add(const std::string& name, const std::string& text) {
    std::ofstream(join_path(folder, name), std::ios::app) << text;
  }
  void serve() {
    forget_stop();
    watch.emplace(folder, 0);
    serving = std::thread([this] { watch->serve(); });
    client.emplace(watch->address().substr(0, watch->address().size() - 1));
  }
  void stop() {
    request_stop();
    if (serving.joinable()) serving.join();
    forget_stop();
  }
  std::string body(const std::string& path) {
    const auto answer = client->Get(path);
    return answer ? answer->body : "no answer";
  }
  int status(const std::string& path, const httplib::Headers& headers = {}) {
    const auto answer = client->Get(path, headers);
    return answer ? answer->status : -1;
  }

  // What the data come to be, which are not read anew for a moment after they were.
  httplib::Result fresh(const std::string& version) {
    for (int tries = 0; tries < 500; ++tries) {
      auto answer = client->Get("/data", {{"If-None-Match", version}});
      if (!answer || answer->status != 304) return answer;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return httplib::Result(nullptr, httplib::Error::Unknown);
  }

  TempFolder temporary;
  std::string folder = temporary.str();
  std::optional<Watch> watch;
  std::optional<httplib::Client> client;
  std::thread serving;
};

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_F(WatchTest, PageAndDataFollowTheRun) {
  add("metrics.jsonl", "{\"step\":1,\"loss\":3}\n{\"step\":2,\"loss\":2.5}\n{\"step\":3,\"lo");
  serve();
  const std::string page = body("/");
  EXPECT_TRUE(has(page, "connect-src 'self'"));
  EXPECT_TRUE(has(page, "id=\"live\""));
  EXPECT_TRUE(has(page, "2 recorded"));
  EXPECT_FALSE(has(page, "line 3")) << "a line that is being written is no problem";

  const auto first = client->Get("/data");
  ASSERT_TRUE(first && first->status == 200);
  EXPECT_TRUE(has(first->body, R"("loss":[3.0,2.5])")) << first->body;
  const std::string version = first->get_header_value("ETag");
  EXPECT_EQ(status("/data", {{"If-None-Match", version}}), 304);

  add("metrics.jsonl", "ss\":2}\n");
  const auto second = fresh(version);
  ASSERT_TRUE(second && second->status == 200);
  EXPECT_TRUE(has(second->body, R"("loss":[3.0,2.5,2.0])")) << second->body;
  EXPECT_TRUE(has(second->body, "3 recorded"));

  std::filesystem::remove_all(folder);
  const auto gone = fresh(second->get_header_value("ETag"));
  ASSERT_TRUE(gone);
  EXPECT_EQ(gone->status, 503);
  EXPECT_TRUE(has(gone->body, folder));
  stop();
  EXPECT_FALSE(client->Get("/"));
}

TEST_F(WatchTest, ARunWithoutAStepIsWaitedFor) {
  add("recipe.toml", "steps = 5\n");
  serve();
  EXPECT_TRUE(has(body("/"), "http-equiv=\"refresh\""));
  EXPECT_TRUE(has(body("/"), "Waiting for the run's first step"));
  EXPECT_EQ(status("/data"), 503);
  add("metrics.jsonl", "{\"step\":1,\"lo");
  EXPECT_TRUE(has(body("/"), "Waiting"));
  add("metrics.jsonl", "ss\":3}\n");
  EXPECT_TRUE(has(body("/"), "1 recorded"));
  EXPECT_EQ(status("/data"), 200);
}

TEST_F(WatchTest, NothingElseIsServed) {
  add("metrics.jsonl", "{\"step\":1,\"loss\":3}\n");
  serve();
  for (const char* path :
       {"/metrics.jsonl", "/../metrics.jsonl", "/%2e%2e/metrics.jsonl", "//etc/passwd", "/data/x"})
    EXPECT_EQ(status(path), 404) << path;
  EXPECT_EQ(client->Post("/data", "x", "text/plain")->status, 413);
  EXPECT_EQ(client->Delete("/data")->status, 404);
  EXPECT_EQ(status("/data", {{"Host", "elsewhere.example"}}), 403);
  EXPECT_EQ(status("/data", {{"Host", "127.0.0.1.elsewhere.example:8765"}}), 403);
  EXPECT_EQ(status("/data", {{"Host", "localhost:1"}}), 200);
}

TEST_F(WatchTest, WhatIsNoRunOrHasNoPortIsRefused) {
  const auto refused = [&](ErrorKind kind, const std::string& run, int port) {
    return error_of(kind, [&] { Watch(run, port); });
  };
  EXPECT_TRUE(has(refused(ErrorKind::file, folder + "/none", 0), "no folder"));
  EXPECT_TRUE(has(refused(ErrorKind::file, folder, 0), "not the folder of a training run"));
  add("metrics.jsonl", "{\"step\":1,\"loss\":3}\n");
  serve();
  const std::string address = watch->address();
  const int port = std::stoi(address.substr(address.rfind(':') + 1));
  EXPECT_TRUE(has(refused(ErrorKind::usage, folder, port), std::to_string(port) + " is taken"));
}

}  // namespace
}  // namespace plumb
