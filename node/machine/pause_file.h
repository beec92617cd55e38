// pause.json in the data folder: the owner's order to the workers of this machine, while it is in
// force. Workers read it several times a second and need no other signal.
//
// pause.lock beside it: every worker that may have a model in memory holds a shared lock. A process
// that gets the exclusive lock knows that this memory is free, even after a crash.
//
// An admin's order to one worker is in a file of its own, in the same format.
#pragma once

#include <optional>
#include <string>

#include "base/descriptor.h"
#include "base/result.h"
#include "node/machine/availability.h"

namespace hearth::node {

std::string pause_file(const std::string& folder);

// Nothing without an order. kInvalidInput for a file that write_pause_file() did not write.
Result<std::optional<OwnerOrder>> read_pause_file(const std::string& folder);
// Atomic; creates the folder.
Status write_pause_file(const std::string& folder, const OwnerOrder& order);
// False when there was no file.
Result<bool> remove_pause_file(const std::string& folder);

// The same for the file of an admin's order, by its path; its folder exists. Nothing: no order, and
// no file.
Result<std::optional<OwnerOrder>> read_admin_order(const std::string& path);
Status write_admin_order(const std::string& path, const std::optional<OwnerOrder>& order);

// A worker's shared lock on pause.lock. A folder that cannot be written has no lock, and
// hearth pause does not wait.
class WorkShare {
 public:
  explicit WorkShare(const std::string& folder);
  // Never waits: an exclusive lock is only held for a moment, so callers try again.
  void hold(bool wanted);

 private:
  const Descriptor lock_;
  bool held_ = false;
};

// Whether a worker of this folder holds its lock now.
Result<bool> workers_work(const std::string& folder);

}  // namespace hearth::node
