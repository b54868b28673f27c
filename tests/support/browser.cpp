#include "support/browser.h"

#include <utility>

namespace plumb::test {

bool has_browser() {
  return run_process({"sh", "-c", "command -v chromium"}).exit_code == 0;
}

ProcessResult browse(const std::string& address, const std::string& profile, const Browser& browser) {
  std::vector<std::string> command{"chromium",
                                   "--headless",
                                   "--no-sandbox",
                                   "--disable-gpu",
                                   "--disable-dev-shm-usage",  // which is small in a container
                                   "--hide-scrollbars",
                                   "--user-data-dir=" + profile,
                                   "--enable-logging=stderr",
                                   "--v=0",
                                   "--virtual-time-budget=10000",
                                   "--window-size=" + std::to_string(browser.width) + ",1000"};
  if (browser.dark)
    command.insert(command.end(), {"--force-dark-mode", "--blink-settings=preferredColorScheme=0"});
  command.insert(command.end(), {"--dump-dom", address});
  return run_process(command, {.timeout_seconds = 180});
}

std::string check_text(const std::string& output) {
  const size_t at = output.rfind("<pre id=\"check\">");
  if (at == std::string::npos) return "";
  const size_t begin = output.find('>', at) + 1;
  std::string text = output.substr(begin, output.find("</pre>", begin) - begin);
  for (const auto& [from, to] : {std::pair("&lt;", "<"), std::pair("&gt;", ">"), std::pair("&amp;", "&")}) {
    for (size_t found = 0; (found = text.find(from, found)) != std::string::npos; ++found)
      text.replace(found, std::string(from).size(), to);
  }
  return text;
}

std::string with_check(std::string page, const std::string& script) {
  page.insert(page.find("<title>"),
              "<script>window.pageErrors = []; window.onerror = (m) => { window.pageErrors.push(String(m)); "
              "};</script>");
  page.insert(page.rfind("</body>"), script);
  return page;
}

}  // namespace plumb::test
