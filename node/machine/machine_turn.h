// MachineTurn: a lock that lets one worker of a machine measure at a time, because concurrent
// measurements disturb each other. It is a lock on a file that all workers of one user share.
#pragma once

#include <filesystem>
#include <functional>

#include "base/clock.h"
#include "base/descriptor.h"

namespace hearth::node {

class MachineTurn {
 public:
  // Waits for the lock until `cancelled` returns true or `limit` has passed. Then, or when the file
  // cannot be created, it continues without the lock. Any thread but the main thread.
  MachineTurn(const std::filesystem::path& file, Duration limit,
              const std::function<bool()>& cancelled);

  bool held() const { return held_; }

 private:
  Descriptor file_;  // releases the lock
  bool held_ = false;
};

}  // namespace hearth::node
