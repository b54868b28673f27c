// Draws a page in headless Chromium, for tests that look at what its scripts made of it.
#pragma once

#include <string>

#include "support/process.h"

namespace plumb::test {

struct Browser {
  int width = 1200;
  bool dark = false;
};

bool has_browser();

// The page of an address once its scripts have run for ten seconds of its own clock, as text on the output;
// what it said to the console is on the error output, in lines with "CONSOLE". `profile` is a folder for the
// browser's files.
ProcessResult browse(const std::string& address, const std::string& profile, const Browser& browser = {});

// The text of <pre id="check"> in the browser's output, where a test's own script left it; "" if there is
// none.
std::string check_text(const std::string& output);

// The page with `script` at its end, and before all its scripts one that gathers errors in window.pageErrors.
std::string with_check(std::string page, const std::string& script);

}  // namespace plumb::test
