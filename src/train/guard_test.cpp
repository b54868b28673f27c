#include "train/guard.h"

#include <gtest/gtest.h>

#include <cmath>

namespace plumb {
namespace {

TEST(Guard, WhatIsNotFiniteIsSkippedAndCounted) {
  Guard guard({.spike_window = 0});
  EXPECT_FALSE(guard.judge(1, 1).skip);
  EXPECT_TRUE(guard.judge(NAN, 1).skip);
  EXPECT_TRUE(guard.judge(1, INFINITY).skip);
  EXPECT_EQ(guard.state().skips_in_row, 2);
  EXPECT_FALSE(guard.judge(1, 1).skip);
  EXPECT_EQ(guard.state().skips_in_row, 0);
  EXPECT_EQ(guard.state().skipped, 2);
  EXPECT_EQ(guard.state().spikes, 0);
}

// Losses 2.1, 1.9, 2.1, 1.9: mean 2, standard deviation 0.11547.
TEST(Guard, ASpikeStandsSoManyDeviationsAboveTheWindow) {
  for (const SpikeAction action : {SpikeAction::log, SpikeAction::skip}) {
    const TrainOptions o{.spike_window = 4, .spike_z = 3, .spike = action};
    Guard guard(o);
    EXPECT_FALSE(guard.judge(100, 1).spike) << "no window yet";
    for (const double loss : {2.1, 1.9, 2.1, 1.9}) EXPECT_FALSE(guard.judge(loss, 1).spike);
    Guard below = guard;
    EXPECT_FALSE(below.judge(2.34, 1).spike);
    EXPECT_FALSE(Guard(guard).judge(1.0, 1).spike) << "a fall is none";
    const Verdict v = guard.judge(2.36, 1);
    EXPECT_TRUE(v.spike);
    EXPECT_NEAR(v.z, 0.36 / 0.11547, 1e-3);
    EXPECT_EQ(v.skip, action == SpikeAction::skip);
    EXPECT_EQ(guard.state().spikes, 1);
    EXPECT_EQ(guard.state().window.size(), 4u);
    EXPECT_EQ(guard.state().window.back(), action == SpikeAction::skip ? 1.9 : 2.36);
  }
}

TEST(Guard, AFlatLossMakesNoSpikeOfASmallStep) {
  Guard guard({.spike_window = 3, .spike_z = 6});
  for (int i = 0; i < 3; ++i) guard.judge(2, 1);
  EXPECT_FALSE(guard.judge(2.001, 1).spike);
  EXPECT_TRUE(guard.judge(2.1, 1).spike);
}

TEST(Guard, GoesOnFromItsState) {
  const TrainOptions o{.spike_window = 4};
  Guard straight(o), stopped(o);
  for (const double loss : {3.0, 2.5, 2.2, 2.0, 1.9}) straight.judge(loss, 1), stopped.judge(loss, 1);
  Guard resumed(o);
  resumed.restore(stopped.state());
  EXPECT_EQ(straight.judge(2.6, 1).z, resumed.judge(2.6, 1).z);
}

}  // namespace
}  // namespace plumb
