// SealRound: the seals of one request's auditors, opened when all are in the log
// (ledger/PROTOCOL.md, 4, "Blind"). For each audited entry it keeps the auditor, its result and its
// progress; each seals and opens once.
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
    Hash256 salt = {};       // the own referee's salt
    bool is_sealed = false;  // in the log
    bool is_opened = false;
  };

  // Each entry is added once a round.
  void add(Asked asked);
  // The coordinator's own referee seals its result at once.
  ledger::SealEntry seal_own(const AuditCase::Finding& finding, const SecretKey& cluster);
  bool is_empty() const { return asked_.empty(); }
  const Asked* find(std::uint64_t entry) const;  // null: no auditor for that entry
  // The orders to seal, for nodes that have not sealed yet.
  std::vector<NodeMessage> seal_orders() const;
  // The orders to open, for all nodes of the round.
  std::vector<NodeMessage> open_orders() const;

  // Takes a node's seal or opening, for an entry that find() has, and makes a log entry of it.
  // kInvalidInput for a repetition, or when it differs from the node's seal or claim.
  Result<ledger::SealEntry> take(const std::string& node, const control::v1::Seal& seal,
                                 const PublicKey& cluster);
  Result<ledger::OpeningEntry> take(const std::string& node, const control::v1::Opening& opening);

  void sealed(std::uint64_t entry);  // its seal is in the log
  bool is_all_sealed() const;
  std::vector<ledger::OpeningEntry> open_own();  // the openings of seal_own()'s seals
  Asked opened(std::uint64_t entry);             // it is logged and leaves the round

 private:
  std::map<std::uint64_t, Asked> asked_;  // by the entry that is audited
};

}  // namespace hearth::coordinator
