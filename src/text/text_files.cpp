#include "text/text_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <set>

#include "base/file.h"
#include "base/hash.h"
#include "base/utf8.h"
#include "plumb/error.h"

namespace plumb {
namespace {

constexpr size_t kPiece = 1 << 20;

[[noreturn]] void nothing_left(const TextFiles& files, const std::string& where = "") {
  const std::string notice = skip_notice(files);
  throw Error(ErrorKind::input,
              "no UTF-8 text file was found" + where + (notice.empty() ? "" : ": " + notice));
}

std::string base_name(const std::string& path) {
  return path.substr(path.rfind('/') + 1);
}

// The last place before a blank that follows a non-blank; 0 if there is none.
size_t blank_edge(std::string_view text) {
  for (size_t end = text.size() - 1; end > 0; --end) {
    const char c = text[end];
    if (c != ' ' && c != '\n' && c != '\t' && c != '\r') continue;
    size_t before = end - 1;
    while (before > 0 && (text[before] & 0xC0) == 0x80) --before;
    if (!is_white_space(next_code_point(text, before))) return end;
  }
  return 0;
}

}  // namespace

TextFiles list_text_files(const std::vector<std::string>& names) {
  TextFiles result;
  std::set<std::pair<uint64_t, uint64_t>> seen;
  const auto take = [&](const std::string& path, bool named) {
    const FileStatus status = file_status(path);
    if (status.size == 0) {
      if (named) throw Error(ErrorKind::input, fmt::format("'{}' is empty, expected UTF-8 text", path));
      result.skipped["empty"].push_back(path);
    } else if (!seen.insert({status.device, status.inode}).second) {
      result.skipped["the same as another"].push_back(path);
    } else {
      result.files.push_back({path, status.size, named});
      result.bytes += status.size;
    }
  };
  for (const std::string& name : names) {
    if (!is_folder(name)) {
      take(name, true);
    } else {
      for (const std::string& path : list_files(name)) take(path, false);
    }
  }
  if (result.files.empty()) nothing_left(result, names.empty() ? "" : " in " + names.back());
  return result;
}

uint64_t check_text_files(TextFiles& files) {
  Hash content;
  std::vector<TextFile> good;
  for (const TextFile& file : files.files) {
    try {
      Hash own;
      TextReader reader(file.path, kPiece);
      for (std::string piece; reader.next(piece);) own.add(piece);
      content.add(own.value());
      good.push_back(file);
    } catch (const Error& error) {
      if (file.named) throw;
      const std::string what = error.what();
      const char* reason = error.kind() == ErrorKind::file              ? "unreadable"
                           : what.find("NUL byte") != std::string::npos ? "with NUL bytes"
                                                                        : "not UTF-8";
      files.skipped[reason].push_back(file.path);
      files.bytes -= file.size;
    }
  }
  files.files = std::move(good);
  if (files.files.empty()) nothing_left(files);
  return content.value();
}

std::string skip_notice(const TextFiles& files) {
  size_t count = 0;
  std::string reasons;
  for (const auto& [reason, paths] : files.skipped) {
    count += paths.size();
    reasons += fmt::format("{}{} {} ({}{})", reasons.empty() ? "" : ", ", paths.size(), reason,
                           base_name(paths[0]), paths.size() > 1 ? " ..." : "");
  }
  if (count == 0) return "";
  return fmt::format("skipped {} of {} files: {}", count, count + files.files.size(), reasons);
}

TextReader::TextReader(const std::string& path, size_t piece)
    : path_(path), piece_(std::max<size_t>(piece, 16)) {
  descriptor_ = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor_ < 0) {
    throw Error(ErrorKind::file, fmt::format("cannot read '{}': {}", path, std::strerror(errno)));
  }
}

TextReader::~TextReader() {
  close(descriptor_);
}

void TextReader::fill() {
  const size_t wanted = piece_ + 4;  // a piece and the end of its last character
  if (ended_ || rest_.size() - used_ >= wanted) return;
  rest_.erase(0, used_);
  used_ = 0;
  while (!ended_ && rest_.size() < wanted) {
    const size_t had = rest_.size();
    rest_.resize(wanted + kPiece);
    const ssize_t got = read(descriptor_, rest_.data() + had, rest_.size() - had);
    const int code = errno;
    rest_.resize(had + static_cast<size_t>(std::max<ssize_t>(got, 0)));
    if (got < 0 && code == EINTR) continue;
    if (got < 0)
      throw Error(ErrorKind::file, fmt::format("cannot read '{}': {}", path_, std::strerror(code)));
    ended_ = got == 0;
  }
}

bool TextReader::next(std::string& piece) {
  fill();
  const std::string_view rest = std::string_view(rest_).substr(used_);
  if (rest.empty()) return false;
  size_t end = std::min(rest.size(), piece_);
  while (end < rest.size() && end < piece_ + 3 && (rest[end] & 0xC0) == 0x80) ++end;
  const std::string_view text = rest.substr(0, end);
  if (const void* nul = std::memchr(text.data(), 0, text.size())) {
    const auto place = offset_ + static_cast<uint64_t>(static_cast<const char*>(nul) - text.data());
    throw Error(ErrorKind::input, fmt::format("'{}' is not text: NUL byte at offset {}", path_, place));
  }
  if (const size_t fault = utf8_fault(text); fault != kUtf8Valid) {
    throw Error(ErrorKind::input,
                fmt::format("'{}' is not UTF-8: byte 0x{:02x} at offset {} does not belong to a character",
                            path_, static_cast<unsigned char>(text[fault]), offset_ + fault));
  }
  if (end < rest.size()) {
    if (const size_t edge = blank_edge(text)) end = edge;
  }
  piece.assign(rest.substr(0, end));
  used_ += end;
  offset_ += end;
  return true;
}

}  // namespace plumb
