#include "support/process.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <thread>

namespace plumb::test {
namespace {

using Clock = std::chrono::steady_clock;

// A file in memory in place of a pipe: it never fills up, so nobody has to read while the program runs.
class Stream {
 public:
  explicit Stream(const std::string& content = "") : file_(memfd_create("stream", MFD_CLOEXEC)) {
    if (write(file_, content.data(), content.size()) != static_cast<ssize_t>(content.size())) std::abort();
    lseek(file_, 0, SEEK_SET);
  }
  ~Stream() { close(file_); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  int file() const { return file_; }

  std::string content() const {
    std::string text;
    char block[65536];
    for (ssize_t n; (n = pread(file_, block, sizeof block, static_cast<off_t>(text.size()))) > 0;)
      text.append(block, n);
    return text;
  }

 private:
  int file_;
};

// In the child, between fork and exec.
[[noreturn]] void become(const std::vector<char*>& argv, const ProcessOptions& options,
                         const int (&files)[3]) {
  setpgid(0, 0);
  for (int i = 0; i < 3; ++i) dup2(files[i], i);
  if (!options.folder.empty() && chdir(options.folder.c_str()) != 0) _exit(127);
  for (const auto& [name, value] : options.environment) setenv(name.c_str(), value.c_str(), 1);
  if (options.max_file_bytes > 0) {
    const rlimit limit{static_cast<rlim_t>(options.max_file_bytes),
                       static_cast<rlim_t>(options.max_file_bytes)};
    setrlimit(RLIMIT_FSIZE, &limit);
    std::signal(SIGXFSZ, SIG_IGN);  // the write fails instead
  }
  execvp(argv[0], argv.data());
  _exit(127);
}

}  // namespace

ProcessResult run_process(const std::vector<std::string>& arguments, const ProcessOptions& options) {
  const Stream in(options.input), out, err;
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);

  const pid_t child = fork();
  if (child < 0) std::abort();
  if (child == 0) become(argv, options, {in.file(), out.file(), err.file()});

  ProcessResult result;
  const auto deadline = Clock::now() + std::chrono::duration<double>(options.timeout_seconds);
  bool signalled = options.signal_on.empty();
  int status = 0;
  while (waitpid(child, &status, WNOHANG) == 0) {
    if (!signalled && (out.content() + err.content()).find(options.signal_on) != std::string::npos) {
      kill(child, options.signal);
      signalled = true;
    }
    if (Clock::now() > deadline) {
      result.timed_out = true;
      kill(-child, SIGKILL);
      waitpid(child, &status, 0);
      break;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  result.exit_code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  result.out = out.content();
  result.err = err.content();
  return result;
}

ProcessResult run_plumb(std::vector<std::string> arguments, const ProcessOptions& options) {
  arguments.insert(arguments.begin(), PLUMB_COMMAND);
  return run_process(arguments, options);
}

bool is_one_line_error(const ProcessResult& result, int exit_code) {
  return !result.timed_out && result.exit_code == exit_code && result.err.starts_with("plumb: ") &&
         result.err.ends_with("\n") && std::count(result.err.begin(), result.err.end(), '\n') == 1;
}

}  // namespace plumb::test
