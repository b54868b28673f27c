#include "base/file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/test_support.h"

namespace plumb {
namespace {

class FileTest : public testing::Test {
 protected:
  std::string path(const std::string& name) const { return folder_ / name; }
  TempFolder folder_;
};

TEST_F(FileTest, WritesAndReadsBack) {
  std::string bytes(3'000'001, '\0');
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 31 >> 3);
  write_file_atomically(path("a"), bytes);
  EXPECT_EQ(read_file(path("a")), bytes);
  write_file_atomically(path("a"), "");
  EXPECT_EQ(read_file(path("a")), "");
  EXPECT_EQ(list_folder(folder_.str()), std::vector<std::string>{"a"});
}

TEST_F(FileTest, ReadsFilesWithoutSize) {
  EXPECT_NE(read_file("/proc/self/status").find("Pid:"), std::string::npos);
}

TEST_F(FileTest, ErrorsNamePathAndReason) {
  EXPECT_EQ(error_of(ErrorKind::file, [&] { read_file(path("none")); }),
            "cannot read '" + path("none") + "': No such file or directory");
  EXPECT_EQ(error_of(ErrorKind::file, [&] { read_file(folder_.str()); }),
            "cannot read '" + folder_.str() + "': Is a directory");
  EXPECT_EQ(error_of(ErrorKind::file, [&] { MappedFile{folder_.str()}; }),
            "cannot read '" + folder_.str() + "': Is a directory");
  EXPECT_EQ(error_of(ErrorKind::file, [&] { write_file_atomically(path("no/where"), "x"); }),
            "cannot write '" + path("no/where") + "': No such file or directory");
  EXPECT_EQ(error_of(ErrorKind::file, [&] { write_file_atomically(folder_.str(), "x"); }),
            "cannot write '" + folder_.str() + "': Is a directory");
  write_file_atomically(path("file"), "x");
  EXPECT_EQ(error_of(ErrorKind::file, [&] { make_folder(path("file/inside")); }),
            "cannot make the folder '" + path("file") + "': File exists");
}

// /proc takes no new files from anyone, root included.
TEST_F(FileTest, UnwritableFolder) {
  EXPECT_EQ(error_of(ErrorKind::file, [&] { write_file_atomically("/proc/plumb", "x"); })
                .rfind("cannot write '/proc/plumb': ", 0),
            0u);
  EXPECT_EQ(error_of(ErrorKind::file, [&] { make_folder("/proc/plumb"); })
                .rfind("cannot make the folder '/proc/plumb': ", 0),
            0u);
}

// A limit on the file size stands for a full disk: write() fails half-way in both.
TEST_F(FileTest, FullDiskKeepsTheOldFileAndLeavesNothing) {
  write_file_atomically(path("a"), "old");
  rlimit before;
  getrlimit(RLIMIT_FSIZE, &before);
  const auto handler = signal(SIGXFSZ, SIG_IGN);
  const rlimit small{1 << 20, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  const std::string message =
      error_of(ErrorKind::file, [&] { write_file_atomically(path("a"), std::string(3 << 20, 'n')); });
  setrlimit(RLIMIT_FSIZE, &before);
  signal(SIGXFSZ, handler);
  EXPECT_EQ(message, "cannot write '" + path("a") + "': File too large");
  EXPECT_EQ(read_file(path("a")), "old");
  EXPECT_EQ(list_folder(folder_.str()), std::vector<std::string>{"a"});
}

TEST_F(FileTest, AtomicFileAppearsOnCommitOnly) {
  {
    AtomicFile abandoned(path("a"));
    abandoned.write("half");
    abandoned.flush();
    EXPECT_FALSE(path_exists(path("a")));
    EXPECT_EQ(read_file(abandoned.temporary_path()), "half");
  }
  EXPECT_TRUE(list_folder(folder_.str()).empty());
  AtomicFile file(path("a"));
  file.write("0000");
  file.write(std::string(2 << 20, 'x'));
  file.write_at(0, "head", 4);
  file.write("tail");
  EXPECT_EQ(file.size(), (2u << 20) + 8);
  file.commit();
  EXPECT_EQ(read_file(path("a")), "head" + std::string(2 << 20, 'x') + "tail");
}

TEST_F(FileTest, MapOutlivesReplacement) {
  write_file_atomically(path("a"), "first");
  std::shared_ptr<const void> keeper;
  const char* data;
  {
    const MappedFile map(path("a"));
    EXPECT_EQ(map.bytes(), "first");
    keeper = map.keeper();
    data = map.data();
  }
  write_file_atomically(path("a"), "other");
  EXPECT_EQ(std::string_view(data, 5), "first");
  write_file_atomically(path("empty"), "");
  EXPECT_EQ(MappedFile(path("empty")).size(), 0u);
}

TEST_F(FileTest, ListsSortedAndFollowsLinksToFilesOnly) {
  make_folder(path("sub/deep"));
  write_file_atomically(path("sub/deep/b"), "");
  write_file_atomically(path("z"), "");
  write_file_atomically(path("a"), "");
  ASSERT_EQ(symlink("a", path("link").c_str()), 0);
  ASSERT_EQ(symlink("sub", path("loop").c_str()), 0);
  EXPECT_EQ(list_files(folder_.str()),
            (std::vector<std::string>{path("a"), path("link"), path("sub/deep/b"), path("z")}));
  EXPECT_EQ(file_status(path("a")).inode, file_status(path("link")).inode);
  remove_file(path("loop"));
  remove_file(path("link"));
}

TEST_F(FileTest, TouchingSetsTheTime) {
  write_file_atomically(path("a"), "x");
  const timespec past[2] = {{1000, 0}, {1000, 0}};
  ASSERT_EQ(utimensat(AT_FDCWD, path("a").c_str(), past, 0), 0);
  EXPECT_EQ(file_status(path("a")).modified_ns, 1000 * int64_t{1'000'000'000});
  touch_file(path("a"));
  write_file_atomically(path("b"), "x");
  EXPECT_NEAR(static_cast<double>(file_status(path("b")).modified_ns - file_status(path("a")).modified_ns), 0,
              60e9);
  EXPECT_NE(error_of(ErrorKind::file, [&] { touch_file(path("missing")); }).find("missing"),
            std::string::npos);
}

TEST_F(FileTest, Paths) {
  EXPECT_EQ(parent_folder("a"), ".");
  EXPECT_EQ(parent_folder("/a"), "/");
  EXPECT_EQ(parent_folder("/"), "/");
  EXPECT_EQ(parent_folder("a//b/"), "a");
  EXPECT_EQ(join_path("a/", "b"), "a/b");
  EXPECT_EQ(join_path("", "b"), "b");
}

TEST_F(FileTest, LockIsExclusive) {
  auto lock = FileLock::try_lock(path("lock"));
  ASSERT_TRUE(lock);
  EXPECT_FALSE(FileLock::try_lock(path("lock")));
  lock.reset();
  EXPECT_TRUE(FileLock::try_lock(path("lock")));
}

TEST(File, UnfinishedFilesOfKilledProcessesGo) {
  const std::string folder = testing::TempDir() + "plumb_unfinished";
  make_folder(folder);
  for (const char* name : {"a.safetensors.123-4.tmp", "a.safetensors", "mine.tmp", "x.1-b.tmp"}) {
    write_file_atomically(join_path(folder, name), "x");
  }
  remove_unfinished(folder);
  EXPECT_EQ(list_folder(folder), (std::vector<std::string>{"a.safetensors", "mine.tmp", "x.1-b.tmp"}));
  remove_unfinished(folder + "/missing");
}

}  // namespace
}  // namespace plumb
