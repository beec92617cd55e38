// Which windows are audited, and by whom: a pure function of a checkpoint and a VRF output over it.
// Receipts enter a signed checkpoint first; then its drawer, who can compute only one output for
// it, publishes that. So no worker can foresee an audit and no coordinator can spare a friend:
// whoever has the log draws again and sees which audits had to be.
//
// The cosignatures of witnesses are part of what is drawn from. A witness signs one tree of a size
// only, so that a coordinator who asked it cannot try other orders of its entries; without
// witnesses it can (ledger/PROTOCOL.md, what is not defended).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/crypto_vrf.h"
#include "ledger/note.h"
#include "ledger/policy.h"

namespace hearth::ledger {

// What the VRF is evaluated at: the checkpoint's text and its cosignatures, in the order of names.
Bytes draw_message(const Checkpoint& checkpoint);
// Of the checkpoint of a log's first entries, before anybody has cosigned it.
Bytes draw_message(std::uint64_t size, const Hash256& root, const PublicKey& log);

class Draw {
 public:
  // Nothing when the proof is not `drawer`'s for this checkpoint.
  static std::optional<Draw> open(const Checkpoint& checkpoint, const PublicKey& drawer,
                                  ByteSpan proof);

  // The same for a draw_message() that is there already.
  static std::optional<Draw> open(ByteSpan message, const PublicKey& drawer, ByteSpan proof);

  // Whether the window of this log entry is audited, of which `rate` parts in a million are.
  // Selected at a rate, it is selected at every higher one.
  bool selects(std::uint64_t entry, std::int64_t rate) const;
  // The same for the coordinator's own referee, whatever the above says.
  bool selects_referee(std::uint64_t entry, std::int64_t rate) const;

  struct Candidate {
    PublicKey key;
    Hash256 owner;  // who answers for it; never two of one owner in one audit
  };
  // The auditor of a window: each candidate who is not excluded is as likely as any other, and
  // stays the choice when others come or go behind it. Nothing when all are excluded.
  std::optional<PublicKey> auditor(std::uint64_t entry, std::span<const Candidate> candidates,
                                   std::span<const Hash256> excluded_owners) const;

 private:
  explicit Draw(const Hash256& seed) : seed_(seed) {}
  std::uint64_t number(std::string_view purpose, std::uint64_t entry, ByteSpan rest = {}) const;

  Hash256 seed_;
};

}  // namespace hearth::ledger
