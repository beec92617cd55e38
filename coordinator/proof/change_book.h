// ChangeBook: what the machine of each key was when it last had a session: build, card, instruction
// set, host. Kept in a file, so that what changed while nobody served is seen as well. A key's
// change is an entry of the log (ledger/PROTOCOL.md, 3), after which it is audited more for a
// while.
//
// One thread.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "base/crypto.h"
#include "base/result.h"

namespace hearth::coordinator {

class ChangeBook {
 public:
  static constexpr std::size_t kKeys = 8'192;  // later ones are not remembered

  // kInvalidInput for a file that store() did not write. There need not be one.
  Status open(std::string file);
  // Whether the key was met before, and its machine was another one. `machine`: any text that says
  // what it is.
  bool meet(const PublicKey& key, std::string_view machine);
  // On the disk what was met since; to be called once the changes are in the log, so that a crash
  // between logs one twice and forgets none. Nothing to do, or no file: nothing is written.
  Status store();

 private:
  std::string file_;
  bool is_new_ = false;
  std::map<std::string, std::string> machines_;  // by the key in hex: BLAKE2b in hex
};

}  // namespace hearth::coordinator
