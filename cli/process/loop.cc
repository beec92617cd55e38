#include "cli/process/loop.h"

#include <unistd.h>

#include <boost/asio/post.hpp>
#include <chrono>
#include <csignal>
#include <thread>
#include <utility>

namespace hearth::cli {
namespace {

constexpr auto kTick = std::chrono::milliseconds(20);
// From the signal to the end, whatever hangs.
constexpr auto kStopDeadline = std::chrono::milliseconds(1800);

}  // namespace

Loop::Loop() : timer_(io_), signals_(io_), user_signals_(io_) {
  std::signal(SIGPIPE, SIG_IGN);  // a peer or a reader of our log that went away is an error code
  signals_.add(SIGINT);
  signals_.add(SIGTERM);
}

std::function<void(std::function<void()>)> Loop::poster() {
  return [this](std::function<void()> work) { boost::asio::post(io_, std::move(work)); };
}

void Loop::run(std::function<void()> on_timer, std::function<void()> on_stop) {
  on_timer_ = std::move(on_timer);
  on_stop_ = std::move(on_stop);
  tick();
  wait_for_signal();
  io_.run();
}

void Loop::tick() {
  timer_.expires_after(kTick);
  timer_.async_wait([this](const boost::system::error_code& error) {
    if (error) return;
    on_timer_();
    tick();
  });
}

void Loop::wait_for_signal() {
  signals_.async_wait([this](const boost::system::error_code& error, int /*signal*/) {
    if (error) return;
    signals_.clear();  // the next signal has its default action
    std::thread([] {
      std::this_thread::sleep_for(kStopDeadline);
      _exit(0);
    }).detach();
    on_stop_();
  });
}

void Loop::on_user_signal(std::function<void()> act) {
  on_user_signal_ = std::move(act);
  user_signals_.add(SIGUSR1);
  wait_for_user_signal();
}

void Loop::wait_for_user_signal() {
  user_signals_.async_wait([this](const boost::system::error_code& error, int /*signal*/) {
    if (error) return;
    on_user_signal_();
    wait_for_user_signal();
  });
}

}  // namespace hearth::cli
