#include "plumb/watch.h"

#include <fmt/format.h>
#include <httplib.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>

#include "base/file.h"
#include "lab/report_page.h"
#include "plumb/error.h"
#include "plumb/signal.h"

namespace plumb {
namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* kHost = "127.0.0.1";
constexpr int kRest = 20;  // times as long as the files took to read, before they are read again

// A page from elsewhere whose name was made to lead here still sends its own name.
bool from_this_machine(const httplib::Request& request) {
  const std::string host = request.get_header_value("Host");
  const std::string name = host.substr(0, host.rfind(':'));
  return name == kHost || name == "localhost";
}

// Throws what read_run() throws, unless the run is one that has only begun.
void require_run(const std::string& folder) {
  try {
    read_run(folder, true);
  } catch (const Error&) {
    const bool begun =
        path_exists(join_path(folder, "recipe.toml")) || path_exists(join_path(folder, "metrics.jsonl"));
    if (!begun) throw;
  }
}

}  // namespace

struct Watch::Impl {
  explicit Impl(std::string run) : folder(std::move(run)) {}

  std::string folder;
  httplib::Server server;
  int port = 0;
  std::mutex mutex;  // requests come on several threads
  std::string version, data;
  Clock::time_point again;  // until then the data stand, so that a long run keeps its cores

  void answer_page(httplib::Response& response);
  void answer_data(const httplib::Request& request, httplib::Response& response);
};

void Watch::Impl::answer_page(httplib::Response& response) {
  const std::lock_guard lock(mutex);
  std::string page;
  try {
    page = report_page(report_parts({read_run(folder, true)}), true);
  } catch (const Error& e) {
    page = waiting_page(folder, e.what());
  }
  response.set_content(page, "text/html; charset=utf-8");
}

void Watch::Impl::answer_data(const httplib::Request& request, httplib::Response& response) {
  const std::lock_guard lock(mutex);
  const Clock::time_point begin = Clock::now();
  try {
    // Looked at before the files are read: what changes meanwhile is a new version to the next request.
    const std::string now = begin < again ? version : "\"" + run_version(folder) + "\"";
    if (now != version) {
      data = live_data(report_parts({read_run(folder, true)}));
      version = now;
      again = Clock::now() + kRest * (Clock::now() - begin);
    }
  } catch (const Error& e) {
    response.status = 503;
    response.set_content(e.what(), "text/plain; charset=utf-8");
    return;
  }
  response.set_header("ETag", version);
  if (request.get_header_value("If-None-Match") == version) {
    response.status = 304;
  } else {
    response.set_content(data, "application/json");
  }
}

Watch::Watch(const std::string& run_folder, int port) : impl_(std::make_unique<Impl>(run_folder)) {
  require_run(run_folder);
  httplib::Server& server = impl_->server;
  server.new_task_queue = [] { return new httplib::ThreadPool(2); };
  server.set_keep_alive_timeout(1);  // so that no idle connection holds up the end
  server.set_payload_max_length(0);
  server.set_default_headers({{"Cache-Control", "no-store"}, {"X-Content-Type-Options", "nosniff"}});
  // The library's own choice would let a second server share the port.
  server.set_socket_options([](socket_t socket) {
    const int yes = 1;
    setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  });
  server.set_pre_routing_handler([](const httplib::Request& request, httplib::Response& response) {
    if (from_this_machine(request)) return httplib::Server::HandlerResponse::Unhandled;
    response.status = 403;
    response.set_content("plumb watch answers this machine only\n", "text/plain");
    return httplib::Server::HandlerResponse::Handled;
  });
  server.Get("/", [this](const httplib::Request&, httplib::Response& r) { impl_->answer_page(r); });
  server.Get("/data", [this](const httplib::Request& q, httplib::Response& r) { impl_->answer_data(q, r); });
  impl_->port = port == 0 ? server.bind_to_any_port(kHost) : server.bind_to_port(kHost, port) ? port : -1;
  if (impl_->port < 0) {
    throw Error(ErrorKind::usage,
                fmt::format("port {} is taken, or this user may not have it; --port N takes another, 0 any "
                            "that is free",
                            port));
  }
}

Watch::~Watch() = default;

std::string Watch::address() const {
  return fmt::format("http://{}:{}/", kHost, impl_->port);
}

void Watch::serve() {
  std::atomic<bool> ended = false;
  std::thread listening([&] {
    impl_->server.listen_after_bind();
    ended = true;
  });
  for (bool stopped = false; !ended;) {
    if (!stopped && stop_requested() && impl_->server.is_running()) {
      impl_->server.stop();
      stopped = true;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  listening.join();
}

}  // namespace plumb
