// What a stage claims of one window: its roots, and both edges signed.
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

// kInvalidInput when a field has not the length of its kind, or an edge is not signed by `worker`,
// which is stage `stage` of its pipeline.
Result<StageClaim> read_claim(const control::v1::WindowClaim& claim,
                              const ledger::RequestId& request, std::uint16_t stage,
                              const PublicKey& worker, const PublicKey& cluster);

// kRefused when the row that it shows of what went out is not below its root: it has read that root
// and not computed it. Not of a last stage, which commits to tokens; `said` is what was read of it.
Status check_shown(const control::v1::WindowClaim& claim, const StageClaim& said,
                   const ledger::RequestId& request, std::uint16_t stage, const Hash256& salt);

}  // namespace hearth::coordinator
