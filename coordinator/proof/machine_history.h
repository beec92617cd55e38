// MachineHistory: the machine of each key in its last session (build, GPU, instruction set, host).
// The store keeps it, so that a change during downtime is noticed. A change of a key's machine is
// an entry of the log (ledger/PROTOCOL.md, 3), after which the key is audited more for a while.
//
// One thread.
#pragma once

#include <functional>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "base/crypto.h"
#include "base/result.h"

namespace hearth::coordinator {

class MachineHistory {
 public:
  static constexpr std::size_t kKeys = 8'192;  // more are not remembered

  using Machines = std::vector<std::pair<PublicKey, Hash256>>;  // the hash of what the machine is
  // Writes these rows, replacing earlier ones of the same keys.
  using Save = std::function<Status(const Machines&)>;

  MachineHistory() = default;
  MachineHistory(const Machines& known, Save save);

  // Whether the key was met before with another machine. `machine`: any text that describes it.
  bool meet(const PublicKey& key, std::string_view machine);
  // Saves what is new. Called once the changes are in the log: a crash in between logs a change
  // twice and loses none.
  Status store();

 private:
  Save save_;
  std::map<PublicKey, Hash256> machines_;
  std::map<PublicKey, Hash256> unsaved_;
};

}  // namespace hearth::coordinator
