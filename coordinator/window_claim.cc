#include "coordinator/window_claim.h"

#include "proto/fixed_field.h"

namespace hearth::coordinator {

Result<StageClaim> read_claim(const control::v1::WindowClaim& claim,
                              const ledger::RequestId& request, std::uint16_t stage,
                              const PublicKey& worker, const PublicKey& cluster) {
  StageClaim said;
  said.positions = claim.positions();
  REQUIRE(read_field(claim.in_root(), said.in_root.bytes) &&
              read_field(claim.out_root(), said.out_root.bytes) &&
              read_field(claim.in_signature(), said.in_signature) &&
              read_field(claim.out_signature(), said.out_signature),
          "a root or a signature of a wrong length");
  const auto edge = [&](std::uint16_t below, const Hash256& root) {
    return ledger::Edge{request, claim.epoch(), below, claim.window(), root};
  };
  const auto below = static_cast<std::uint16_t>(stage + 1);
  REQUIRE(ledger::check_edge(edge(stage, said.in_root), cluster, worker, said.in_signature) &&
              ledger::check_edge(edge(below, said.out_root), cluster, worker, said.out_signature),
          "the signature of an edge is not its own");
  return said;
}

}  // namespace hearth::coordinator
