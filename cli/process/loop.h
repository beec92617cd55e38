// Loop: the event loop of a long-running process, with its timer and signals.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>

namespace hearth::cli {

// Runs on the thread that calls run(), which is the main one.
class Loop {
 public:
  Loop();

  boost::asio::io_context& io() { return io_; }
  // Runs a function on the main thread. Callable from any thread.
  std::function<void(std::function<void()>)> poster();
  // Calls on_timer every 20 ms until stop(). SIGINT, SIGTERM or SIGHUP calls on_stop once; a second
  // one ends the process at once, and 1.8 s after the first it ends with exit code 0 whatever
  // hangs. Before run(), while nothing is served yet, each of them ends the process at once.
  void run(std::function<void()> on_timer, std::function<void()> on_stop);
  void stop() { io_.stop(); }
  // Calls `act` at every SIGUSR1, while run() runs; without this one has no effect.
  void on_user_signal(std::function<void()> act);

 private:
  void tick();
  void add_signals();
  void wait_for_signal();
  void wait_for_user_signal();

  boost::asio::io_context io_;
  boost::asio::steady_timer timer_;
  boost::asio::signal_set signals_;
  boost::asio::signal_set user_signals_;
  unsigned ticks_ = 0;
  std::function<void()> on_timer_;
  std::function<void()> on_stop_;
  std::function<void()> on_user_signal_;
};

}  // namespace hearth::cli
