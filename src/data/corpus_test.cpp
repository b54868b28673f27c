#include "data/corpus.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <set>

#include "base/test_support.h"
#include "plumb/threads.h"
#include "plumb/tokenizer_trainer.h"

namespace plumb {
namespace {

class CorpusTest : public testing::Test {
 protected:
  CorpusTest() {
    make_folder(folder_ / "text");
    options_.cache_folder = folder_ / "cache";
  }
  std::string text(const std::string& name = "") const { return join_path(folder_ / "text", name); }
  std::string write(const std::string& name, const std::string& bytes) const {
    write_file_atomically(text(name), bytes);
    return text(name);
  }
  std::string lines(int count, const std::string& word) const {
    std::string result;
    for (int i = 0; i < count; ++i) result += word + " line number " + std::to_string(i) + "\n";
    return result;
  }
  std::vector<int32_t> ids(const TokenFile& file, Split part) const {
    std::vector<int32_t> result(file.count(part));
    file.read(part, 0, result.size(), result.data());
    return result;
  }
  // The documents of a part as text.
  std::vector<std::string> documents(const TokenFile& file, Split part) const {
    std::vector<std::string> result;
    std::vector<int32_t> document;
    for (const int32_t id : ids(file, part)) {
      if (id != file.header().end_token) {
        document.push_back(id);
      } else {
        result.push_back(bytes_.decode(document));
        document.clear();
      }
    }
    EXPECT_TRUE(document.empty()) << "the last document is not closed";
    return result;
  }
  std::string message_of(const std::string& path) const {
    try {
      open_corpus(path, bytes_, options_);
    } catch (const Error& error) {
      return error.what();
    }
    return "accepted";
  }

  TempFolder folder_;
  TextOptions options_;
  Tokenizer bytes_ = Tokenizer::bytes();
};

TEST_F(CorpusTest, WithoutHeldOutEachFileIsADocument) {
  write("a", "first text");
  write("b", "second");
  options_.held_out = 0;
  const TokenFile file = open_corpus(text(), bytes_, options_);
  EXPECT_EQ(documents(file, Split::train), (std::vector<std::string>{"first text", "second"}));
  EXPECT_EQ(file.count(Split::validation), 0u);
  EXPECT_EQ(file.header().documents, 2u);
  EXPECT_EQ(file.header().files, 2u);
  EXPECT_EQ(file.header().train_bytes, 16u);
}

TEST_F(CorpusTest, PartsShareNothingAndLoseNothing) {
  const std::string a = lines(3000, "alpha"), b = lines(2000, "beta");
  write("a", a);
  write("b", b);
  options_.held_out = 0.1;
  const TokenFile file = open_corpus(text(), bytes_, options_);
  const auto train = documents(file, Split::train), valid = documents(file, Split::validation);
  EXPECT_GE(valid.size(), 10u);  // from all over the text
  uint64_t valid_bytes = 0;
  for (const auto& document : valid) valid_bytes += document.size();
  EXPECT_EQ(valid_bytes, file.header().valid_bytes);
  EXPECT_NEAR(static_cast<double>(valid_bytes) / static_cast<double>(a.size() + b.size()), 0.1, 0.01);
  // Put back together in the order of the text, the documents are the text.
  std::set<std::string> all(train.begin(), train.end());
  all.insert(valid.begin(), valid.end());
  for (std::string whole : {a, b}) {
    while (!whole.empty()) {
      const auto next =
          std::find_if(all.begin(), all.end(), [&](const auto& d) { return whole.starts_with(d); });
      ASSERT_NE(next, all.end());
      whole.erase(0, next->size());
      all.erase(next);
    }
  }
  EXPECT_TRUE(all.empty());
}

TEST_F(CorpusTest, TokenizedInPiecesIsTokenizedWhole) {
  const std::string content = lines(20000, "gamma") + "\n\n\n  end";
  const Tokenizer bpe = train_tokenizer({write("a", content)}, {.vocab_size = 500});
  options_.held_out = 0;
  std::vector<int32_t> expected = bpe.encode(content);
  expected.push_back(*bpe.special(TokenRole::eos));
  EXPECT_EQ(ids(open_corpus(text("a"), bpe, options_), Split::train), expected);
}

TEST_F(CorpusTest, ThreadsDoNotChangeTheFile) {
  write("a", lines(5000, "delta"));
  const int before = threads();
  set_threads(1);
  const std::string one = read_file(open_corpus(text(), bytes_, options_).path());
  std::filesystem::remove_all(options_.cache_folder);
  set_threads(3);
  const std::string three = read_file(open_corpus(text(), bytes_, options_).path());
  set_threads(before);
  EXPECT_EQ(one, three);
}

TEST_F(CorpusTest, MadeOnceAndAgainWhenSomethingChanged) {
  write("a", lines(1000, "one"));
  int made = 0;
  options_.progress = [&](std::string_view, uint64_t done, uint64_t total) { made += done == total; };
  const auto open = [&] { return open_corpus(text(), bytes_, options_); };
  open();
  EXPECT_EQ(made, 1);
  const TokenFile kept = open();
  EXPECT_EQ(made, 1);
  write("a", read_file(text("a")));  // touched, but the same
  open();
  EXPECT_EQ(made, 1);
  write("a", lines(1000, "two"));
  EXPECT_EQ(documents(open(), Split::train)[0].substr(0, 3), "two");
  EXPECT_EQ(made, 2);
  EXPECT_EQ(documents(kept, Split::train)[0].substr(0, 3), "one");  // who has the old one open keeps it
  options_.held_out = 0.2;
  open();
  EXPECT_EQ(made, 3);
  open_corpus(text(), train_tokenizer({text("a")}, {.vocab_size = 300}), options_);
  EXPECT_EQ(made, 4);
}

TEST_F(CorpusTest, DamagedFilesAreMadeAgain) {
  write("a", lines(1000, "one"));
  const std::string path = open_corpus(text(), bytes_, options_).path();
  const std::string good = read_file(path);
  write_file_atomically(path, good.substr(0, good.size() / 2));
  open_corpus(text(), bytes_, options_);
  EXPECT_EQ(read_file(path), good);
}

TEST_F(CorpusTest, Refusals) {
  EXPECT_EQ(message_of(text("none")), "cannot read '" + text("none") + "': No such file or directory");
  EXPECT_EQ(message_of(write("empty", "")), "'" + text("empty") + "' is empty, expected UTF-8 text");
  EXPECT_EQ(message_of(write("binary", std::string("ab\0c", 4))),
            "'" + text("binary") + "' is not text: NUL byte at offset 2");
  EXPECT_EQ(message_of(write("latin", "ab\xe4")),
            "'" + text("latin") + "' is not UTF-8: byte 0xe4 at offset 2 does not belong to a character");
  write("good", "good");
  EXPECT_EQ(message_of(text()), "accepted");
  options_.held_out = 0.7;
  EXPECT_EQ(message_of(text()), "the held-out share is 0.7, expected 0 to 0.5");
  options_.held_out = 0.05;
  options_.cache_folder = text("good");
  EXPECT_EQ(message_of(text()), "cannot make the folder '" + text("good") + "': File exists");
}

TEST_F(CorpusTest, WhatNobodyOpenedForAMonthGoesWhenAnotherIsMade) {
  const auto open = [&](const std::string& name) { return open_corpus(text(name), bytes_, options_); };
  const auto age = [](const std::string& lock, int days) {
    const auto now = std::filesystem::file_time_type::clock::now();
    std::filesystem::last_write_time(lock, now - std::chrono::hours(24 * days));
  };
  for (const char* name : {"unused", "recent", "reused", "locked", "new"}) write(name, lines(50, name));
  const TokenFile unused = open("unused"), recent = open("recent"), reused = open("reused"),
                  locked = open("locked");
  const auto before = ids(unused, Split::train);
  const std::string left = unused.path() + ".held-out.123-4.tmp",
                    other = join_path(options_.cache_folder, "notes.lock");
  write_file_atomically(left, "half");
  write_file_atomically(other, "not ours");
  age(other, 31);
  age(recent.path() + ".lock", 29);
  for (const TokenFile& file : {unused, reused, locked}) age(file.path() + ".lock", 31);
  open("reused");
  EXPECT_TRUE(path_exists(unused.path())) << "nothing was made";
  {
    const FileLock lock(locked.path() + ".lock");
    open("new");
  }
  for (const std::string& path : {unused.path(), unused.path() + ".lock", left})
    EXPECT_FALSE(path_exists(path)) << path;
  for (const TokenFile& file : {recent, reused, locked}) EXPECT_TRUE(path_exists(file.path())) << file.path();
  EXPECT_TRUE(path_exists(other));
  EXPECT_EQ(ids(unused, Split::train), before) << "still mapped";
  EXPECT_EQ(ids(open("unused"), Split::train), before) << "made again";
}

TEST_F(CorpusTest, WhatAKilledProcessLeftGoesWhenItsFileIsMade) {
  write("a", lines(50, "a"));
  const std::string path = open_corpus(text(), bytes_, options_).path();
  write_file_atomically(path + ".7-8.tmp", "half");
  write("a", lines(60, "a"));
  open_corpus(text(), bytes_, options_);
  EXPECT_FALSE(path_exists(path + ".7-8.tmp"));
}

// A limit on the file size stands for a full disk.
TEST_F(CorpusTest, FullDiskLeavesNothingBehind) {
  write("a", lines(20000, "one"));
  rlimit before;
  getrlimit(RLIMIT_FSIZE, &before);
  const auto handler = signal(SIGXFSZ, SIG_IGN);
  const rlimit small{100'000, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  const std::string message = message_of(text());
  setrlimit(RLIMIT_FSIZE, &before);
  signal(SIGXFSZ, handler);
  EXPECT_NE(message.find("cannot write '" + options_.cache_folder), std::string::npos) << message;
  for (const std::string& name : list_folder(options_.cache_folder))
    EXPECT_TRUE(name.ends_with(".lock")) << name;
}

}  // namespace
}  // namespace plumb
