// Files: whole reads, writes that never leave half a file behind, read-only maps, listings, locks.
// Every failure is Error(file) that names the path and the system's reason.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace plumb {

// The whole file. An empty file gives an empty string; whether that is right is for the caller to say.
std::string read_file(const std::string& path);

// Writes beside the target, syncs, renames, syncs the folder: readers see the old content or the new, never a
// mixture. On failure (a full disk included) the temporary file is removed and the old content stays.
void write_file_atomically(const std::string& path, std::string_view bytes);

// The same for content that is too large to hold. Without commit() the destructor removes what was written.
class AtomicFile {
 public:
  explicit AtomicFile(const std::string& path);  // the target; its folder must exist
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(const void* bytes, size_t count);  // buffered
  void write(std::string_view bytes) { write(bytes.data(), bytes.size()); }
  void write_at(uint64_t offset, const void* bytes, size_t count);  // over what was written, e.g. a header
  void flush();                                                     // to the file, not yet to the disk
  void commit();                                                    // once, last
  uint64_t size() const { return size_; }
  const std::string& temporary_path() const { return temporary_; }

 private:
  void write_through(const char* bytes, size_t count);
  [[noreturn]] void fail(const char* what);

  std::string path_, temporary_, buffer_;
  int descriptor_ = -1;
  uint64_t size_ = 0;
};

// Removes from a folder what killed processes left half written there: NAME.PID-NUMBER.tmp. Only where nobody
// else can be writing, as under a lock. Fine if the folder does not exist.
void remove_unfinished(const std::string& folder);

// A file mapped read-only. Copies share the map, which lives until the last of them (or of keeper()) is gone.
// The file must not be cut while it is mapped; files that this project writes are replaced, never cut.
class MappedFile {
 public:
  MappedFile() = default;
  explicit MappedFile(const std::string& path);

  const char* data() const { return data_; }
  size_t size() const { return size_; }
  std::string_view bytes() const { return {data_, size_}; }
  const std::string& path() const { return path_; }
  std::shared_ptr<const void> keeper() const { return keeper_; }  // keeps the map alive

 private:
  std::string path_;
  std::shared_ptr<const void> keeper_;
  const char* data_ = nullptr;
  size_t size_ = 0;
};

bool path_exists(const std::string& path);
bool is_folder(const std::string& path);

// Names (not paths) of what is directly inside a folder, sorted by bytes; "." and ".." left out.
std::vector<std::string> list_folder(const std::string& path);

// Regular files below a folder, as paths, depth first, sorted by bytes. Links to files are listed, links to
// folders are not followed.
std::vector<std::string> list_files(const std::string& folder);

void make_folder(const std::string& path);  // with its parents; fine if it exists
void remove_file(const std::string& path);  // fine if it does not exist

struct FileStatus {
  uint64_t size = 0;
  int64_t modified_ns = 0;
  uint64_t device = 0, inode = 0;  // two paths with equal pairs are one file
};
FileStatus file_status(const std::string& path);
void touch_file(const std::string& path);  // it was modified now

// folder + "/" + name, without doubling the slash.
std::string join_path(std::string_view folder, std::string_view name);
std::string parent_folder(const std::string& path);  // "." for a bare name
std::string absolute_path(const std::string& path);  // links resolved where they exist

// An exclusive advisory lock held while this lives; it ends with the process, so a crash never leaves it
// behind. The file itself stays. try_lock: empty if another process holds it.
class FileLock {
 public:
  explicit FileLock(const std::string& path);  // waits
  static std::unique_ptr<FileLock> try_lock(const std::string& path);
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  explicit FileLock(int descriptor) : descriptor_(descriptor) {}
  int descriptor_ = -1;
};

}  // namespace plumb
