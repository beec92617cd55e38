#include "coordinator/proof/machine_history.h"

#include "base/check.h"

namespace hearth::coordinator {

MachineHistory::MachineHistory(const Machines& known, Save save) : save_(std::move(save)) {
  for (const auto& [key, machine] : known) {
    if (machines_.size() < kKeys) machines_.insert_or_assign(key, machine);
  }
}

bool MachineHistory::meet(const PublicKey& key, std::string_view machine) {
  const Hash256 now = blake2b(as_bytes(machine));
  const auto known = machines_.find(key);
  if (known == machines_.end()) {
    if (machines_.size() == kKeys) return false;
    machines_.emplace(key, now);
    INVARIANT(machines_.size() <= kKeys, "at most kKeys machines are remembered");
    unsaved_[key] = now;
    return false;
  }
  if (known->second == now) return false;
  known->second = now;
  unsaved_[key] = now;
  return true;
}

Status MachineHistory::store() {
  if (unsaved_.empty() || !save_) return ok_status();
  TRY_VOID(save_(Machines(unsaved_.begin(), unsaved_.end())));
  unsaved_.clear();
  return ok_status();
}

}  // namespace hearth::coordinator
