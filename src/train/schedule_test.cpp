#include <gtest/gtest.h>

#include <cmath>

#include "plumb/error.h"
#include "plumb/trainer.h"

namespace plumb {
namespace {

TrainOptions of(ScheduleKind kind, int64_t steps, int64_t warmup) {
  TrainOptions o{.steps = steps, .schedule = kind, .warmup = warmup, .min_lr = 0.1};
  o.decay_fraction = 0.25;
  return o;
}

constexpr ScheduleKind kAll[] = {ScheduleKind::constant, ScheduleKind::linear, ScheduleKind::cosine,
                                 ScheduleKind::inverse_sqrt, ScheduleKind::wsd};

TEST(Schedule, B28WarmupOfFourIsAQuarterToOne) {
  for (const ScheduleKind kind : kAll) {
    const TrainOptions o = of(kind, 20, 4);
    for (int64_t step = 1; step <= 4; ++step) EXPECT_DOUBLE_EQ(schedule_factor(o, step), 0.25 * step) << step;
  }
}

TEST(Schedule, GoesOnAsItsNameSays) {
  EXPECT_EQ(schedule_factor(of(ScheduleKind::constant, 20, 4), 20), 1);
  EXPECT_DOUBLE_EQ(schedule_factor(of(ScheduleKind::linear, 20, 4), 12), 0.55);
  EXPECT_DOUBLE_EQ(schedule_factor(of(ScheduleKind::cosine, 20, 4), 12), 0.55);
  EXPECT_DOUBLE_EQ(schedule_factor(of(ScheduleKind::cosine, 20, 4), 8),
                   0.1 + 0.9 * 0.5 * (1 + std::sqrt(0.5)));
  EXPECT_DOUBLE_EQ(schedule_factor(of(ScheduleKind::inverse_sqrt, 20, 4), 16), 0.5);
  EXPECT_DOUBLE_EQ(schedule_factor(of(ScheduleKind::inverse_sqrt, 20, 0), 4), 0.5);
  const TrainOptions wsd = of(ScheduleKind::wsd, 20, 4);
  EXPECT_EQ(schedule_factor(wsd, 15), 1);
  EXPECT_DOUBLE_EQ(schedule_factor(wsd, 16), 1 - 0.9 / 5);
}

TEST(Schedule, DecaysToTheFloorAtTheLastStepAndStaysThere) {
  for (const ScheduleKind kind : {ScheduleKind::linear, ScheduleKind::cosine, ScheduleKind::wsd}) {
    for (const int64_t warmup : {0, 3, 10}) {
      const TrainOptions o = of(kind, 10, warmup);
      if (warmup < 10) {
        EXPECT_NEAR(schedule_factor(o, 10), 0.1, 1e-12);
      }
      EXPECT_NEAR(schedule_factor(o, 50), 0.1, 1e-12);
      for (int64_t step = 1; step <= 12; ++step) EXPECT_GT(schedule_factor(o, step), 0);
    }
  }
}

TEST(TrainOptions, OutOfRangeIsNamed) {
  const auto message = [](const TrainOptions& o) -> std::string {
    try {
      validate(o);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::usage);
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(message({}), "");
  EXPECT_EQ(message({.steps = 0}), "--steps is 0: it has to be at least 1");
  EXPECT_EQ(message({.lr = -1}), "--lr is -1: it has to be above 0");
  EXPECT_EQ(message({.beta2 = 1}), "--beta2 is 1: it has to be below 1");
  EXPECT_EQ(message({.weight_decay = NAN}), "--weight-decay is nan: it has to be at least 0");
  EXPECT_NE(message({.min_lr = 1.5}), "");
  EXPECT_NE(message({.label_smoothing = 1}), "");
  EXPECT_NE(message({.keep_checkpoints = 0}), "");
  EXPECT_NE(message({.spike_window = 1}), "");
}

}  // namespace
}  // namespace plumb
