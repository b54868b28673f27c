#include "base/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cmath>

#include "base/log.h"

namespace plumb {
namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// A line that is longer than the terminal is wide would wrap and could not be rewritten. Bytes stand for
// columns: what is cut off a line with wider characters is no loss.
std::string fit_terminal(std::string_view line) {
  winsize size{};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col < 2) return std::string(line);
  size_t count = std::min<size_t>(line.size(), size.ws_col - 1u);
  while (count > 0 && count < line.size() && (line[count] & 0xC0) == 0x80) --count;
  return std::string(line.substr(0, count));
}

std::string scaled(double number, const std::array<const char*, 5>& units, const char* none) {
  if (!std::isfinite(number)) return fmt::format("{}", number);
  size_t unit = 0;
  double value = number;
  while (std::abs(value) >= 999.5 && unit < units.size()) {
    value /= 1000;
    ++unit;
  }
  if (unit == 0) return fmt::format("{:.0f}{}", value, none);
  return fmt::format("{:.{}f}{}", value, std::abs(value) < 99.95 ? 1 : 0, units[unit - 1]);
}

}  // namespace

bool stderr_is_terminal() {
  return isatty(STDERR_FILENO) == 1;
}

Progress::Progress(double seconds_between_lines)
    : terminal_(stderr_is_terminal()), interval_(terminal_ ? 0.1 : seconds_between_lines), start_(now()) {}

Progress::~Progress() {
  if (terminal_) show_status_line("");
}

bool Progress::due() const {
  return log_level() <= LogLevel::info && now() - last_ >= interval_;
}

void Progress::show(std::string_view line) {
  if (!due()) return;
  last_ = now();
  if (terminal_) {
    show_status_line(fit_terminal(line));
  } else {
    log_info(line);
  }
}

void Progress::finish(std::string_view line) {
  if (terminal_) show_status_line("");
  log_info(line);
  last_ = now();
}

double Progress::seconds() const {
  return now() - start_;
}

std::string progress_text(uint64_t bytes_done, uint64_t bytes_total, double seconds) {
  const double done = static_cast<double>(bytes_done), total = static_cast<double>(bytes_total);
  const double rate = seconds > 0 ? done / seconds : 0;
  std::string text = bytes_total > 0 ? fmt::format("{:.0f} %, ", 100 * done / total) : "";
  text += format_bytes(rate) + "/s";
  if (bytes_total > bytes_done && rate > 0)
    text += fmt::format(", {} left", format_duration((total - done) / rate));
  return text;
}

std::string format_duration(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) return "?";
  if (seconds < 1e-3) return fmt::format("{:.0f} us", seconds * 1e6);
  if (seconds < 0.9995) return fmt::format("{:.{}f} ms", seconds * 1e3, seconds < 0.01 ? 1 : 0);
  if (seconds < 9.95) return fmt::format("{:.1f} s", seconds);
  const double whole = std::floor(seconds + 0.5);
  if (whole < 60) return fmt::format("{:.0f} s", whole);
  if (whole < 3600) return fmt::format("{:.0f} min {:02.0f} s", std::floor(whole / 60), std::fmod(whole, 60));
  const double minutes = std::floor(seconds / 60 + 0.5);
  if (minutes < 1440)
    return fmt::format("{:.0f} h {:02.0f} min", std::floor(minutes / 60), std::fmod(minutes, 60));
  const double hours = std::floor(seconds / 3600 + 0.5);
  return fmt::format("{:.0f} d {:02.0f} h", std::floor(hours / 24), std::fmod(hours, 24));
}

std::string format_count(double number) {
  return scaled(number, {"k", "M", "G", "T", "P"}, "");
}
std::string format_bytes(double bytes) {
  return scaled(bytes, {" kB", " MB", " GB", " TB", " PB"}, " B");
}
std::string format_percent(double share) {
  return fmt::format("{:.1f} %", share * 100);
}

}  // namespace plumb
