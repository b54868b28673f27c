// Stopping on request: the first Ctrl-C (or SIGTERM) only sets a flag, so that a run can save and end;
// another one, half a second later or more, ends the process at once.
#pragma once

namespace plumb {

// For programs, as the first thing they do; the library never calls it. No handler may run on a thread that
// computes: oneDNN's sgemm (2.7) keeps data below its stack pointer, where a handler's frame goes, and the
// heap is damaged. So a thread of its own takes both signals, and this thread and those that it starts from
// now on do not. Until catch_stop_signals() they end the process as ever.
void keep_stop_signals_off_threads();

void catch_stop_signals();  // from now on they set the flag; for programs, too
bool stop_requested();
void request_stop();  // as if the user had asked
void forget_stop();   // clears the flag

}  // namespace plumb
