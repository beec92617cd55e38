#include "cli/process/loop.h"

#include <sys/stat.h>
#include <unistd.h>

#include <boost/asio/post.hpp>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <thread>
#include <utility>

namespace hearth::cli {
namespace {

constexpr auto kTick = std::chrono::milliseconds(20);
constexpr int kStopMilliseconds = 1800;  // from the signal to the end, whatever hangs

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
    signals_.clear();  // the next one acts as if nobody listened
    exit_in(kStopMilliseconds);
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

void exit_in(int milliseconds) {
  std::thread([milliseconds] {
    std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
    _exit(0);
  }).detach();
}

Status make_private_folder(const std::string& path) {
  std::error_code error;
  const bool existed = std::filesystem::exists(path, error);
  std::filesystem::create_directories(path, error);
  if (error) return Error{ErrorCode::kIo, "data folder " + path + ": " + error.message()};
  if (!existed) ::chmod(path.c_str(), S_IRWXU);
  struct stat found {};
  if (::stat(path.c_str(), &found) != 0) {
    return Error{ErrorCode::kIo, "data folder " + path + ": " + std::strerror(errno)};
  }
  // Whoever may write there may put another file in the place of any of ours.
  REQUIRE(found.st_uid == ::geteuid(),
          "the folder " + path + " belongs to user " + std::to_string(found.st_uid) +
              ", not to the one that runs this; choose another, or: chown " +
              std::to_string(::geteuid()) + " " + path);
  REQUIRE((found.st_mode & (S_IWGRP | S_IWOTH)) == 0,
          "others may write in the folder " + path + "; mend it: chmod go-w " + path);
  return ok_status();
}

}  // namespace hearth::cli
