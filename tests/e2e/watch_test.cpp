// plumb watch: what the command says and refuses, and how the page in a browser takes in what a run writes.
#include <gtest/gtest.h>
#include <httplib.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/json.h"
#include "lab/report_page.h"
#include "support/browser.h"
#include "support/files.h"
#include "support/made_run.h"
#include "support/process.h"

namespace plumb::test {
namespace {

TEST(Watch, PrintsItsAddressAndEndsAtCtrlC) {
  const TempFolder folder;
  write_made_run(folder / "run", {.config = made_config()});
  const auto result = run_plumb({"watch", folder / "run", "--port", "0"},
                                {.timeout_seconds = 60, .signal_on = "Ctrl-C ends it", .signal = SIGINT});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_FALSE(result.timed_out);
  EXPECT_EQ(result.out.substr(0, 17), "http://127.0.0.1:") << result.out;
  EXPECT_EQ(result.err, "");
}

TEST(Watch, RefusesWhatIsNoRunAndAPortThatIsTaken) {
  const TempFolder folder;
  write_made_run(folder / "run", {.config = made_config()});
  const auto refused = [&](const std::vector<std::string>& arguments, int code, const std::string& names) {
    const auto result = run_plumb(arguments, {.timeout_seconds = 20});
    EXPECT_TRUE(is_one_line_error(result, code)) << result.exit_code << result.err;
    EXPECT_NE(result.err.find(names), std::string::npos) << result.err;
    EXPECT_EQ(result.out, "");
  };
  refused({"watch"}, 2, "run");
  refused({"watch", folder / "none"}, 1, folder / "none");
  refused({"watch", folder.path().string()}, 1, "not the folder of a training run");
  refused({"watch", folder / "run", "--port", "70000"}, 2, "70000");
  refused({"watch", folder / "run", "--port", "-1"}, 2, "-1");
  httplib::Server other;
  other.set_socket_options([](socket_t) {});
  const std::string port = std::to_string(other.bind_to_any_port("127.0.0.1"));
  refused({"watch", folder / "run", "--port", port}, 2, port + " is taken");
}

// Chooses, opens and scrolls; once the records of step 240 are shown, tells in #check what became of that.
constexpr const char* kCheck = R"js(<script>
setTimeout(() => {
  const select = document.getElementById("measure"), layer = document.getElementById("layer");
  select.value = "s:branch.max";
  select.dispatchEvent(new Event("change"));
  layer.selectedIndex = 4;
  layer.dispatchEvent(new Event("change"));
  for (const d of document.querySelectorAll("#loss details, #stream details, #records details")) d.open = true;
  document.querySelector("#heat canvas").dispatchEvent(new KeyboardEvent("keydown", {key: "ArrowUp"}));
  window.scrollTo({top: document.getElementById("heat").offsetTop, behavior: "instant"});
  const top = () => Math.round(document.getElementById("heat").getBoundingClientRect().top);
  const before = top(), canvas = document.querySelector("#heat canvas"), reading = document.querySelector("#heat .reading").textContent;
  document.querySelector("#stream summary").focus({preventScroll: true});
  const look = () => {
    if (!document.getElementById("summary").textContent.includes("240 recorded")) return setTimeout(look, 200);
    const colours = new Set(new Uint32Array(canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data.buffer)).size;
    document.body.append(Object.assign(document.createElement("pre"), {id: "check", textContent: JSON.stringify({
      errors: window.pageErrors, measure: select.value, layer: layer.value, moved: Math.abs(top() - before), scrolled: scrollY > 500, colours,
      reading: [reading, document.querySelector("#heat .reading").textContent],
      open: [...document.querySelectorAll("#loss details, #stream details, #records details")].map((d) => d.open),
      rows: document.querySelector("#loss tbody").lastChild.firstChild.textContent, focus: document.activeElement === document.querySelector("#stream summary"),
      steps: Math.max(...charts.get(document.getElementById("loss")).data.datasets[0].data.map((p) => p.x)),
      stream: charts.get(document.getElementById("stream")).data.datasets.at(-1).label, status: document.getElementById("live").textContent})}));
  };
  look();
}, 300);
</script>)js";

TEST(Watch, ThePageTakesInRecordsAndStaysWhereItIs) {
  if (!has_browser()) GTEST_SKIP() << "no chromium here";
  const TempFolder folder;
  MadeRun run{.config = made_config()};
  write_made_run(folder / "run", run);
  const auto parts = [&] { return report_parts({read_run(folder / "run", true)}); };
  int asked = 0;
  httplib::Server server;
  server.Get("/", [&](const httplib::Request&, httplib::Response& r) {
    r.set_content(with_check(report_page(parts(), true), kCheck), "text/html");
  });
  server.Get("/data", [&](const httplib::Request&, httplib::Response& r) {
    if (++asked == 2) {  // the run went on, and is writing a line
      run.steps = 240;
      write_made_run(folder / "run", run);
      std::ofstream(folder / "run/metrics.jsonl", std::ios::app) << "{\"step\":24";
    }
    r.set_content(live_data(parts()), "application/json");
  });
  const int port = server.bind_to_any_port("127.0.0.1");
  std::thread serving([&] { server.listen_after_bind(); });
  const auto result =
      browse("http://127.0.0.1:" + std::to_string(port) + "/", folder / "profile", {.width = 800});
  server.stop();
  serving.join();
  EXPECT_EQ(result.err.find("CONSOLE"), std::string::npos) << result.err;
  const std::string text = check_text(result.out);
  ASSERT_NE(text, "") << "the new records were not shown: " << asked << " requests; " << result.err;
  const Json check = parse_json(text, "check");
  EXPECT_TRUE(check.at("errors").empty()) << text;
  EXPECT_EQ(check.at("measure"), "s:branch.max");
  EXPECT_EQ(check.at("layer"), "decoder.4");
  EXPECT_LE(check.at("moved").get<int>(), 2) << text;
  EXPECT_TRUE(check.at("scrolled").get<bool>());
  EXPECT_GT(check.at("colours").get<int>(), 20);
  EXPECT_EQ(check.at("open"), Json({true, true, true}));
  EXPECT_TRUE(check.at("focus").get<bool>());
  EXPECT_EQ(check.at("rows"), "240");
  EXPECT_EQ(check.at("steps"), 240);
  EXPECT_EQ(check.at("stream"), "step 240");
  EXPECT_NE(check.at("reading").at(0).get<std::string>().find("step 200"), std::string::npos) << text;
  EXPECT_EQ(check.at("reading").at(0), check.at("reading").at(1));
  EXPECT_NE(check.at("status").get<std::string>().find("Live"), std::string::npos);
}

}  // namespace
}  // namespace plumb::test
