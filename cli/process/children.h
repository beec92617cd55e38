// Children: the local workers of a server, one `hearth worker` process each. A child that dies is
// restarted after 0.2 s, doubling up to 5 s. It ends when this process ends, in whatever way. Its
// log lines appear on our stderr with its name in front.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "cli/process/spawn.h"

namespace boost::asio {
class io_context;
}

namespace hearth::cli {

// Everything on the thread that runs `io`. It must be the main thread: the kernel ends a child
// when the thread that started it ends.
class Children {
 public:
  explicit Children(boost::asio::io_context& io);
  ~Children();  // SIGKILL to what is left
  void start(std::vector<ChildSpec> specs);
  // Sends SIGTERM to all and restarts none from now on. The destructor kills those that remain.
  void stop();
  std::size_t running() const;
  std::vector<pid_t> processes() const;  // that run

 private:
  class Child;
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace hearth::cli
