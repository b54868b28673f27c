// The words of a trial on made results: a clear winner, a tie, too few seeds, divergence.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "base/test_support.h"
#include "lab/trial_data.h"

namespace plumb {
namespace {

using Loss = std::function<double(const std::string& placement, double lr, int seed)>;

TrialData made(int seeds, const Loss& loss) {
  TrialData data{.axes = {{"placement", {"pre", "post"}}, {"lr", {"1e-2", "1e-3", "1e-1"}}, {"seed", {}}}};
  for (int s = 1; s <= seeds; ++s) data.axes[2].values.push_back(std::to_string(s));
  for (const TrialCell& cell : trial_cells(data.axes)) {
    const double x = loss(cell.values[0], std::stod(cell.values[1]), std::stoi(cell.values[2]));
    data.cells.push_back({.values = cell.values,
                          .outcome = std::isnan(x) ? "diverged" : "finished",
                          .initial_loss = 5,
                          .loss = x,
                          .curve_steps = {1, 2},
                          .curve = {5, x}});
  }
  return data;
}

std::string words(const TrialData& data) {
  std::string text;
  for (const std::string& w : summarize(data).verdict) text += w + "\n";
  return text;
}

void expect_says(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << part << "\nnot in\n" << text;
}

// A small scatter that differs by seed.
double scatter(int seed) {
  return 0.01 * std::sin(seed * 2.5);
}

double lr_cost(double lr) {
  return 0.1 * std::abs(std::log10(lr) + 2);
}

TEST(Trial, AClearWinnerIsNamedWithItsInterval) {
  const auto data = made(4, [](const std::string& p, double lr, int seed) {
    return (p == "pre" ? 1.5 : 1.9) + lr_cost(lr) + scatter(seed + (p == "pre" ? 0 : 7));
  });
  const std::string text = words(data);
  expect_says(text, "placement=pre has a lower loss at its best lr than placement=post: 1.5");
  expect_says(text, "95 % interval");
  expect_says(text, "4 seeds");
  expect_says(text, "No cell that ended is unstable.");
  EXPECT_EQ(text.find("edge"), std::string::npos);
  EXPECT_EQ(text.find("lie beyond"), std::string::npos) << text;
}

TEST(Trial, ATieIsSaidToBeOne) {
  const auto data = made(3, [](const std::string& p, double lr, int seed) {
    return 1.5 + lr_cost(lr) + 0.1 * std::sin(seed * 4 + (p == "pre" ? 1 : 2));
  });
  const std::string text = words(data);
  expect_says(text, "cannot be told apart by their loss");
  EXPECT_EQ(text.find("has a lower loss"), std::string::npos) << text;
}

TEST(Trial, TwoSeedsTellNoDifferenceHoweverLarge) {
  const auto data = made(2, [](const std::string& p, double lr, int seed) {
    return (p == "pre" ? 1.5 : 2.0) + lr_cost(lr) + scatter(seed);
  });
  const std::string text = words(data);
  expect_says(text, "2 seeds cannot tell a difference from chance");
  EXPECT_EQ(text.find("has a lower loss"), std::string::npos) << text;
}

TEST(Trial, DivergenceCountsAsTheFirstLossAndIsNamed) {
  const auto data = made(3, [](const std::string& p, double lr, int seed) {
    if (p == "post" && lr > 0.05) return std::nan("");
    return 1.5 + lr_cost(lr) + scatter(seed);
  });
  const TrialSummary t = summarize(data);
  const std::string text = words(data);
  expect_says(text, "placement=post is not stable at lr 1e-1 in 3 of 3 seeds.");
  expect_says(text, "placement=pre has a lower sensitivity to the learning rate than placement=post");
  // (0.1 + 0 + (5 - 1.5)) / 3 and (0.1 + 0 + 0.1) / 3, but for the scatter in the diverged cells.
  EXPECT_NEAR(t.series[0].sensitivity.mean, 0.2 / 3, 1e-9);
  EXPECT_NEAR(t.series[1].sensitivity.mean, 3.6 / 3, 0.01);
  EXPECT_EQ(t.series[0].points[static_cast<size_t>(t.series[0].best)].lr, "1e-2");
  EXPECT_EQ(t.series[0].points[static_cast<size_t>(t.series[0].largest_stable)].lr, "1e-1");
  EXPECT_EQ(t.series[1].points[static_cast<size_t>(t.series[1].largest_stable)].lr, "1e-2");
}

TEST(Trial, WhereNothingTrainsNothingIsCompared) {
  const auto data = made(3, [](const std::string&, double, int) { return std::nan(""); });
  const std::string text = words(data);
  expect_says(text, "there is nothing to compare");
  expect_says(text, "placement=pre does not train at any learning rate");
  EXPECT_EQ(text.find("lower loss"), std::string::npos);
}

TEST(Trial, ASmallRateIsSlowAndNotUnstable) {
  const auto data = made(3, [](const std::string&, double lr, int seed) {
    return (lr < 5e-3 ? 4.5 : 1.5 + lr) + scatter(seed);
  });
  const std::string text = words(data);
  expect_says(text, "placement=pre is slow at lr 1e-3");
  EXPECT_EQ(text.find("not stable"), std::string::npos) << text;
}

// Without a loss that depends on the learning rate, since there is none that learns.
TEST(Trial, WhatDoesNotTrainIsNotTheLeastSensitive) {
  const std::string text = words(made(3, [](const std::string& p, double lr, int seed) {
    return p == "pre" ? 1.5 + lr_cost(lr) + scatter(seed) : 4.9;
  }));
  expect_says(text, "placement=post does not train at any learning rate");
  EXPECT_EQ(text.find("sensitivity"), std::string::npos) << text;
}

// An axis that changes nothing, at one seed as at three.
TEST(Trial, EqualLossesAreNobodysAdvantage) {
  for (const int seeds : {1, 3}) {
    const std::string text = words(made(
        seeds, [](const std::string&, double lr, int seed) { return 1.5 + lr_cost(lr) + scatter(seed); }));
    expect_says(text, "placement=pre and placement=post have the same loss at its best lr: 1.5");
    expect_says(text, "have the same sensitivity to the learning rate: 0.06667");
    EXPECT_EQ(text.find("lower"), std::string::npos) << text;
  }
}

// A loss of bytes is lower than one of words, and says nothing about which model is better.
TEST(Trial, LossesOfOtherTokensAreNotCompared) {
  TrialData data{.axes = {{"tokenizer", {"bytes", "bpe"}},
                          {"placement", {"pre", "post"}},
                          {"lr", {"1e-3", "1e-2", "1e-1"}},
                          {"seed", {"1", "2", "3"}}}};
  for (const TrialCell& cell : trial_cells(data.axes)) {
    const bool bytes = cell.values[0] == "bytes";
    const double loss = (bytes ? 1.0 : 4.0) + (cell.values[1] == "pre" ? 0 : 0.3) +
                        lr_cost(std::stod(cell.values[2])) + scatter(std::stoi(cell.values[3]));
    data.cells.push_back({.values = cell.values,
                          .outcome = "finished",
                          .initial_loss = bytes ? 5.5 : 7.0,
                          .loss = loss,
                          .curve_steps = {1, 2},
                          .curve = {5, loss}});
  }
  const std::string text = words(data);
  expect_says(text, "only those of the same ones are compared");
  expect_says(text,
              "tokenizer=bytes, placement=pre has a lower loss at its best lr than tokenizer=bytes, pl");
  expect_says(text, "tokenizer=bpe, placement=pre has a lower loss at its best lr than tokenizer=bpe, pl");
  EXPECT_EQ(text.find("tokenizer=bytes, placement=pre has a lower loss at its best lr than tokenizer=bpe"),
            std::string::npos)
      << text;
  expect_says(text, "No cell that ended is unstable.");  // by the lowest loss of its own tokens
  EXPECT_NEAR(summarize(data).lowest.front() + 3, summarize(data).lowest.back(), 1e-9);
}

TEST(Trial, TheEdgeOfTheGridAndMissingCellsAreSaid) {
  auto data = made(3, [](const std::string&, double lr, int seed) { return 2 - lr + scatter(seed); });
  data.cells[0].outcome = "";
  data.cells[1].outcome = "failed";
  data.cells[1].message = "out of memory";
  const std::string text = words(data);
  expect_says(text, "The best lr of placement=post, 1e-1, is the largest of the grid");
  expect_says(text, "1 of 18 cells have no result yet");
  expect_says(text, "(the first: out of memory)");
}

TEST(Trial, SlopesOverDepthAreFittedBySeed) {
  TrialData data{.axes = {{"layers", {"2", "4", "8"}}, {"seed", {"1", "2", "3"}}}};
  for (const TrialCell& cell : trial_cells(data.axes)) {
    const double layers = std::stod(cell.values[0]), seed = std::stod(cell.values[1]);
    CellResult r{
        .values = cell.values, .outcome = "finished", .initial_loss = 5, .loss = 2 - 0.1 * std::log(layers)};
    for (int i = 0; i < 2 * layers; ++i) {
      r.last.stream_rms.push_back(std::sqrt(i + 1.0));
      r.last.stream_gradient.push_back(1);
      r.first.weight_gradient.push_back(seed * std::pow(layers, -0.5));
    }
    data.cells.push_back(r);
  }
  const TrialSummary t = summarize(data);
  const auto slope = [&](const std::string& what) {
    for (const TrialFit& f : t.fits) {
      if (f.what.find(what) != std::string::npos) return f.slope.mean;
    }
    return std::nan("");
  };
  EXPECT_NEAR(slope("stream RMS by log depth"), 0.5, 1e-9);
  EXPECT_NEAR(slope("loss by log layers"), -0.1, 1e-9);
  EXPECT_NEAR(slope("last sub-layer's weights"), -0.5, 1e-9);
}

TEST(Trial, GridsAreChecked) {
  EXPECT_EQ(trial_cells({{"a", {"1", "2"}}, {"b", {"x"}}})[1].name, "a=2,b=x");
  EXPECT_NE(trial_cells({{"a", {"x/y"}}})[0].name, trial_cells({{"a", {"x_y"}}})[0].name);
  error_of(ErrorKind::usage, [] { trial_cells({}); });
  error_of(ErrorKind::usage, [] { trial_cells({{"a", {"1"}}, {"a", {"2"}}}); });
  error_of(ErrorKind::usage, [] { trial_cells({{"a", {"1", "1"}}}); });
  error_of(ErrorKind::usage, [] { trial_cells({{"a", {}}}); });
}

}  // namespace
}  // namespace plumb
