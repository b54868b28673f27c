#include "base/log.h"

#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <mutex>
#include <string>

namespace plumb {
namespace {

std::atomic<LogLevel> current_level{LogLevel::info};
std::mutex mutex;
std::string status;  // what stands on the terminal's last line

constexpr const char* kClear = "\r\x1b[K";

void print(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

void log(LogLevel level, const char* prefix, std::string_view line) {
  if (level < current_level) return;
  const std::lock_guard lock(mutex);
  std::string text = status.empty() ? "" : kClear;
  text.append(prefix).append(line).append("\n").append(status);
  print(text);
}

}  // namespace

void set_log_level(LogLevel level) {
  current_level = level;
}
LogLevel log_level() {
  return current_level;
}

void log_debug(std::string_view line) {
  log(LogLevel::debug, "", line);
}
void log_info(std::string_view line) {
  log(LogLevel::info, "", line);
}
void log_warning(std::string_view line) {
  log(LogLevel::warning, "warning: ", line);
}
void log_error(std::string_view line) {
  log(LogLevel::error, "error: ", line);
}

void show_status_line(std::string_view line) {
  const std::lock_guard lock(mutex);
  if (line.empty() && status.empty()) return;
  status = line;
  print(kClear + status);
}

}  // namespace plumb
