// The quickest experiments hold on this machine, and what a figure or a text outside its bounds does.
#include "lab/battery.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/file.h"
#include "base/test_support.h"
#include "plumb/config_fields.h"
#include "plumb/signal.h"
#include "plumb/threads.h"

namespace plumb {
namespace {

TEST(Battery, TheQuickestExperimentsPassAndAreWholeSlow) {
  const auto done = run_battery({.only = {1, 3, 13}});
  ASSERT_EQ(done.size(), 3u);
  for (const BatteryExperiment& e : done) {
    EXPECT_TRUE(e.passed()) << battery_text(e);
    EXPECT_TRUE(e.remarks.empty()) << e.remarks.front();
    EXPECT_FALSE(e.curves.empty());
    EXPECT_NE(battery_json(e).find("\"passed\":true"), std::string::npos);
    for (const BatteryCurve& c : e.curves) {
      EXPECT_EQ(c.x.size(), c.y.size());
      for (const double y : c.y) EXPECT_TRUE(std::isfinite(y)) << e.title << ": " << c.name;
    }
  }
}

TEST(Battery, BoundsAreHeld) {
  BatteryExperiment e{.number = 1, .title = "t"};
  battery::add(e, "inside", 1, 0.5, 1.5, "");
  battery::note(e, "reported only", NAN, "");
  EXPECT_TRUE(e.passed());
  battery::add(e, "above", 2, {}, 1.5, "below");
  EXPECT_FALSE(e.passed());
  EXPECT_NE(battery_text(e).find("X above"), std::string::npos);
  e.figures.pop_back();
  battery::add(e, "not a number", NAN, 0, {}, "");
  EXPECT_FALSE(e.passed());
}

TEST(Battery, AnUnknownNumberAndATooShortTextAreRefused) {
  const std::string message = error_of(ErrorKind::usage, [] { run_battery({.only = {1, 99}}); });
  EXPECT_NE(message.find("99"), std::string::npos);
  const TempFolder folder;
  write_file_atomically(folder / "short.txt", "too short");
  error_of(ErrorKind::input, [&] { run_battery({.only = {14}, .text = folder / "short.txt"}); });
}

// The same losses beside another on two threads and alone on one, and a model that learns.
TEST(Battery, TrainingIsTheSameOnAnyNumberOfThreadsAndLearns) {
  const battery::Characters text("");
  const std::vector<battery::Job> jobs(2, {.config = battery::small_config(Placement::pre_norm, 1),
                                           .schedule = {.steps = 30, .lr = 3e-3},
                                           .watched = true});
  const int before = threads();
  set_threads(2);
  const auto both = battery::train_all(text, jobs);
  set_threads(1);
  const auto one = battery::train_all(text, {jobs[0]});
  set_threads(before);
  EXPECT_EQ(both[0].losses, both[1].losses);
  ASSERT_EQ(one[0].losses.size(), 30u);
  EXPECT_EQ(one[0].losses, both[0].losses);
  EXPECT_LT(one[0].loss, text.unigram_entropy());
  EXPECT_GT(one[0].attention.largest_logit, 0);
  EXPECT_GT(one[0].attention.entropy, 0);
  EXPECT_LE(one[0].attention.entropy, 1);
}

TEST(Battery, TheRateRisesAndFallsAsPublished) {
  const battery::Schedule wortsman{.steps = 400, .warmup = 20, .lr = 0.1, .wortsman = true};
  EXPECT_DOUBLE_EQ(battery::rate_factor(wortsman, 1), 0.05);
  EXPECT_DOUBLE_EQ(battery::rate_factor(wortsman, 20), 1);
  EXPECT_NEAR(battery::rate_factor(wortsman, 210), (1 + 1e-4) / 2, 1e-12);
  EXPECT_NEAR(battery::rate_factor(wortsman, 400), 1e-4, 1e-12);
  EXPECT_DOUBLE_EQ(battery::rate_factor({.steps = 400, .warmup = 200}, 100), 0.5);
  EXPECT_DOUBLE_EQ(battery::rate_factor({.steps = 400}, 1), 1);
  EXPECT_DOUBLE_EQ(battery::rate_factor({.steps = 400}, 400), 1);
}

TEST(Battery, AStopEndsTrainingsSideBySide) {
  const battery::Characters text("");
  // More than there are threads, so that one has yet to begin when the first has ended.
  const std::vector<battery::Job> jobs(threads() + 1,
                                       {.config = battery::small_config(Placement::pre_norm, 1),
                                        .schedule = {.steps = 3},
                                        .inspect = [](Transformer&) { request_stop(); }});
  error_of(ErrorKind::interrupted, [&] { battery::train_all(text, jobs); });
  forget_stop();
}

TEST(Battery, AdminIsProfiled) {
  const auto model = battery::started(battery::small_config(Placement::admin, 4));
  EXPECT_EQ(battery::weight(*model, "decoder.0.attention.shortcut").value.f32()[0], 1);
  EXPECT_GT(battery::weight(*model, "decoder.3.feed_forward.shortcut").value.f32()[0], 1.5);
}

TEST(Battery, IdentitiesHold) {
  const auto done = run_battery({.only = {10}});
  EXPECT_TRUE(done[0].passed()) << battery_text(done[0]);
}

TEST(Battery, ResultsAreReadAsTheyWereWritten) {
  BatteryExperiment e{.number = 7, .title = "t", .source = "s", .setting = "w", .x_name = "x", .y_name = "y"};
  battery::add(e, "within", 1.25, 0.5, {}, "a | b");
  battery::add(e, "not a number", NAN, 0, 1, "");
  battery::note(e, "reported", -3, "");
  e.curves = {{"c", {1, 2}, {3, 4}}};
  e.remarks = {"r"};
  e.placements = {"admin"};
  e.machine = "m";
  e.seconds = 2;
  e.processor_seconds = 3;
  const TempFolder folder;
  BatteryExperiment other = e;
  other.number = 2;
  write_file_atomically(folder / "b.jsonl", battery_json(e) + "\n" + battery_json(other) + "\n");
  const auto back = read_battery(folder / "b.jsonl");
  ASSERT_EQ(back.size(), 2u);
  EXPECT_EQ(back[0].number, 2);
  EXPECT_EQ(battery_json(back[1]), battery_json(e));
  EXPECT_EQ(battery_text(back[1]), battery_text(e));

  for (const char* wrong : {"", "{\"number\": 1}\n", "[]\n", "{\n"}) {
    write_file_atomically(folder / "wrong.jsonl", wrong);
    error_of(ErrorKind::file, [&] { read_battery(folder / "wrong.jsonl"); });
  }
}

TEST(Battery, EveryPlacementHasAPageWithItsFormulaPictureAndFiguresSlow) {
  const TempFolder folder;
  write_placement_pages(run_battery({.only = {13, 3}}), folder / "docs");
  for (const char* name : EnumNames<Placement>::names) {
    const std::string page = read_file(folder / (std::string("docs/") + name + ".md"));
    EXPECT_NE(page.find("y = "), std::string::npos) << name;
    EXPECT_NE(page.find(std::string(name) + ".svg"), std::string::npos);
    EXPECT_EQ(page.find("## When to use it\n\n\n"), std::string::npos) << name << " lacks its words";
    EXPECT_EQ(read_file(folder / (std::string("docs/") + name + ".svg")).substr(0, 4), "<svg");
  }
  EXPECT_NE(read_file(folder / "docs/deep-norm.md").find("\\|2N 2 beta^2 / alpha^2 - 1\\|"),
            std::string::npos);
  EXPECT_NE(read_file(folder / "docs/mix-ln.md").find("(layers 4 to 12)"), std::string::npos);
  EXPECT_NE(read_file(folder / "docs/normformer.svg").find("heads scaled"), std::string::npos);
  EXPECT_NE(read_file(folder / "docs/resi-dual.svg").find(">r</text>"), std::string::npos);
}

}  // namespace
}  // namespace plumb
