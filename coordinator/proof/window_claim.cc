#include "coordinator/proof/window_claim.h"

#include <algorithm>

#include "base/limits.h"
#include "proto/fixed_field.h"

namespace hearth::coordinator {
namespace {

constexpr std::size_t kPathMost = 12;
static_assert(limits::kWindowPositions == 1U << kPathMost, "the longest path below a root");

}  // namespace

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
          "an edge's signature is not the worker's");
  return said;
}

Status check_shown(const control::v1::WindowClaim& claim, const StageClaim& said,
                   const ledger::RequestId& request, std::uint16_t stage, const Hash256& salt) {
  const ledger::Edge edge{request, claim.epoch(), static_cast<std::uint16_t>(stage + 1),
                          claim.window(), said.out_root};
  ledger::ShownRow shown;
  const ByteSpan path = as_bytes(claim.shown_path());
  bool below = read_field(claim.shown_row(), shown.row.bytes) &&
               path.size() % shown.row.bytes.size() == 0 &&
               path.size() <= kPathMost * shown.row.bytes.size();
  for (std::size_t at = 0; below && at < path.size(); at += shown.row.bytes.size()) {
    const ByteSpan hash = path.subspan(at, shown.row.bytes.size());
    std::ranges::copy(hash, shown.path.emplace_back().bytes.begin());
  }
  const std::uint32_t first = claim.window() * limits::kWindowPositions;
  below = below && ledger::check_row(edge, salt, first, said.positions, shown).ok();
  if (below) return ok_status();
  return Error{ErrorCode::kRefused,
               "it claims a root and cannot show the row below it: it has not computed that"};
}

}  // namespace hearth::coordinator
