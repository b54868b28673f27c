// How many threads this process computes with. Results depend on the number, never on timing.
#pragma once

namespace plumb {

// Default: OMP_NUM_THREADS if set, else every core. Call it before other work, from the main thread.
// Error(usage) unless 1 <= count <= 1024.
void set_threads(int count);
int threads();

}  // namespace plumb
