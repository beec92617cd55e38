// MachineTurn: a lock that lets one worker of a machine measure at a time, since two at once would
// measure each other. It is a lock on a file that all workers of one user share.
#pragma once

#include <filesystem>
#include <functional>

#include "base/clock.h"
#include "base/descriptor.h"

namespace hearth::node {

class MachineTurn {
 public:
  // Waits for the lock, until `cancelled` says so or `limit` has passed; then, and where the file
  // cannot be made, it goes on without. Any thread but the owner's.
  MachineTurn(const std::filesystem::path& file, Duration limit,
              const std::function<bool()>& cancelled);

  bool held() const { return held_; }

 private:
  Descriptor file_;  // gives the lock back
  bool held_ = false;
};

}  // namespace hearth::node
