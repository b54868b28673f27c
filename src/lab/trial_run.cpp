#include "lab/trial_run.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/log.h"
#include "base/machine.h"
#include "lab/trial_table.h"
#include "plumb/error.h"
#include "plumb/signal.h"
#include "plumb/trainer.h"

namespace plumb {
namespace {

constexpr size_t kMostCells = 10000;

// A name that is fit for a file; where characters had to go, a hash tells it from its like.
std::string file_name(const std::string& text) {
  constexpr size_t kMost = 120;
  std::string name;
  for (const char c : text) {
    const bool fit = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                     std::string_view("=,.+-_").find(c) != std::string_view::npos;
    name += fit ? c : '_';
  }
  if (name == text && name.size() <= kMost) return name;
  return name.substr(0, kMost) + "-" + hash_hex(hash_bytes(text)).substr(0, 8);
}

void check(const std::vector<TrialAxis>& axes) {
  const auto refuse = [](const std::string& what) { throw Error(ErrorKind::usage, what); };
  if (axes.empty()) refuse("a trial needs an axis: --grid KEY=VALUE,VALUE");
  std::set<std::string> keys;
  size_t cells = 1;
  for (const TrialAxis& axis : axes) {
    if (!keys.insert(axis.key).second) refuse(fmt::format("--grid {} is given twice", axis.key));
    if (axis.values.empty()) refuse(fmt::format("--grid {} has no value", axis.key));
    std::set<std::string> values;
    for (const std::string& v : axis.values) {
      if (!values.insert(v).second) refuse(fmt::format("--grid {} has the value {} twice", axis.key, v));
    }
    cells *= axis.values.size();
    if (cells > kMostCells) refuse(fmt::format("the grid has more than {} cells", kMostCells));
  }
}

// Whether the last steps of a cell were skipped: its losses left the finite, and the trainer gave up.
bool gave_up(const std::string& metrics) {
  if (!path_exists(metrics)) return false;
  const std::string text = read_file(metrics);
  const size_t end = text.find_last_not_of('\n');
  if (end == std::string::npos) return false;
  const size_t begin = text.rfind('\n', end) + 1;
  return text.substr(begin, end - begin + 1).find("\"skipped\":true") != std::string::npos;
}

std::string last_line(const std::string& path) {
  if (!path_exists(path)) return "";
  std::string text = read_file(path);
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
  return text.substr(text.rfind('\n') + 1);
}

// In the child: becomes the cell's training, apart from the terminal's signals, ended when its parent is.
[[noreturn]] void become(const std::vector<char*>& argv, const char* log, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(130);
  setpgid(0, 0);
  const int out = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (out < 0 || nothing < 0) _exit(127);
  dup2(nothing, 0);
  dup2(out, 1);
  dup2(out, 2);
  setenv("OMP_WAIT_POLICY", "passive", 1);
  execvp(argv[0], argv.data());
  _exit(127);
}

// The cells as processes.
class Cells {
 public:
  Cells(const TrialPlan& plan, int64_t jobs, int64_t threads) : plan_(plan), jobs_(jobs), threads_(threads) {
    for (const TrialCell& cell : plan.cells) {
      const auto end = cell_end(plan, cell);
      states_.push_back(end && end->outcome != "failed" ? state_of(*end) : CellState{});
    }
  }
  ~Cells() {
    stop();
    while (!running_.empty()) collect(true);
  }
  Cells(const Cells&) = delete;
  Cells& operator=(const Cells&) = delete;

  bool busy() const { return !running_.empty(); }
  const std::vector<CellState>& states() const { return states_; }

  // Starts what may start; false where nothing is left to.
  bool start() {
    bool waiting = false;
    for (size_t i = 0; i < states_.size(); ++i) {
      if (states_[i].kind != CellState::waiting) continue;
      waiting = true;
      if (static_cast<int64_t>(running_.size()) >= jobs_) break;
      if (free(i)) launch(i);
    }
    return waiting;
  }

  // Takes in the cells that ended, and looks where the others are.
  void collect(bool wait) {
    int status = 0;
    for (auto it = running_.begin(); it != running_.end();) {
      const pid_t ended = waitpid(it->first, &status, wait ? 0 : WNOHANG);
      if (ended == 0) {
        const CellProgress p = cell_progress(plan_, plan_.cells[it->second]);
        states_[it->second].step = p.step;
        states_[it->second].loss = p.loss;
        ++it;
        continue;
      }
      finish(it->second, status);
      it = running_.erase(it);
    }
  }

  void stop() {
    for (const auto& [process, cell] : running_) kill(process, SIGTERM);
  }

 private:
  static CellState state_of(const CellEnd& end) {
    return {.kind = end.outcome == "finished"   ? CellState::finished
                    : end.outcome == "diverged" ? CellState::diverged
                                                : CellState::failed};
  }

  // Not held by a process that an earlier call of this command left.
  bool free(size_t i) const {
    const std::string folder = cell_path(plan_, plan_.cells[i], "");
    return !is_folder(folder) || FileLock::try_lock(join_path(folder, ".lock")) != nullptr;
  }

  void launch(size_t i) {
    const TrialCell& cell = plan_.cells[i];
    const std::string folder = cell_path(plan_, cell, ""), log = cell_path(plan_, cell, ".log");
    std::vector<std::string> arguments{plan_.program, "--threads", std::to_string(threads_), "train"};
    if (Trainer::holds_run(folder) && path_exists(join_path(folder, "recipe.toml"))) {
      arguments.insert(arguments.end(), {"--resume", folder});
    } else {
      if (Trainer::holds_run(folder)) remove_file(join_path(folder, "metrics.jsonl"));
      arguments.insert(arguments.end(), {cell_path(plan_, cell, ".toml"), "--out", folder});
    }
    std::vector<char*> argv;
    argv.reserve(arguments.size() + 1);
    for (std::string& a : arguments) argv.push_back(a.data());
    argv.push_back(nullptr);
    const pid_t parent = getpid(), child = fork();
    if (child < 0)
      throw Error(ErrorKind::file, fmt::format("cannot start a process: {}", std::strerror(errno)));
    if (child == 0) become(argv, log.c_str(), parent);
    running_[child] = i;
    states_[i].kind = CellState::running;
  }

  void finish(size_t i, int status) {
    const TrialCell& cell = plan_.cells[i];
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    CellState& state = states_[i];
    if (code == 130 || code == 143 || (stop_requested() && code != 0 && code != 1)) {
      state.kind = CellState::waiting;  // was stopped: it goes on next time
      return;
    }
    CellEnd end{.outcome = "finished"};
    if (code != 0) {
      end.outcome = gave_up(join_path(cell_path(plan_, cell, ""), "metrics.jsonl")) ? "diverged" : "failed";
      end.message = code == 127  ? "cannot run " + plan_.program
                    : code > 128 ? fmt::format("ended by signal {}", code - 128)
                                 : last_line(cell_path(plan_, cell, ".log"));
    }
    const OrderedJson record = {{"outcome", end.outcome}, {"message", end.message}};
    write_file_atomically(cell_path(plan_, cell, ".json"), dump_json(record, -1) + "\n");
    const CellProgress p = cell_progress(plan_, cell);
    state = state_of(end);
    state.step = p.step;
    state.loss = p.loss;
    if (end.outcome == "failed") log_warning(fmt::format("{} failed: {}", cell.name, end.message));
  }

  const TrialPlan& plan_;
  int64_t jobs_, threads_;
  std::vector<CellState> states_;
  std::map<pid_t, size_t> running_;
};

// A cell's recipe that is there already has to be this one: its folder may hold half of the run.
void write_recipes(const TrialPlan& plan) {
  make_folder(join_path(plan.folder, "cells"));
  for (const TrialCell& cell : plan.cells) {
    const std::string path = cell_path(plan, cell, ".toml");
    if (!path_exists(path)) {
      write_file_atomically(path, cell.recipe);
    } else if (read_file(path) != cell.recipe) {
      throw Error(
          ErrorKind::usage,
          fmt::format("{} holds a cell {} of another recipe: --out names another folder for a new trial",
                      plan.folder, cell.name));
    }
  }
  write_file_atomically(join_path(plan.folder, "trial.toml"), plan.recipe);
}

}  // namespace

std::vector<TrialCell> trial_cells(const std::vector<TrialAxis>& axes) {
  check(axes);
  std::vector<TrialCell> cells(1);
  for (const TrialAxis& axis : axes) {
    std::vector<TrialCell> longer;
    for (const TrialCell& cell : cells) {
      for (const std::string& value : axis.values) {
        TrialCell next = cell;
        next.values.push_back(value);
        next.name += (next.name.empty() ? "" : ",") + axis.key + "=" + value;
        longer.push_back(std::move(next));
      }
    }
    cells = std::move(longer);
  }
  for (TrialCell& cell : cells) cell.name = file_name(cell.name);
  return cells;
}

std::string cell_path(const TrialPlan& plan, const TrialCell& cell, const std::string& end) {
  return join_path(join_path(plan.folder, "cells"), cell.name + end);
}

std::optional<CellEnd> cell_end(const TrialPlan& plan, const TrialCell& cell) {
  const std::string path = cell_path(plan, cell, ".json");
  if (!path_exists(path)) return std::nullopt;
  try {
    const Json j = parse_json_file(path);
    CellEnd end{.outcome = j.at("outcome"), .message = j.value("message", "")};
    if (end.outcome == "finished" || end.outcome == "diverged" || end.outcome == "failed") return end;
  } catch (const std::exception&) {
    log_warning("passed over " + path + ", which is not the end of a cell");
  }
  return std::nullopt;
}

CellProgress cell_progress(const TrialPlan& plan, const TrialCell& cell) {
  CellProgress progress{.loss = std::nan("")};
  const std::string path = join_path(cell_path(plan, cell, ""), "metrics.jsonl");
  if (!path_exists(path)) return progress;
  std::string text = read_file(path);
  while (true) {
    const size_t end = text.rfind('\n');
    if (end == std::string::npos) return progress;
    text.resize(end);
    const Json line = Json::parse(text.substr(text.rfind('\n') + 1), nullptr, false);
    if (!line.is_object() || !line.contains("loss") || !line.contains("step")) continue;
    progress.step = line.value("step", int64_t{0});
    if (line.at("loss").is_number()) progress.loss = line.at("loss");
    return progress;
  }
}

TrialOutcome run_trial(const TrialPlan& plan) {
  make_folder(plan.folder);
  const auto lock = FileLock::try_lock(join_path(plan.folder, ".lock"));
  if (!lock) throw Error(ErrorKind::usage, plan.folder + " is in use by another trial");
  write_recipes(plan);
  const int cores = machine().cores;
  const int64_t jobs = std::min(plan.jobs > 0 ? plan.jobs : cores, static_cast<int64_t>(plan.cells.size()));
  Cells cells(plan, jobs, std::max<int64_t>(1, cores / jobs));
  TrialTable table(plan);
  for (bool more = true; more || cells.busy();) {
    more = !stop_requested() && cells.start();
    table.show(cells.states());
    if (stop_requested()) {
      cells.stop();
      while (cells.busy()) cells.collect(true);
      break;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    cells.collect(false);
  }
  table.finish(cells.states());
  TrialOutcome outcome;
  for (const CellState& s : cells.states()) {
    outcome.finished += s.kind == CellState::finished;
    outcome.diverged += s.kind == CellState::diverged;
    outcome.failed += s.kind == CellState::failed;
  }
  if (stop_requested()) {
    throw Error(ErrorKind::interrupted,
                fmt::format("stopped with {} of {} cells done and the others saved; the same command goes on",
                            outcome.finished + outcome.diverged, plan.cells.size()));
  }
  return outcome;
}

}  // namespace plumb
