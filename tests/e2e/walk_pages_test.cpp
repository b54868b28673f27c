// The pages of plumb trace, plumb compare, plumb trial and plumb battery: whole, escaped, and drawn by a
// browser without an error.
#include <gtest/gtest.h>

#include "plumb/model.h"
#include "plumb/tokenizer.h"
#include "support/browser.h"
#include "support/files.h"
#include "support/process.h"

namespace plumb::test {
namespace {

void save_model(const std::string& folder, uint64_t seed) {
  ModelConfig c;
  c.vocab_size = Tokenizer::bytes().vocab_size();
  c.width = 16;
  c.max_length = 64;
  c.encoder_layers = 1;
  c.decoder_layers = 2;
  c.decoder_start_id = 256;
  Model::create(c, seed).save(folder);
  Tokenizer::bytes().save(folder);
}

// Leaves in #check how many colours each canvas has, whatever went wrong, and what was asked of a network.
constexpr const char* kCheck = R"js(<script>
setTimeout(() => {
  for (const d of document.querySelectorAll("details")) d.open = true;
  window.dispatchEvent(new Event("beforeprint"));
  window.dispatchEvent(new Event("afterprint"));
  setTimeout(() => {
    let words = `errors ${window.pageErrors.length} ${window.pageErrors.join()} loaded ${performance.getEntriesByType("resource").length}`;
    for (const f of document.querySelectorAll("figure")) {
      const blank = [...f.querySelectorAll("canvas")].some((c) => {
        const data = new Uint32Array(c.getContext("2d").getImageData(0, 0, c.width, c.height).data.buffer);
        return new Set(data).size < 4;
      });
      const pictures = f.querySelectorAll("canvas, svg").length, rows = f.querySelectorAll("tbody tr").length;
      words += ` ${f.id}:${pictures > 0 && !blank && rows > 0 ? "drawn" : "MISSING"}`;
    }
    words += document.documentElement.scrollWidth > document.documentElement.clientWidth ? " sideways" : "";
    document.body.append(Object.assign(document.createElement("pre"), {id: "check", textContent: words}));
  }, 500);
}, 300);
</script>)js";

class WalkPages : public testing::Test {
 protected:
  void SetUp() override {
    save_model(folder / "a", 1);
    save_model(folder / "b", 2);
  }
  void expect_drawn(const std::string& page, const std::vector<std::string>& figures) {
    if (!has_browser()) GTEST_SKIP() << "no chromium here";
    write_file(folder.path() / "checked.html", with_check(page, kCheck));
    const ProcessResult seen =
        browse("file://" + (folder / "checked.html"), folder / "profile", {.width = 800});
    EXPECT_EQ(seen.err.find("CONSOLE"), std::string::npos) << seen.err;
    const std::string words = check_text(seen.out);
    EXPECT_NE(words.find("errors 0  loaded 0"), std::string::npos) << words;
    EXPECT_EQ(words.find("MISSING"), std::string::npos) << words;
    EXPECT_EQ(words.find("sideways"), std::string::npos) << words;
    for (const std::string& f : figures) EXPECT_NE(words.find(f + ":drawn"), std::string::npos) << f << words;
  }
  TempFolder folder;
};

TEST_F(WalkPages, Trace) {
  const auto made = run_plumb({"trace", folder / "a", "</script><script>alert(1)</script>", "--target",
                               "a <b> c", "--grad", "--html", folder / "t.html"});
  ASSERT_EQ(made.exit_code, 0) << made.err;
  const std::string page = read_file(folder / "t.html");
  EXPECT_EQ(page.find("<script>alert"), std::string::npos);
  EXPECT_EQ(page.find("<code>\"<\""), std::string::npos);
  EXPECT_NE(page.find("<code>&quot;&lt;&quot;</code>"), std::string::npos);
  expect_drawn(page, {"diagram", "stream", "added", "received", "entropy", "gradient"});
  const auto nowhere = run_plumb({"trace", folder / "a", "x", "--html", folder / "no/such.html"});
  EXPECT_EQ(nowhere.exit_code, 1);
  EXPECT_NE(nowhere.err.find("no/such.html"), std::string::npos) << nowhere.err;
}

TEST_F(WalkPages, Compare) {
  const auto made = run_plumb({"compare", folder / "a", folder / "b", "--text", "one two", "--target", "ab",
                               "--html", folder / "c.html"});
  ASSERT_EQ(made.exit_code, 1) << made.err;
  const std::string page = read_file(folder / "c.html");
  EXPECT_NE(page.find("First difference: encoder.embedding"), std::string::npos);
  expect_drawn(page, {"differences", "tokens"});
  const auto weights =
      run_plumb({"compare", folder / "a", folder / "b", "--weights", "--html", folder / "w.html"});
  ASSERT_EQ(weights.exit_code, 1) << weights.err;
  expect_drawn(read_file(folder / "w.html"), {"differences"});
}

TEST_F(WalkPages, TrialSlow) {
  std::string text;
  for (int i = 0; text.size() < 9000; ++i) text += "Line " + std::to_string(i * 7919 % 1000) + " of it.\n";
  write_file(folder / "<i>text", text);
  const auto made = run_plumb({"trial",
                               "--text",
                               folder / "<i>text",
                               "--tokenizer",
                               "bytes",
                               "--width",
                               "16",
                               "--heads",
                               "2",
                               "--max-length",
                               "32",
                               "--batch",
                               "2",
                               "--length",
                               "16",
                               "--steps",
                               "20",
                               "--grid",
                               "layers=1,2,3",
                               "--grid",
                               "lr=1e-3,1e-2",
                               "--out",
                               folder / "<i>t"});
  ASSERT_EQ(made.exit_code, 0) << made.err;
  const std::string page = read_file(folder / "<i>t/report.html");
  EXPECT_EQ(page.find("<i>"), std::string::npos);
  expect_drawn(page, {"curves", "rates", "stream", "gradient"});
}

TEST_F(WalkPages, BatterySlow) {
  const auto made =
      run_plumb({"battery", "--only", "1,13", "--html", folder / "b.html", "--json", folder / "b.jsonl"});
  ASSERT_EQ(made.exit_code, 0) << made.out << made.err;
  EXPECT_NE(made.out.find("2 of 2 experiments pass"), std::string::npos) << made.out;
  EXPECT_EQ(read_file(folder / "b.jsonl").substr(0, 12), "{\"number\":1,");
  expect_drawn(read_file(folder / "b.html"), {"f1", "f13"});
  const auto refused = run_plumb({"battery", "--only", "99"});
  EXPECT_TRUE(is_one_line_error(refused, 2)) << refused.err;
  const auto no_text = run_plumb({"battery", "--only", "14", "--text", folder / "none"});
  EXPECT_TRUE(is_one_line_error(no_text, 1)) << no_text.err;
  EXPECT_NE(run_plumb({"battery", "--list"}).out.find("QK-norm"), std::string::npos);
}

TEST_F(WalkPages, ABatteryThatIsStoppedKeepsWhatHadEnded) {
  const std::string lines = folder / "b.jsonl";
  const auto stopped = run_plumb({"battery", "--only", "11,14", "--json", lines},
                                 {.signal_on = "14. z-loss", .signal = SIGINT});
  EXPECT_EQ(stopped.exit_code, 130) << stopped.err;
  EXPECT_NE(stopped.err.find(lines + " has the 1 that had ended"), std::string::npos) << stopped.err;
  const auto again = run_plumb({"battery", "--from", lines});
  EXPECT_EQ(again.exit_code, 0) << again.err;
  EXPECT_NE(again.out.find("1 of 1 experiments pass"), std::string::npos) << again.out;
}

TEST_F(WalkPages, ABatteryThatCannotWriteMeasuresNothing) {
  for (const char* flag : {"--html", "--json"}) {
    const auto refused = run_plumb({"battery", "--only", "11", flag, folder / "none/b"});
    EXPECT_TRUE(is_one_line_error(refused, 1)) << refused.err;
    EXPECT_NE(refused.err.find("none/b"), std::string::npos) << refused.err;
    EXPECT_EQ(refused.out, "");
  }
}

}  // namespace
}  // namespace plumb::test
