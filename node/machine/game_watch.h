// Whether a game runs, as Feral's GameMode reports on the user's D-Bus session. libsystemd's sd-bus
// is opened at run time and not linked; a machine without it never detects a game.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>

#include "base/result.h"

namespace hearth::node {

// Listens on its own thread. Without a session or GameMode it waits for one, and never starts it.
class GameWatch {
 public:
  // kUnavailable where the library or one of its functions is not there.
  static Result<std::unique_ptr<GameWatch>> open(const std::string& library = "libsystemd.so.0");
  ~GameWatch();
  GameWatch(const GameWatch&) = delete;
  GameWatch& operator=(const GameWatch&) = delete;

  std::uint32_t games() const { return games_; }  // from any thread

 private:
  class Bus;
  explicit GameWatch(std::unique_ptr<Bus> bus);

  std::atomic<std::uint32_t> games_{0};
  std::atomic<bool> stopping_{false};
  const std::unique_ptr<Bus> bus_;
  std::thread thread_;
};

}  // namespace hearth::node
