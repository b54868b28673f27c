// The quickest experiments hold on this machine, and what a figure or a text outside its bounds does.
#include "lab/battery.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/file.h"
#include "base/test_support.h"

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

TEST(Battery, TrainingIsTheSameEachTimeAndLearns) {
  const battery::Characters text("");
  const std::vector<battery::Job> jobs(2, {.config = battery::small_config(Placement::pre_norm, 1),
                                           .schedule = {.steps = 30, .lr = 3e-3},
                                           .watched = true});
  const auto both = battery::train_all(text, jobs);
  const auto one = battery::train_all(text, {jobs[0]});
  EXPECT_EQ(both[0].losses, both[1].losses);
  ASSERT_EQ(one[0].losses.size(), 30u);
  EXPECT_EQ(one[0].losses, both[0].losses);
  EXPECT_LT(one[0].loss, text.unigram_entropy());
  EXPECT_GT(one[0].attention.largest_logit, 0);
  EXPECT_GT(one[0].attention.entropy, 0);
  EXPECT_LE(one[0].attention.entropy, 1);
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
  EXPECT_NE(read_file(folder / "docs/deep-norm.md").find("beta^2 / alpha^2"), std::string::npos);
}

}  // namespace
}  // namespace plumb
