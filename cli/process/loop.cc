#include "cli/process/loop.h"

#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <boost/asio/post.hpp>
#include <chrono>
#include <csignal>
#include <utility>

#include "cli/process/own_process.h"
#include "cli/process/service_manager.h"

namespace hearth::cli {
namespace {

constexpr auto kTick = std::chrono::milliseconds(20);
// The time from the signal to the end of the process, even if something hangs.
constexpr suseconds_t kStopMicroseconds = 800'000;
constexpr itimerval kStopDeadline{{0, 0}, {1, kStopMicroseconds}};
constexpr unsigned kMemoryTicks = 500;  // 10 s
constexpr std::array kStopSignals = {SIGINT, SIGTERM, SIGHUP};

void end_at_once(int /*signal*/) { _exit(0); }

// As nohup does for a process that outlives its terminal.
bool ignored(int signal) {
  struct sigaction now {};
  return signal == SIGHUP && sigaction(signal, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
}

}  // namespace

Loop::Loop() : timer_(io_), signals_(io_), user_signals_(io_) {
  // A closed peer or log reader, and a file at its size limit, become error codes in place of
  // signals.
  for (const int signal : {SIGPIPE, SIGXFSZ, SIGUSR1}) std::signal(signal, SIG_IGN);
  for (const int signal : kStopSignals) {
    if (!ignored(signal)) std::signal(signal, end_at_once);
  }
}

std::function<void(std::function<void()>)> Loop::poster() {
  return [this](std::function<void()> work) { boost::asio::post(io_, std::move(work)); };
}

void Loop::run(std::function<void()> on_timer, std::function<void()> on_stop) {
  on_timer_ = std::move(on_timer);
  on_stop_ = std::move(on_stop);
  notify_started();
  set_watchdog(Watchdog::kOn);
  tick();
  add_signals();
  wait_for_signal();
  io_.run();
  set_watchdog(Watchdog::kOff);
}

void Loop::add_signals() {
  for (const int signal : kStopSignals) {
    if (!ignored(signal)) signals_.add(signal);
  }
}

void Loop::tick() {
  timer_.expires_after(kTick);
  timer_.async_wait([this](const boost::system::error_code& error) {
    if (error) return;
    on_timer_();
    notify_alive();
    if (++ticks_ % kMemoryTicks == 0) return_free_memory();
    tick();
  });
}

void Loop::wait_for_signal() {
  signals_.async_wait([this](const boost::system::error_code& error, int /*signal*/) {
    if (error) return;
    signals_.clear();                   // the next signal has its default action
    std::signal(SIGALRM, end_at_once);  // a timer of the system, which needs no thread
    ::setitimer(ITIMER_REAL, &kStopDeadline, nullptr);
    notify_stopping();
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
