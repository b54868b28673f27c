// Lines for people, on stderr. Safe from any thread; a progress line on the terminal is moved below what is
// logged.
#pragma once

#include <string_view>

namespace plumb {

enum class LogLevel { debug, info, warning, error, silent };

void set_log_level(LogLevel level);  // lines below it are dropped; the default is info
LogLevel log_level();

void log_debug(std::string_view line);
void log_info(std::string_view line);
void log_warning(std::string_view line);  // "warning: ..."
void log_error(std::string_view line);    // "error: ..."

// The line at the bottom of the terminal that the next call overwrites; an empty one clears it. Only for
// Progress.
void show_status_line(std::string_view line);

}  // namespace plumb
