// The report of a run: what the command says and refuses, and the page as a browser draws it.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/json.h"
#include "support/browser.h"
#include "support/files.h"
#include "support/made_run.h"
#include "support/process.h"

namespace plumb::test {
namespace {

namespace fs = std::filesystem;

TEST(Report, IsWrittenIntoTheRunOrWhereAskedFor) {
  const TempFolder folder;
  write_made_run(folder / "run", {.config = made_config()});
  const auto result = run_plumb({"report", folder / "run"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out, (folder / "run/report.html") + "\n");
  const std::string page = read_file(folder / "run/report.html");
  EXPECT_NE(page.find("<title>run "), std::string::npos);
  EXPECT_NE(page.find("y = x + F(N(x))"), std::string::npos);
  EXPECT_NE(page.find("Trained on <code>/a/folder of &lt;texts&gt;</code>"), std::string::npos);

  const auto elsewhere = run_plumb({"report", folder / "run", "--out", folder / "page.html"});
  EXPECT_EQ(elsewhere.out, (folder / "page.html") + "\n");
  EXPECT_EQ(read_file(folder / "page.html"), page);
}

TEST(Report, WhatFilesHoldIsTextAndNeverMarkup) {
  const TempFolder folder;
  const fs::path run = folder / "<i>run & co";
  write_made_run(run.string(), {.config = made_config()});
  write_file(run / "recipe.toml", "data = \"</pre><script>alert(1)</script>\"");
  write_file(run / "sample.txt", "</p><script>alert(2)</script>\xff");
  write_file(run / "metrics.jsonl",
             read_file(run / "metrics.jsonl") + "{\"step\":\"<img src=x onerror=alert(3)>\"}\n<b>\n");
  ASSERT_EQ(run_plumb({"report", run.string(), "--out", folder / "page.html"}).exit_code, 0);
  const std::string page = read_file(folder / "page.html");
  EXPECT_EQ(page.find("<script>alert"), std::string::npos);
  EXPECT_EQ(page.find("<img"), std::string::npos);
  EXPECT_EQ(page.find("<i>run"), std::string::npos);
  EXPECT_NE(page.find("&lt;i&gt;run &amp; co"), std::string::npos);
  EXPECT_NE(page.find("alert(2)&lt;/script&gt;\xef\xbf\xbd"), std::string::npos);
  EXPECT_NE(page.find("metrics.jsonl, line "), std::string::npos);
}

TEST(Report, RefusesWhatIsNoRunOrCannotBeWritten) {
  const TempFolder folder;
  const auto refused = [&](const std::vector<std::string>& arguments, int code, const std::string& names) {
    const auto result = run_plumb(arguments);
    EXPECT_TRUE(is_one_line_error(result, code)) << result.exit_code << result.err;
    EXPECT_NE(result.err.find(names), std::string::npos) << result.err;
    EXPECT_EQ(result.out, "");
  };
  refused({"report"}, 2, "run");
  refused({"report", folder / "none"}, 1, folder / "none");
  refused({"report", folder.path().string()}, 1, "metrics.jsonl");
  write_file(folder.path() / "metrics.jsonl", "");
  refused({"report", folder.path().string()}, 1, "no step");
  write_made_run(folder / "run", {.config = made_config()});
  refused({"report", folder / "run", "--out", folder / "no/such/page.html"}, 1, "no/such/page.html");
  refused({"report", folder / "run", folder / "none"}, 1, folder / "none");
  refused({"report", folder / "run", folder / "run/"}, 2, "two runs");
  refused({"report", folder / "run", folder / "run", folder / "run"}, 2, "At Most 2");
}

TEST(Report, OfTwoRunsSaysWhereTheyDiffer) {
  const TempFolder folder;
  write_made_run(folder / "a", {.config = made_config()});
  write_made_run(folder / "<b>", {.config = made_config(), .steps = 120});
  const auto result = run_plumb({"report", folder / "a", folder / "<b>/"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out, (folder / "a/report-<b>.html") + "\n");
  const std::string page = read_file(folder / "a/report-<b>.html");
  EXPECT_NE(page.find("<title>a and &lt;b&gt; "), std::string::npos);
  EXPECT_EQ(page.find("<b>"), std::string::npos);
  EXPECT_NE(
      page.find("<th scope=\"row\">steps</th><td class=\"number\">200</td><td class=\"number\">120</td>"),
      std::string::npos);
  EXPECT_EQ(page.find("<th scope=\"row\">lr</th>"), std::string::npos);

  // Of one name they are told apart by their paths; without differences, or without a recipe, it says so.
  write_made_run(folder / "c/a", {.config = made_config()});
  ASSERT_EQ(run_plumb({"report", folder / "a", folder / "c/a", "--out", folder / "p"}).exit_code, 0);
  EXPECT_NE(read_file(folder / "p").find("The two recipes are the same."), std::string::npos);
  EXPECT_NE(read_file(folder / "p").find("<h4>" + (folder / "c/a")), std::string::npos);
  fs::remove(folder / "c/a/recipe.toml");
  ASSERT_EQ(run_plumb({"report", folder / "a", folder / "c/a", "--out", folder / "p"}).exit_code, 0);
  EXPECT_NE(read_file(folder / "p").find("holds no recipe.toml"), std::string::npos);
}

// Appended to the page: draws, opens and steers all there is, and leaves in #check what it saw.
constexpr const char* kCheck = R"js(
<script>
setTimeout(() => {
  const near = (data, hex) => {
    const want = [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
    let count = 0;
    for (let i = 0; i < data.length; i += 4) {
      if (data[i + 3] > 128 && want.every((w, c) => Math.abs(data[i + c] - w) < 24)) ++count;
    }
    return count;
  };
  const colours = (data) => {
    const seen = new Set();
    for (let i = 0; i < data.length; i += 4) if (data[i + 3] > 128) seen.add(data[i] >> 4 << 8 | data[i + 1] >> 4 << 4 | data[i + 2] >> 4);
    return seen.size;
  };
  const check = {errors: window.pageErrors, figures: {}};
  const select = document.getElementById("measure");
  check.measures = select ? select.options.length : 0;
  for (let i = 0; select && i < select.options.length; ++i) {
    select.selectedIndex = select.options.length - 1 - i;
    select.dispatchEvent(new Event("change"));
  }
  for (const d of document.querySelectorAll("details")) d.open = true;
  const layer = document.getElementById("layer");
  if (layer) { layer.selectedIndex = layer.options.length - 1; layer.dispatchEvent(new Event("change")); }
  window.dispatchEvent(new Event("beforeprint"));
  window.dispatchEvent(new Event("afterprint"));
  const heat = document.querySelector("#heat canvas");
  if (heat) heat.dispatchEvent(new KeyboardEvent("keydown", {key: "ArrowUp"}));
  setTimeout(() => {
    for (const f of document.querySelectorAll("figure")) {
      const canvases = [...f.querySelectorAll("canvas")], canvas = canvases[0];
      const boxes = canvases.map((c) => c.getBoundingClientRect());
      const pixels = canvases.map((c) => c.clientWidth > 0 ? c.getContext("2d").getImageData(0, 0, c.width, c.height).data : null);
      const data = pixels[0] ?? [];
      check.figures[f.id] = {shown: f.getClientRects().length > 0, series: near(data, colour("series-a")) + near(data, colour("series-c")),
        validation: near(data, colour("series-b")), last: near(data, colour("ramp-to")), colours: colours(data), rows: f.querySelectorAll("tbody tr").length,
        label: (canvas ?? f.querySelector("svg"))?.getAttribute("aria-label") ?? "", svg: f.querySelectorAll("svg").length,
        svgText: [...f.querySelectorAll("svg text")].map((t) => t.textContent),
        inside: boxes.every((b) => b.right <= f.getBoundingClientRect().right + 1),
        blank: pixels.filter((p) => p && colours(p) < 4).length, canvases: canvases.length, tables: f.querySelectorAll("table").length};
    }
    const inPanels = (id, scale) => panels(document.getElementById(id)).map(scale);
    check.scales = ["stream", "stream-gradient", "branch", "added"].map((id) =>
        inPanels(id, (p) => { const y = charts.get(p)?.scales.y; return y ? [y.min, y.max, y.type] : []; }));
    check.repeated = [...charts.values()].flatMap((c) => Object.values(c.scales)).map((s) => s.ticks.map((t) => t.label).filter((l) => l))
        .filter((words) => new Set(words).size < words.length).map((words) => words.join());
    check.heat = inPanels("heat", (p) => heatMaps.get(p)?.scale ?? null);
    check.lines = charts.get(document.getElementById("loss")).data.datasets.map((d) => d.label);
    check.reading = document.querySelector("#heat .reading")?.textContent ?? "";
    check.loaded = performance.getEntriesByType("resource").length;
    check.sideways = document.documentElement.scrollWidth > document.documentElement.clientWidth;
    check.notice = document.getElementById("no-probe").hidden ? "" : document.getElementById("no-probe").textContent;
    check.background = getComputedStyle(document.body).backgroundColor;
    document.body.append(Object.assign(document.createElement("pre"), {id: "check", textContent: JSON.stringify(check)}));
  }, 500);
}, 300);
</script>)js";

class ReportPage : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_browser()) GTEST_SKIP() << "no chromium here: the page is not drawn";
  }

  // The page of a run, or of two, as a browser left it, with what kCheck saw.
  Json drawn(const std::vector<MadeRun>& runs, const Browser& browser) {
    std::vector<std::string> command{"report"};
    for (const MadeRun& run : runs) {
      command.push_back(folder / ("run" + std::to_string(command.size())));
      write_made_run(command.back(), run);
    }
    command.insert(command.end(), {"--out", folder / "page.html"});
    const auto made = run_plumb(command);
    EXPECT_EQ(made.exit_code, 0) << made.err;
    write_file(folder / "checked.html", with_check(read_file(folder / "page.html"), kCheck));
    const auto result = browse("file://" + (folder / "checked.html"), folder / "profile", browser);
    EXPECT_EQ(result.err.find("CONSOLE"), std::string::npos) << result.err;
    const std::string text = check_text(result.out);
    if (text.empty()) {
      ADD_FAILURE() << "the page's check did not end: " << result.err;
      return Json::object();
    }
    const Json check = parse_json(text, "check");
    EXPECT_TRUE(check.at("errors").empty()) << dump_json(check.at("errors"));
    EXPECT_EQ(check.at("loaded"), 0) << "the page asked for something";
    EXPECT_FALSE(check.at("sideways").get<bool>()) << "the page scrolls sideways";
    EXPECT_TRUE(check.at("repeated").empty())
        << "ticks of one axis that read alike: " << dump_json(check.at("repeated"));
    for (const auto& [id, f] : check.at("figures").items()) {
      EXPECT_TRUE(f.at("inside").get<bool>()) << id;
      EXPECT_EQ(f.at("blank"), 0) << id;
    }
    return check;
  }

  static bool has_text(const Json& figure, const std::string& text) {
    for (const Json& t : figure.at("svgText")) {
      if (t == text) return true;
    }
    return false;
  }

  TempFolder folder;
};

TEST_F(ReportPage, EveryPictureIsDrawnWithItsTableAndWords) {
  const Json check = drawn({{.config = made_config()}}, {});
  const Json& figures = check.at("figures");
  EXPECT_EQ(figures.size(), 11u);
  for (const auto& [id, f] : figures.items()) {
    EXPECT_TRUE(f.at("shown").get<bool>()) << id;
    EXPECT_GT(f.at("rows").get<int>(), 3) << id;
    EXPECT_GT(f.at("label").get<std::string>().size(), 40u) << id;
  }
  for (const char* id : {"loss", "rate", "gradient", "speed"})
    EXPECT_GT(figures.at(id).at("series").get<int>(), 150) << id;
  EXPECT_GT(figures.at("loss").at("validation").get<int>(), 300);
  for (const char* id : {"stream", "stream-gradient", "branch", "added"})
    EXPECT_GT(figures.at(id).at("last").get<int>(), 150) << id;
  for (const char* id : {"heat", "updates"}) EXPECT_GT(figures.at(id).at("colours").get<int>(), 20) << id;
  EXPECT_EQ(figures.at("diagram").at("svg"), 2);
  EXPECT_TRUE(has_text(figures.at("diagram"), "RMSNorm"));
  EXPECT_GT(check.at("measures").get<int>(), 15);
  EXPECT_NE(check.at("reading").get<std::string>().find("step 200"), std::string::npos)
      << check.at("reading");
  EXPECT_EQ(check.at("background"), "rgb(250, 249, 246)");
}

TEST_F(ReportPage, DarkAndNarrowWithEncoderAndDecoder) {
  MadeRun run{.config = made_config()};
  run.config.encoder_layers = 2;
  run.config.decoder_layers = 3;
  run.config.layer.placement = Placement::deep_norm;
  const Json check = drawn({run}, {.width = 500, .dark = true});
  const Json& figures = check.at("figures");
  EXPECT_EQ(check.at("background"), "rgb(19, 21, 24)");
  EXPECT_GT(figures.at("stream").at("last").get<int>(), 100);
  EXPECT_EQ(figures.at("diagram").at("svg"), 3);  // the last layer is the decoder's, with cross-attention
  EXPECT_TRUE(has_text(figures.at("diagram"), "Cross-attention"));
  EXPECT_TRUE(has_text(figures.at("diagram"), "× 1.73"));  // alpha of a decoder of 3 layers: (3 * 3)^(1/4)
}

// Two at a time, since a page shows two.
TEST_F(ReportPage, TheDiagramSaysWhatEachLineIsMultipliedBy) {
  const auto diagram = [&](Placement a, Placement b) {
    MadeRun one{.config = made_config(), .steps = 20}, two = one;
    one.config.layer.placement = a;
    two.config.layer.placement = b;
    return drawn({one, two}, {}).at("figures").at("diagram");
  };
  const Json learned = diagram(Placement::ngpt, Placement::admin);
  EXPECT_TRUE(has_text(learned, "× (1 − g)")) << learned;
  EXPECT_TRUE(has_text(learned, "× g (learned, by channel)")) << learned;
  EXPECT_TRUE(has_text(learned, "× a (by channel)")) << learned;
  const Json wider = diagram(Placement::normformer, Placement::resi_dual);
  EXPECT_TRUE(has_text(wider, "norm inside")) << wider;
  EXPECT_TRUE(has_text(wider, "heads scaled")) << wider;
  EXPECT_TRUE(has_text(wider, "r'")) << wider;
  const Json open = diagram(Placement::mhc, Placement::plain);
  EXPECT_TRUE(has_text(open, "H_res")) << open;
  EXPECT_TRUE(has_text(open, "no shortcut")) << open;
}

TEST_F(ReportPage, TwoRunsShareChartsAndScales) {
  MadeRun other{.config = made_config(), .steps = 120, .events = false};
  other.config.decoder_layers = 3;
  other.config.layer.placement = Placement::deep_norm;
  for (const int width : {1200, 500}) {
    const Json check = drawn({{.config = made_config()}, other}, {.width = width, .dark = width == 500});
    const Json& figures = check.at("figures");
    EXPECT_EQ(figures.size(), 11u);
    for (const char* id : {"stream", "stream-gradient", "branch", "added", "heat", "updates"}) {
      EXPECT_EQ(figures.at(id).at("canvases"), 2) << id;
      EXPECT_EQ(figures.at(id).at("tables"), 2) << id;
    }
    EXPECT_GT(figures.at("loss").at("series").get<int>(), 150);      // one run's colour
    EXPECT_GT(figures.at("loss").at("validation").get<int>(), 100);  // and the other's
    EXPECT_EQ(
        dump_json(check.at("lines"), -1),
        R"(["run1: training","run1: validation","run2: training","run2: validation","run1: spike","run1: skipped"])");
    for (const Json& scale : check.at("scales")) EXPECT_EQ(scale.at(0), scale.at(1)) << scale;
    EXPECT_EQ(check.at("heat").at(0), check.at("heat").at(1));
    EXPECT_EQ(figures.at("diagram").at("svg"),
              2);  // of the last layer of the first run, which the other lacks
    EXPECT_EQ(figures.at("diagram").at("tables"), 2);
  }
}

TEST_F(ReportPage, OfTwoRunsOneMayLackMeasurements) {
  const Json check = drawn({{.config = made_config()}, {.config = made_config(), .probe_every = 0}}, {});
  const Json& figures = check.at("figures");
  EXPECT_EQ(figures.at("stream").at("canvases"), 1);
  EXPECT_EQ(figures.at("heat").at("canvases"), 1);
  EXPECT_EQ(figures.at("diagram").at("svg"), 4);  // drawn from the config
  EXPECT_EQ(check.at("notice"), "Without measurements: run2. The folder holds no readable probe.jsonl.");
}

// A line through one point has no length.
TEST_F(ReportPage, ARunOfOneStepHasItsPoints) {
  const Json check = drawn({{.config = made_config(), .steps = 1, .events = false}}, {});
  for (const char* id : {"loss", "rate", "gradient", "speed"})
    EXPECT_GT(check.at("figures").at(id).at("series").get<int>(), 8) << id;
}

TEST_F(ReportPage, WithoutAProbeTheRestStands) {
  const Json check = drawn({{.config = made_config(), .probe_every = 0}}, {});
  EXPECT_GT(check.at("figures").at("loss").at("series").get<int>(), 150);
  EXPECT_FALSE(check.at("figures").at("heat").at("shown").get<bool>());
  EXPECT_EQ(check.at("figures").at("diagram").at("svg"), 2);
}

}  // namespace
}  // namespace plumb::test
