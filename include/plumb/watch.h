// The report of a training run as a page that follows it: a small HTTP server on this machine's 127.0.0.1,
// for this page alone. It answers "/" with the page and "/data" with what the page asks for again and again;
// nothing of a request reaches the file system, and a request that names another host is refused.
#pragma once

#include <memory>
#include <string>

namespace plumb {

class Watch {
 public:
  // Takes the port, 0 for any that is free. Until the run has a step, the page says that it waits. Throws
  // Error(file) where the folder is none of a training run, Error(usage) where the port is taken or may not
  // be used.
  Watch(const std::string& run_folder, int port);
  ~Watch();

  std::string address() const;  // "http://127.0.0.1:8765/"
  void serve();                 // until stop_requested() (plumb/signal.h)

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace plumb
