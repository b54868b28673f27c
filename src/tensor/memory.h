// The step's memory: blocks that tensors gave back are kept and handed out again, so that after the first
// step nothing is asked of the system. Large blocks are advised for huge pages, and those of a middle size
// lie side by side on them. Threads: safe from any thread.
#pragma once

#include <cstddef>
#include <memory>

namespace plumb {

constexpr size_t kMemoryAlignment = 64;

std::shared_ptr<void> allocate_memory(size_t bytes);  // never null, also for 0 bytes
void release_cached_memory();                         // gives idle blocks back to the system
size_t live_memory();                                 // bytes in use by tensors
size_t held_memory();                                 // and with those that are idle: what the system gave
size_t peak_memory();                                 // most bytes in use at once since the last reset
void reset_peak_memory();

}  // namespace plumb
