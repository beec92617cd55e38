// Draw: which windows are audited and by which auditor, as a pure function of a checkpoint and a
// VRF output over it. Receipts enter a signed checkpoint first. Then the drawer publishes the only
// VRF output that it can compute for this checkpoint. So a worker cannot foresee an audit, and the
// coordinator cannot spare a friend: every reader of the log can repeat the draw. Any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/crypto_vrf.h"
#include "ledger/policy.h"

namespace hearth::ledger {

// The VRF's input, for the checkpoint of all entries before the draw.
Bytes draw_message(std::uint64_t size, const Hash256& root, const PublicKey& log);

class Draw {
 public:
  // Nothing when the proof is not valid for this drawer and this draw_message().
  static std::optional<Draw> open(ByteSpan message, const PublicKey& drawer, ByteSpan proof);

  // The same for a proof that was checked before.
  static std::optional<Draw> reopen(ByteSpan proof);

  // Whether the window of this entry is audited, when `rate` parts in a million are. A window that
  // is selected at one rate is selected at every higher rate.
  bool selects(std::uint64_t entry, std::int64_t rate) const;
  // The same for the coordinator's referee, independent of selects().
  bool selects_referee(std::uint64_t entry, std::int64_t rate) const;

  struct Candidate {
    PublicKey key;
    Hash256 owner;  // no audit has two nodes of one owner
  };
  // The auditor of a window, uniformly among the candidates that are not excluded. The choice stays
  // the same when other candidates are added or removed. Nothing when all are excluded.
  std::optional<PublicKey> auditor(std::uint64_t entry, std::span<const Candidate> candidates,
                                   std::span<const Hash256> excluded_owners) const;

 private:
  friend class BooksState;

  explicit Draw(const Hash256& seed) : seed_(seed) {}
  std::uint64_t number(std::string_view purpose, std::uint64_t entry, ByteSpan rest = {}) const;

  Hash256 seed_;
};

}  // namespace hearth::ledger
