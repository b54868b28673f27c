#include "lab/trial_table.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>

#include "base/log.h"
#include "base/progress.h"

namespace plumb {
namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

const char* word(CellState::Kind kind) {
  constexpr const char* words[] = {"waiting", "running", "finished", "diverged", "failed"};
  return words[kind];
}

std::string loss_text(const CellState& s) {
  return s.step == 0 ? "" : std::isfinite(s.loss) ? fmt::format("{:.4f}", s.loss) : "not finite";
}

bool ended(const CellState& s) {
  return s.kind >= CellState::finished;
}

}  // namespace

TrialTable::TrialTable(const TrialPlan& plan)
    : plan_(plan), terminal_(stderr_is_terminal()), start_(now()), told_(plan.cells.size()) {}

// A head line, then the running cells and those that ended last, as many as the terminal has lines for.
std::vector<std::string> TrialTable::lines(const std::vector<CellState>& states) const {
  int64_t done = 0, running = 0, diverged = 0, failed = 0, made = 0, all = 0;
  for (size_t i = 0; i < states.size(); ++i) {
    const CellState& s = states[i];
    done += ended(s);
    running += s.kind == CellState::running;
    diverged += s.kind == CellState::diverged;
    failed += s.kind == CellState::failed;
    all += plan_.cells[i].steps;
    made += ended(s) ? plan_.cells[i].steps : s.step;
  }
  std::string head =
      fmt::format("{}: {} of {} cells done, {} running", plan_.folder, done, states.size(), running);
  if (diverged > 0) head += fmt::format(", {} diverged", diverged);
  if (failed > 0) head += fmt::format(", {} failed", failed);
  const int64_t fresh = made - std::max<int64_t>(first_steps_, 0);
  if (fresh > 0 && made < all) {
    head += fmt::format(", {} left", format_duration((now() - start_) / static_cast<double>(fresh) *
                                                     static_cast<double>(all - made)));
  }
  std::vector<size_t> shown;
  for (size_t i = 0; i < states.size(); ++i) {
    if (states[i].kind == CellState::running) shown.push_back(i);
  }
  for (size_t i = states.size(); i-- > 0;) {
    if (ended(states[i])) shown.push_back(i);
  }
  size_t width = 4;
  for (const TrialCell& cell : plan_.cells) width = std::max(width, cell.name.size());
  std::vector<std::string> lines{head,
                                 fmt::format("  {:<{}}  {:>11}  {:>10}", "cell", width, "step", "loss")};
  for (const size_t i : shown) {
    const std::string step = fmt::format("{}/{}", states[i].step, plan_.cells[i].steps);
    lines.push_back(fmt::format("  {:<{}}  {:>11}  {:>10}  {}", plan_.cells[i].name, width,
                                states[i].step > 0 ? step : "", loss_text(states[i]), word(states[i].kind)));
  }
  return lines;
}

void TrialTable::draw(const std::vector<std::string>& all) {
  winsize size{};
  const bool known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 4 && size.ws_col > 10;
  const size_t rows = known ? size.ws_row - 2u : 22u, columns = known ? size.ws_col - 1u : 79u;
  std::string text = drawn_ > 0 ? fmt::format("\x1b[{}A\r\x1b[J", drawn_) : "";
  const size_t count = std::min(rows, all.size());
  for (size_t i = 0; i < count; ++i) text += all[i].substr(0, columns) + "\n";
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
  drawn_ = count;
}

void TrialTable::tell(const std::vector<CellState>& states) {
  for (size_t i = 0; i < states.size(); ++i) {
    if (states[i].kind == told_[i].kind) continue;
    told_[i] = states[i];
    std::string line = fmt::format("{}: {}", plan_.cells[i].name, word(states[i].kind));
    if (ended(states[i]) && states[i].step > 0) {
      line += fmt::format(" at step {}, loss {}", states[i].step, loss_text(states[i]));
    }
    log_info(line);
  }
}

void TrialTable::show(const std::vector<CellState>& states) {
  if (log_level() > LogLevel::info) return;
  if (first_steps_ < 0) {
    first_steps_ = 0;
    for (size_t i = 0; i < states.size(); ++i) first_steps_ += ended(states[i]) ? plan_.cells[i].steps : 0;
  }
  terminal_ ? draw(lines(states)) : tell(states);
}

void TrialTable::finish(const std::vector<CellState>& states) {
  show(states);
  if (!terminal_) log_info(lines(states).front());
}

}  // namespace plumb
