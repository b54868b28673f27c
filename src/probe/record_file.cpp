#include "probe/record_file.h"

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/json.h"
#include "plumb/error.h"

namespace plumb {
namespace {

// Whether the line is a record of a step before `step`.
bool is_earlier(std::string_view line, int64_t step, const std::string& path) {
  try {
    const Json record = parse_json(line, path);
    const auto at = record.find("step");
    return at != record.end() && at->is_number_integer() && at->get<int64_t>() < step;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

void RecordFile::fail(const char* what) const {
  throw Error(ErrorKind::file, "cannot " + std::string(what) + " " + path_ + ": " + std::strerror(errno));
}

void RecordFile::open(int64_t step) {
  if (path_exists(path_)) {
    const std::string old = read_file(path_);
    std::string kept;
    for (size_t begin = 0, end; (end = old.find('\n', begin)) != std::string::npos; begin = end + 1) {
      const std::string_view line(old.data() + begin, end - begin);
      if (is_earlier(line, step, path_)) kept.append(line).push_back('\n');
    }
    if (kept.size() != old.size()) write_file_atomically(path_, kept);
  }
  file_.reset(std::fopen(path_.c_str(), "ab"));
  if (!file_) fail("open");
}

void RecordFile::append(int64_t step, const std::string& line) {
  if (!file_) open(step);
  const std::string whole = line + "\n";
  if (std::fwrite(whole.data(), 1, whole.size(), file_.get()) != whole.size()) fail("write");
  if (std::fflush(file_.get()) != 0) fail("write");
}

}  // namespace plumb
