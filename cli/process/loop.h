// The owner's thread of a long-running process: its event loop, its timer and its signals.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <string>

#include "base/result.h"

namespace hearth::cli {

// Runs on the thread that calls run(), which is the main one.
class Loop {
 public:
  Loop();

  boost::asio::io_context& io() { return io_; }
  // Hands a function to the owner's thread. From any thread.
  std::function<void(std::function<void()>)> poster();

  // Calls on_timer every 20 ms until stop(). SIGINT or SIGTERM calls on_stop once; a second one
  // ends the process at once, and so does kStopDeadline.
  void run(std::function<void()> on_timer, std::function<void()> on_stop);
  void stop() { io_.stop(); }
  // Calls `act` at every SIGUSR1, while run() runs.
  void on_user_signal(std::function<void()> act);

 private:
  void tick();
  void wait_for_signal();
  void wait_for_user_signal();

  boost::asio::io_context io_;
  boost::asio::steady_timer timer_;
  boost::asio::signal_set signals_;
  boost::asio::signal_set user_signals_;
  std::function<void()> on_timer_;
  std::function<void()> on_stop_;
  std::function<void()> on_user_signal_;
};

// Ends the process with exit code 0 in so many milliseconds, whatever still runs by then.
void exit_in(int milliseconds);

// Creates the folder for this user alone. kIo with the reason; kInvalidInput, with the command that
// mends it, for one that is another user's or that others may write in.
Status make_private_folder(const std::string& path);

}  // namespace hearth::cli
