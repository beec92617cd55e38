// SealRound: what the auditors of one request are asked to seal, and to open when all seals are in
// the log (ledger/PROTOCOL.md, 4, "Blind"). It knows of each audited entry who found what, and how
// far that auditor has come; each seals and opens once.
//
// Any bytes may come from a node. Plain data and functions; one thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/crypto.h"
#include "base/result.h"
#include "coordinator/proof/audit_case.h"
#include "coordinator/proof/barred_keys.h"
#include "ledger/entry.h"
#include "ledger/statements.h"

namespace hearth::coordinator {

class SealRound {
 public:
  struct Asked {       // an auditor, by the entry that it audits
    std::string node;  // empty: the coordinator's own referee
    PublicKey key;
    AuditCase::Finding finding;
    std::optional<ledger::SealEntry> seal = {};
    Hash256 salt = {};       // of the own referee's
    bool is_sealed = false;  // in the log
    bool is_opened = false;
  };

  // An entry is asked for once in a round.
  void add(Asked asked);
  // Of the coordinator's own referee, which seals what it found at once.
  ledger::SealEntry seal_own(const AuditCase::Finding& finding, const SecretKey& cluster);
  bool is_empty() const { return asked_.empty(); }
  const Asked* find(std::uint64_t entry) const;  // null: no auditor is asked about that entry
  // The orders to seal, for nodes that have not sealed yet.
  std::vector<NodeMessage> seal_orders() const;
  // For all nodes that are asked: what each is to open.
  std::vector<NodeMessage> open_orders() const;

  // A node's word, which becomes an entry of the log; find() has it. kInvalidInput when it said so
  // before, or when it is not what the node sealed and claimed.
  Result<ledger::SealEntry> take(const std::string& node, const control::v1::Seal& seal,
                                 const PublicKey& cluster);
  Result<ledger::OpeningEntry> take(const std::string& node, const control::v1::Opening& opening);

  void sealed(std::uint64_t entry);  // its seal is in the log
  bool is_all_sealed() const;
  std::vector<ledger::OpeningEntry> open_own();  // of what seal_own() sealed
  Asked opened(std::uint64_t entry);             // it is in the log, and leaves the round

 private:
  std::map<std::uint64_t, Asked> asked_;  // by the entry that is audited
};

}  // namespace hearth::coordinator
