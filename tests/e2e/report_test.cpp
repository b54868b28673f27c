// The report of a run: what the command says and refuses, and the page as a browser draws it.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/json.h"
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
      const canvas = f.querySelector("canvas"), box = canvas?.getBoundingClientRect();
      const data = canvas && canvas.width ? canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data : [];
      check.figures[f.id] = {shown: f.getClientRects().length > 0, series: near(data, colour("series-a")) + near(data, colour("series-c")),
        validation: near(data, colour("series-b")), last: near(data, colour("ramp-to")), colours: colours(data), rows: f.querySelectorAll("tbody tr").length,
        label: (canvas ?? f.querySelector("svg"))?.getAttribute("aria-label") ?? "", svg: f.querySelectorAll("svg").length,
        svgText: [...f.querySelectorAll("svg text")].map((t) => t.textContent),
        inside: !box || box.right <= f.getBoundingClientRect().right + 1};
    }
    check.reading = document.querySelector("#heat .reading")?.textContent ?? "";
    check.loaded = performance.getEntriesByType("resource").length;
    check.sideways = document.documentElement.scrollWidth > document.documentElement.clientWidth;
    check.background = getComputedStyle(document.body).backgroundColor;
    document.body.append(Object.assign(document.createElement("pre"), {id: "check", textContent: JSON.stringify(check)}));
  }, 500);
}, 300);
</script>)js";

struct Browser {
  int width = 1200;
  bool dark = false;
};

std::string unescaped(std::string text) {
  for (const auto& [from, to] : {std::pair("&lt;", "<"), std::pair("&gt;", ">"), std::pair("&amp;", "&")}) {
    for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; ++at)
      text.replace(at, std::string(from).size(), to);
  }
  return text;
}

class ReportPage : public testing::Test {
 protected:
  void SetUp() override {
    if (run_process({"sh", "-c", "command -v chromium"}).exit_code != 0) {
      GTEST_SKIP() << "no chromium here: the page is not drawn";
    }
  }

  // The page of a run as a browser left it, with what kCheck saw.
  Json drawn(const MadeRun& run, const Browser& browser) {
    write_made_run(folder / "run", run);
    const auto made = run_plumb({"report", folder / "run"});
    EXPECT_EQ(made.exit_code, 0) << made.err;
    std::string page = read_file(folder / "run/report.html");
    const std::string hook =
        "<script>window.pageErrors = []; window.onerror = (m) => { window.pageErrors.push(String(m)); "
        "};</script>";
    page.insert(page.find("<title>"), hook);
    page.insert(page.rfind("</body>"), kCheck);
    write_file(folder / "checked.html", page);
    std::vector<std::string> command{"chromium",
                                     "--headless",
                                     "--no-sandbox",
                                     "--disable-gpu",
                                     "--hide-scrollbars",
                                     "--user-data-dir=" + (folder / "profile"),
                                     "--enable-logging=stderr",
                                     "--v=0",
                                     "--virtual-time-budget=10000",
                                     "--window-size=" + std::to_string(browser.width) + ",1000"};
    if (browser.dark)
      command.insert(command.end(), {"--force-dark-mode", "--blink-settings=preferredColorScheme=0"});
    command.insert(command.end(), {"--dump-dom", "file://" + (folder / "checked.html")});
    const auto result = run_process(command, {.timeout_seconds = 180});
    EXPECT_EQ(result.err.find("CONSOLE"), std::string::npos) << result.err;
    const size_t at = result.out.rfind("<pre id=\"check\">");
    if (at == std::string::npos) {
      ADD_FAILURE() << "the page's check did not end: " << result.err;
      return Json::object();
    }
    const size_t begin = result.out.find('>', at) + 1;
    const Json check =
        parse_json(unescaped(result.out.substr(begin, result.out.find("</pre>", begin) - begin)), "check");
    EXPECT_TRUE(check.at("errors").empty()) << dump_json(check.at("errors"));
    EXPECT_EQ(check.at("loaded"), 0) << "the page asked for something";
    EXPECT_FALSE(check.at("sideways").get<bool>()) << "the page scrolls sideways";
    for (const auto& [id, f] : check.at("figures").items()) EXPECT_TRUE(f.at("inside").get<bool>()) << id;
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
  const Json check = drawn({.config = made_config()}, {});
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
  const Json check = drawn(run, {.width = 500, .dark = true});
  const Json& figures = check.at("figures");
  EXPECT_EQ(check.at("background"), "rgb(19, 21, 24)");
  EXPECT_GT(figures.at("stream").at("last").get<int>(), 100);
  EXPECT_EQ(figures.at("diagram").at("svg"), 3);  // the last layer is the decoder's, with cross-attention
  EXPECT_TRUE(has_text(figures.at("diagram"), "Cross-attention"));
  EXPECT_TRUE(has_text(figures.at("diagram"), "× 1.73"));  // alpha of a decoder of 3 layers: (3 * 3)^(1/4)
}

TEST_F(ReportPage, WithoutAProbeTheRestStands) {
  const Json check = drawn({.config = made_config(), .probe_every = 0}, {});
  EXPECT_GT(check.at("figures").at("loss").at("series").get<int>(), 150);
  EXPECT_FALSE(check.at("figures").at("heat").at("shown").get<bool>());
}

}  // namespace
}  // namespace plumb::test
