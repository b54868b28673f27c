// A probe that does not sample a step costs nothing: the same steps, the same allocations, none in the probe.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>

#include "model/batch_pass.h"
#include "probe/test_model.h"
#include "tensor/memory.h"

namespace {
std::atomic<int64_t> allocations{0};
}

// Not inlined: GCC would pair malloc() with delete and warn.
[[gnu::noinline]] void* operator new(size_t size) {
  ++allocations;
  if (void* p = std::malloc(size == 0 ? 1 : size)) return p;
  throw std::bad_alloc();
}
// The algorithms' temporary buffers come from this one.
[[gnu::noinline]] void* operator new(size_t size, const std::nothrow_t&) noexcept {
  ++allocations;
  return std::malloc(size == 0 ? 1 : size);
}
[[gnu::noinline]] void operator delete(void* p) noexcept {
  std::free(p);
}
[[gnu::noinline]] void operator delete(void* p, size_t) noexcept {
  std::free(p);
}

namespace plumb::probe_test {
namespace {

struct Cost {
  int64_t allocations = 0;
  size_t memory = 0;
  bool operator==(const Cost&) const = default;
};

// A training step as the trainer makes it, but for the update.
Cost cost_of_one(Fixture& f, Probe* probe, int64_t step) {
  reset_peak_memory();
  const int64_t before = allocations;
  const bool watched = probe && probe->observer()->wants(step);
  run_batch(f.model, batch_of(0), {.observer = watched ? probe->observer() : nullptr});
  if (watched) probe->observer()->finish(step, 1, 0.1);
  return {allocations - before, peak_memory()};
}

// The least of several, because a library may allocate where a thread first gets work, which may be any step.
Cost cost_of_step(Fixture& f, Probe* probe, int64_t step) {
  Cost least = cost_of_one(f, probe, step);
  for (int i = 0; i < 4; ++i) {
    const Cost cost = cost_of_one(f, probe, step);
    least = {std::min(least.allocations, cost.allocations), std::min(least.memory, cost.memory)};
  }
  return least;
}

TEST(ProbeCost, IsNoneWhereAStepIsNotSampled) {
  Fixture f(config_of(Placement::pre_norm));
  cost_of_step(f, nullptr, 1);
  const Cost alone = cost_of_step(f, nullptr, 2);
  Probe probe(new_file("cost.jsonl").string(), {.every = 50});
  EXPECT_EQ(cost_of_step(f, &probe, 2), alone);
  EXPECT_EQ(cost_of_step(f, &probe, 49), alone);
  const Cost sampled = cost_of_step(f, &probe, 50);  // and the count does count
  EXPECT_GT(sampled.allocations, alone.allocations + 100);
  EXPECT_EQ(cost_of_step(f, &probe, 51).memory, alone.memory);
}

TEST(ProbeCost, OfAskingIsNoAllocation) {
  Probe probe(new_file("asking.jsonl").string(), {.every = 50});
  const int64_t before = allocations;
  for (int64_t step = 2; step < 50; ++step) EXPECT_FALSE(probe.observer()->wants(step));
  for (int64_t pass = 1; pass < 40; ++pass) {
    if (pass > 1)
      EXPECT_FALSE(probe.observer()->wants_pass());
    else
      EXPECT_TRUE(probe.observer()->wants_pass());
  }
  EXPECT_LE(allocations - before, 2);  // the record of the first pass
}

}  // namespace
}  // namespace plumb::probe_test
