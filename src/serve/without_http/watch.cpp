// In place of ../watch.cpp where there is no HTTP library: every use ends in one line that says so.
#include "plumb/watch.h"

#include "plumb/error.h"

namespace plumb {

struct Watch::Impl {};

Watch::Watch(const std::string&, int) {
  throw Error(ErrorKind::unsupported,
              "this plumb was built without HTTP, so it serves no page; `plumb report` writes the same page, "
              "and a build with libcpp-httplib-dev installed can watch");
}

Watch::~Watch() = default;

std::string Watch::address() const {
  return "";
}

void Watch::serve() {}

}  // namespace plumb
