// pause.json in the data folder: what the owner of this machine has told its workers, for as long
// as it holds. Workers look at it several times a second; nothing else has to reach them.
//
// Beside it pause.lock, of which every worker that has a model in memory, or may have, holds a
// share: who can take it whole knows that this memory is free, even of a worker that crashed.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "node/machine/availability.h"

namespace hearth::cli {

std::string pause_file(const std::string& folder);

// Nothing where nobody has said anything. kInvalidInput for a file that is none of ours.
Result<std::optional<node::OwnerOrder>> read_pause_file(const std::string& folder);
// At once or not at all; creates the folder.
Status write_pause_file(const std::string& folder, const node::OwnerOrder& order);
// Whether there was one.
Result<bool> remove_pause_file(const std::string& folder);

// A worker's share of pause.lock. Without one: a folder that cannot be written; then nobody waits.
class WorkShare {
 public:
  explicit WorkShare(const std::string& folder);
  ~WorkShare();
  WorkShare(const WorkShare&) = delete;
  WorkShare& operator=(const WorkShare&) = delete;
  // Never waits: somebody who has it whole looks only for a moment, so it is tried again and again.
  void hold(bool wanted);

 private:
  const int lock_;
  bool held_ = false;
};

// Whether a worker of this folder holds a share now.
Result<bool> workers_work(const std::string& folder);

}  // namespace hearth::cli
