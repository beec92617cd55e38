// MachineTurn: one worker of a machine measures at a time, since what a processor does for two at
// once says nothing of what it will do for one.
//
// A lock on a file that the workers of one user share, whatever their data folders.
#pragma once

#include <filesystem>
#include <functional>

#include "base/clock.h"

namespace hearth::cli {

class MachineTurn {
 public:
  // Waits until nobody else has the turn, `cancelled` says to give up, or so much time has passed:
  // then, and where the file cannot be made, without it. Any thread but the owner's.
  MachineTurn(const std::filesystem::path& file, Duration limit,
              const std::function<bool()>& cancelled);
  ~MachineTurn();  // gives it back
  MachineTurn(const MachineTurn&) = delete;
  MachineTurn& operator=(const MachineTurn&) = delete;

  bool held() const { return held_; }

 private:
  int file_ = -1;
  bool held_ = false;
};

}  // namespace hearth::cli
