// Exchange: how the ranks of a group reach each other within a step. RankGroup: what a rank must
// know of its group.
//
// Every rank of a group runs the same steps, of the same batches, and so the same exchanges in the
// same order with sizes that all of them know. Threads: the engine's caller.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/crypto.h"
#include "base/result.h"
#include "node/engine/ranks/share.h"

namespace hearth::node {

class Exchange {
 public:
  virtual ~Exchange() = default;
  // Sends out[r] to each rank r and fills in[r] with what r sends; returns when both are done. An
  // entry that is empty is not sent or not awaited; this rank's own are empty. kIo where a rank is
  // lost: the group then ends, as a stage whose device is lost.
  virtual Status swap(std::span<const ByteSpan> out, std::span<const MutableByteSpan> in) = 0;
  // Ends the group by the fault of a rank, which sent what no rank sends. Returns the group's
  // error, kInvalidInput: "rank 1 ... " with `why`, or what ended the group before.
  virtual Error blame(std::uint32_t rank, const std::string& why) = 0;
};

struct RankGroup {
  std::vector<Share> shares;  // of each rank
  std::uint32_t rank = 0;     // this one; rank 0 samples and reports
  Exchange* exchange = nullptr;
  // KV pages that each rank takes, whatever the KV budget of its options: ranks whose pools differ
  // would evict different pages.
  std::uint32_t pages = 0;
  const Share& own() const { return shares[rank]; }
};

// kInvalidInput and kUnsupported as check_shares(), and for a rank outside its group.
Status check_group(const model::ModelSpec& spec, const RankGroup& group);

// The first exchange of every step, also of one that computes no row: so no rank is a step ahead of
// another. Each rank sends the hash of what it decided for this step. kInvalidInput names a rank
// that decided otherwise than the others, before any row is computed.
Status agree(const RankGroup& group, const Hash256& decided);

}  // namespace hearth::node
