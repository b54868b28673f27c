#include "base/file.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>

#include "plumb/error.h"

namespace plumb {
namespace {

constexpr size_t kBuffer = 1 << 20;

[[noreturn]] void fail(const char* what, const std::string& path, int code) {
  throw Error(ErrorKind::file, fmt::format("cannot {} '{}': {}", what, path, std::strerror(code)));
}

class Descriptor {
 public:
  Descriptor(const std::string& path, int flags, const char* what) {
    do value_ = open(path.c_str(), flags | O_CLOEXEC, 0666);
    while (value_ < 0 && errno == EINTR);
    if (value_ < 0) fail(what, path, errno);
  }
  ~Descriptor() { close(value_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  operator int() const { return value_; }

 private:
  int value_;
};

struct stat status_of(int descriptor, const std::string& path) {
  struct stat status;
  if (fstat(descriptor, &status) != 0) fail("read", path, errno);
  if (S_ISDIR(status.st_mode)) fail("read", path, EISDIR);
  return status;
}

std::string temporary_name(const std::string& path) {
  static std::atomic<unsigned> counter{0};
  return fmt::format("{}.{}-{}.tmp", path, getpid(), counter++);
}

// After a rename the folder has to be synced for the new name to survive a power cut.
void sync_folder(const std::string& path) {
  const int descriptor = open(parent_folder(path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return;  // a folder that may be written but not read
  fsync(descriptor);
  close(descriptor);
}

void list_below(const std::string& folder, std::vector<std::string>& files) {
  for (const std::string& name : list_folder(folder)) {
    const std::string path = join_path(folder, name);
    struct stat status;
    if (lstat(path.c_str(), &status) != 0) continue;  // gone meanwhile
    if (S_ISDIR(status.st_mode)) {
      list_below(path, files);
    } else if (stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode)) {
      files.push_back(path);
    }
  }
}

}  // namespace

std::string read_file(const std::string& path) {
  const Descriptor file(path, O_RDONLY, "read");
  const auto status = status_of(file, path);
  std::string bytes;
  // Pipes and files of /proc have no size: read until nothing comes.
  size_t filled = 0;
  size_t room = static_cast<size_t>(std::max<off_t>(status.st_size, 0)) + 1;
  while (true) {
    bytes.resize(filled + room);
    const ssize_t got = read(file, bytes.data() + filled, room);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail("read", path, errno);
    filled += static_cast<size_t>(got);
    if (got == 0) break;
    room = std::max<size_t>(bytes.size() - filled, 4096);
  }
  bytes.resize(filled);
  return bytes;
}

void write_file_atomically(const std::string& path, std::string_view bytes) {
  AtomicFile file(path);
  file.write(bytes);
  file.commit();
}

AtomicFile::AtomicFile(const std::string& path) : path_(path), temporary_(temporary_name(path)) {
  if (is_folder(path)) plumb::fail("write", path, EISDIR);
  do descriptor_ = open(temporary_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  while (descriptor_ < 0 && errno == EINTR);
  if (descriptor_ < 0) plumb::fail("write", path, errno);
}

AtomicFile::~AtomicFile() {
  if (descriptor_ < 0) return;
  close(descriptor_);
  unlink(temporary_.c_str());
}

void AtomicFile::fail(const char* what) {
  const int code = errno;
  close(descriptor_);
  unlink(temporary_.c_str());
  descriptor_ = -1;
  plumb::fail(what, path_, code);
}

void AtomicFile::write_through(const char* bytes, size_t count) {
  while (count > 0) {
    const ssize_t done = ::write(descriptor_, bytes, count);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) fail("write");
    bytes += done;
    count -= static_cast<size_t>(done);
  }
}

void AtomicFile::write(const void* bytes, size_t count) {
  size_ += count;
  if (buffer_.size() + count > kBuffer) flush();
  if (count > kBuffer) {
    write_through(static_cast<const char*>(bytes), count);
  } else {
    buffer_.append(static_cast<const char*>(bytes), count);
  }
}

void AtomicFile::write_at(uint64_t offset, const void* bytes, size_t count) {
  flush();
  const char* from = static_cast<const char*>(bytes);
  while (count > 0) {
    const ssize_t done = pwrite(descriptor_, from, count, static_cast<off_t>(offset));
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) fail("write");
    from += done;
    offset += static_cast<uint64_t>(done);
    count -= static_cast<size_t>(done);
  }
}

void AtomicFile::flush() {
  write_through(buffer_.data(), buffer_.size());
  buffer_.clear();
}

void AtomicFile::commit() {
  flush();
  if (fsync(descriptor_) != 0) fail("write");
  if (rename(temporary_.c_str(), path_.c_str()) != 0) fail("write");
  close(descriptor_);
  descriptor_ = -1;
  sync_folder(path_);
}

MappedFile::MappedFile(const std::string& path) : path_(path) {
  const Descriptor file(path, O_RDONLY, "read");
  size_ = static_cast<size_t>(status_of(file, path).st_size);
  if (size_ == 0) return;
  void* map = mmap(nullptr, size_, PROT_READ, MAP_SHARED, file, 0);
  if (map == MAP_FAILED) fail("map", path, errno);
  const size_t size = size_;
  keeper_ = std::shared_ptr<const void>(map, [size](const void* p) { munmap(const_cast<void*>(p), size); });
  data_ = static_cast<const char*>(map);
}

bool path_exists(const std::string& path) {
  return access(path.c_str(), F_OK) == 0;
}

bool is_folder(const std::string& path) {
  struct stat status;
  return stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

std::vector<std::string> list_folder(const std::string& path) {
  DIR* folder = opendir(path.c_str());
  if (!folder) fail("list", path, errno);
  std::vector<std::string> names;
  while (const dirent* entry = readdir(folder)) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
  }
  closedir(folder);
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::string> list_files(const std::string& folder) {
  std::vector<std::string> files;
  list_below(folder, files);
  return files;
}

void make_folder(const std::string& path) {
  if (path.empty() || is_folder(path)) return;
  const std::string parent = parent_folder(path);
  if (parent != path) make_folder(parent);
  if (mkdir(path.c_str(), 0777) == 0) return;
  const int code = errno;
  if (code != EEXIST || !is_folder(path)) fail("make the folder", path, code);
}

void remove_file(const std::string& path) {
  if (unlink(path.c_str()) != 0 && errno != ENOENT) fail("remove", path, errno);
}

FileStatus file_status(const std::string& path) {
  struct stat status;
  if (stat(path.c_str(), &status) != 0) fail("read", path, errno);
  return {static_cast<uint64_t>(status.st_size),
          status.st_mtim.tv_sec * 1'000'000'000LL + status.st_mtim.tv_nsec,
          static_cast<uint64_t>(status.st_dev), static_cast<uint64_t>(status.st_ino)};
}

void touch_file(const std::string& path) {
  if (utimensat(AT_FDCWD, path.c_str(), nullptr, 0) != 0) fail("set the time of", path, errno);
}

std::string join_path(std::string_view folder, std::string_view name) {
  std::string path(folder);
  if (!path.empty() && path.back() != '/') path += '/';
  return path.append(name);
}

std::string parent_folder(const std::string& path) {
  const size_t last = path.find_last_not_of('/');
  if (last == std::string::npos) return path.empty() ? "." : "/";
  const size_t slash = path.rfind('/', last);
  if (slash == std::string::npos) return ".";
  const size_t end = path.find_last_not_of('/', slash);
  return end == std::string::npos ? "/" : path.substr(0, end + 1);
}

std::string absolute_path(const std::string& path) {
  char resolved[PATH_MAX];
  if (realpath(path.c_str(), resolved)) return resolved;
  if (path.empty() || path[0] == '/') return path;
  if (!getcwd(resolved, sizeof resolved)) fail("resolve", path, errno);
  return join_path(resolved, path);
}

FileLock::FileLock(const std::string& path) {
  descriptor_ = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (descriptor_ < 0) fail("lock", path, errno);
  while (flock(descriptor_, LOCK_EX) != 0) {
    if (errno == EINTR) continue;
    const int code = errno;
    close(descriptor_);
    fail("lock", path, code);
  }
}

std::unique_ptr<FileLock> FileLock::try_lock(const std::string& path) {
  const int descriptor = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (descriptor < 0) fail("lock", path, errno);
  if (flock(descriptor, LOCK_EX | LOCK_NB) == 0) return std::unique_ptr<FileLock>(new FileLock(descriptor));
  const int code = errno;
  close(descriptor);
  if (code != EWOULDBLOCK) fail("lock", path, code);
  return nullptr;
}

FileLock::~FileLock() {
  close(descriptor_);
}

void remove_unfinished(const std::string& folder) {
  if (!is_folder(folder)) return;
  const auto digits = [](std::string_view text) {
    return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
  };
  for (const std::string& name : list_folder(folder)) {
    if (!name.ends_with(".tmp")) continue;
    const std::string_view stem = std::string_view(name).substr(0, name.size() - 4);
    const size_t dot = stem.rfind('.'), dash = stem.rfind('-');
    if (dot == std::string_view::npos || dash == std::string_view::npos || dash < dot) continue;
    if (digits(stem.substr(dot + 1, dash - dot - 1)) && digits(stem.substr(dash + 1))) {
      remove_file(join_path(folder, name));
    }
  }
}

}  // namespace plumb
