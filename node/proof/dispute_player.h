// DisputePlayer: a side of a dispute (ledger/dispute_game.h) that opens the trace of what it
// computed. It answers for its own values alone and never looks at the other side's. One thread.
#pragma once

#include <cstdint>
#include <vector>

#include "base/crypto.h"
#include "base/result.h"
#include "ledger/dispute.h"
#include "node/proof/tracer.h"

namespace hearth::node {

class DisputePlayer {
 public:
  // `tracer`: has run over all positions of the receipt, and outlives this. A receipt of fewer
  // positions is no dispute of it.
  DisputePlayer(Tracer& tracer, ledger::DisputeSide side, const SecretKey& key)
      : tracer_(tracer), side_(side), key_(key) {}

  // The next move. kInvalidInput when none is awaited or the trace does not reach so far.
  Result<ledger::DisputeMove> move(const ledger::DisputeGame& game);
  // What the value that was found is computed from, for the dispute's file. The tokens of a request
  // are its owner's to give.
  Result<ledger::DisputeEvidence> evidence(const ledger::DisputeGame& game);

 private:
  Result<Bytes> payload(const ledger::DisputeGame& game);
  Result<Bytes> trace_payload(const ledger::DisputeGame& game);
  Status look_at(std::uint32_t position);
  std::vector<Hash256> position_leaves(std::uint32_t end) const;
  Result<ledger::DisputeInput> input(const ledger::DisputeGame& game, std::uint32_t position,
                                     const ledger::TraceSlot& slot);

  Tracer& tracer_;
  ledger::DisputeSide side_;
  const SecretKey& key_;
  // Of the position looked at last.
  std::uint32_t position_ = 0;
  std::vector<Bytes> values_;
  std::vector<Hash256> leaves_;
};

}  // namespace hearth::node
