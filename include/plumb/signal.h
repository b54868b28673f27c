// Stopping on request: the first Ctrl-C (or SIGTERM) only sets a flag, so that a run can save and end;
// another one, half a second later or more, ends the process at once.
#pragma once

namespace plumb {

void catch_stop_signals();  // installs the handlers; for programs, the library never calls it
bool stop_requested();
void request_stop();  // as if the user had asked
void forget_stop();   // clears the flag

}  // namespace plumb
