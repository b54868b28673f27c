#include "lab/report_notes.h"

#include <gtest/gtest.h>

#include <cmath>

#include "lab/report_data.h"
#include "lab/sublayers.h"

namespace plumb {
namespace {

ModelConfig config_of(Placement placement, int64_t layers) {
  ModelConfig c;
  c.vocab_size = 100;
  c.decoder_layers = layers;
  c.layer.placement = placement;
  return c;
}

ProbeLine::Place site(const std::string& at, const Measures& measures) {
  return {.at = at, .measures = measures};
}

// Two steps, and a probe of a decoder of one layer whose stream doubles.
RunRecords run_of(Placement placement) {
  RunRecords run{.folder = "x", .steps = {{.step = 1, .loss = 4}, {.step = 2, .loss = 3}}};
  run.config = config_of(placement, 1);
  run.probe = {{.step = 2,
                .sites = {site("decoder.0.attention", {{"stream.rms", 1},
                                                       {"stream.grad_rms", 4e-5},
                                                       {"stream.max", 4},
                                                       {"stream.median", 0.5},
                                                       {"step.ratio", 0.5},
                                                       {"weights.update_ratio", 1e-3}}),
                          site("decoder.0.feed_forward", {{"stream.rms", 1.5},
                                                          {"stream.grad_rms", 2e-5},
                                                          {"stream.max", 6},
                                                          {"stream.median", 1},
                                                          {"step.ratio", 0.25},
                                                          {"weights.update_ratio", 3e-3}}),
                          site("decoder", {{"output.rms", 2}})}}};
  add_contributions(run);
  return run;
}

std::string data_of(const RunRecords& run) {
  return report_data({run});
}

bool says(const RunRecords& run, const std::string& words) {
  for (const std::string& note : report_notes(run)) {
    if (note.find(words) != std::string::npos) return true;
  }
  return false;
}

TEST(ReportNotes, StateWhatTheRecordsShow) {
  const RunRecords run = run_of(Placement::pre_norm);
  EXPECT_TRUE(says(run, "The training loss fell from 4.000 at the first step to 3.000 at the last."));
  EXPECT_TRUE(says(run, "the stream grows ×2 from the first sub-layer to the end (RMS 1 to 2)"));
  EXPECT_TRUE(
      says(run, "layer 0's feed-forward adds least (0.25 of its RMS) and layer 0's attention most (0.5)"));
  EXPECT_TRUE(says(
      run, "The gradient on the stream at layer 0's attention is 2 times that at layer 0's feed-forward."));
  EXPECT_TRUE(says(run, "changes the weights of layer 0's attention least (0.001 of their RMS)"));
  EXPECT_EQ(report_notes(run).size(), 5u);  // and nothing of evaluations, clipping, outliers, skipped steps
}

TEST(ReportNotes, ALossThatExplodedIsReadable) {
  RunRecords run = run_of(Placement::pre_norm);
  run.steps[1].loss = 2485913617319;
  EXPECT_TRUE(says(run, "The training loss rose from 4.000 at the first step to 2.486e+12 at the last."));
}

TEST(ReportNotes, EachNeedsItsRecord) {
  RunRecords run = run_of(Placement::pre_norm);
  run.probe.clear();
  EXPECT_EQ(report_notes(run).size(), 1u);
  run.steps.resize(1);
  EXPECT_TRUE(report_notes(run).empty());
}

TEST(ReportNotes, Validation) {
  RunRecords run = run_of(Placement::pre_norm);
  run.evaluations = {{.step = 1, .measures = {{"loss", 3.0}}}, {.step = 2, .measures = {{"loss", 3.5}}}};
  EXPECT_TRUE(says(run, "best at step 1 (3.000); at step 2 its loss was 3.500"));
  run.evaluations[1].measures["loss"] = 2.5;
  EXPECT_TRUE(says(run, "still improving at the end"));
  run.evaluations.pop_back();
  EXPECT_FALSE(says(run, "held-out"));
}

TEST(ReportNotes, EventsClippingOutliersAndWhatIsNotFinite) {
  RunRecords run = run_of(Placement::pre_norm);
  run.steps[1].skipped = run.steps[0].spike = true;
  run.probe[0].clip = 0.5;
  run.probe[0].sites[1].measures["stream.max"] = 90;
  run.probe[0].sites[1].measures["branch.not_finite"] = 3;
  EXPECT_TRUE(says(run, "1 step was skipped"));
  EXPECT_TRUE(says(run, "spike"));
  EXPECT_TRUE(says(run, "Clipping shortened the gradient in 1 of 1 sampled steps."));
  EXPECT_TRUE(says(run, "before layer 0's feed-forward, its largest element is 90 times the median one"));
  EXPECT_TRUE(says(run, "first appear at step 2, in branch of decoder.0.feed_forward"));
}

TEST(ReportNotes, ABranchBehindAZeroGateAddsNothing) {
  RunRecords run = run_of(Placement::re_zero);
  run.probe[0].parameters = {site("decoder.0.attention.gate", {{"rms", 0}}),
                             site("decoder.0.feed_forward.gate", {{"rms", 0.5}})};
  add_contributions(run);
  EXPECT_TRUE(says(run, "1 of 2 branches add exactly nothing at step 2, layer 0's attention among them."));
}

TEST(Sublayers, PlaceOfAName) {
  const auto place = sublayer_place("encoder.12.cross_attention");
  ASSERT_TRUE(place);
  EXPECT_EQ(place->side, Side::encoder);
  EXPECT_EQ(place->layer, 12);
  EXPECT_EQ(in_words(*place, true), "encoder layer 12's cross-attention");
  for (const char* other : {"decoder", "decoder.", "decoder.x.attention", "decoder.1.attention.output",
                            "decoder.1", "token_embedding", ""}) {
    EXPECT_FALSE(sublayer_place(other)) << other;
  }
}

// rms(g branch) / rms(alpha x), with alpha of DeepNorm (2 L)^(1/4), and none where there is no shortcut.
TEST(Sublayers, ContributionFollowsTheFormula) {
  const auto added = [](Placement placement) {
    const RunRecords run = run_of(placement);
    const auto& m = run.probe[0].sites[0].measures;
    return m.contains("step.added") ? m.at("step.added") : -1;
  };
  EXPECT_EQ(added(Placement::pre_norm), 0.5);
  EXPECT_DOUBLE_EQ(added(Placement::deep_norm), 0.5 / std::pow(2, 0.25));
  EXPECT_EQ(added(Placement::plain), -1);
  EXPECT_EQ(added(Placement::layer_scale), -1);  // its learned factor was not recorded
  EXPECT_EQ(added(Placement::admin), -1);        // nor was this one's, which is on the shortcut
}

TEST(Sublayers, ContributionTakesALearnedShortcutAsItWasRecorded) {
  RunRecords run = run_of(Placement::admin);
  run.probe[0].parameters = {site("decoder.0.attention.shortcut", {{"rms", 4}})};
  add_contributions(run);
  EXPECT_EQ(run.probe[0].sites[0].measures.at("step.added"), 0.5 / 4);
}

TEST(ReportData, CannotEndTheScriptElement) {
  RunRecords run = run_of(Placement::pre_norm);
  run.probe[0].sites[0].at = "</script><b>";
  EXPECT_EQ(data_of(run).find('<'), std::string::npos);
  EXPECT_NE(data_of(run).find("\\u003c/script>"), std::string::npos);
}

TEST(ReportData, ManyStepsBecomeMeans) {
  RunRecords run;
  for (int64_t s = 1; s <= 2 * kMostPoints; ++s)
    run.steps.push_back({.step = s, .loss = static_cast<double>(s % 2)});
  EXPECT_EQ(steps_per_point(run), 2);
  run.steps[1].loss = std::nan("");  // left out of its mean
  EXPECT_NE(data_of(run).find(R"("loss":[1.0,0.5,0.5,)"), std::string::npos)
      << data_of(run).substr(0, 20000).substr(9000);
  run.steps.resize(kMostPoints);
  EXPECT_EQ(steps_per_point(run), 1);
}

}  // namespace
}  // namespace plumb
