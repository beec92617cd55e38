// A stage's claim for one window: its roots and both signed edges.
#pragma once

#include <cstdint>

#include "base/crypto.h"
#include "base/result.h"
#include "ledger/receipt.h"
#include "proto/control.pb.h"

namespace hearth::coordinator {

struct StageClaim {
  std::uint32_t positions = 0;
  Hash256 in_root;
  Hash256 out_root;
  Signature in_signature{};
  Signature out_signature{};
};

// kInvalidInput when a field has a wrong length, or `worker`, which is stage `stage` of its
// pipeline, has not signed an edge.
Result<StageClaim> read_claim(const control::v1::WindowClaim& claim,
                              const ledger::RequestId& request, std::uint16_t stage,
                              const PublicKey& worker, const PublicKey& cluster);

// kRefused when the shown outgoing row is not below the claimed root: the stage has read that root
// and not computed it. Not for a last stage, which commits to tokens. `said`: the parsed claim.
Status check_shown(const control::v1::WindowClaim& claim, const StageClaim& said,
                   const ledger::RequestId& request, std::uint16_t stage, const Hash256& salt);

}  // namespace hearth::coordinator
