#include "node/engine/ranks/exchange.h"

#include <algorithm>

#include "base/check.h"

namespace hearth::node {

Status check_group(const model::ModelSpec& spec, const RankGroup& group) {
  REQUIRE(group.rank < group.shares.size(), "rank ", group.rank, " is not in its group of ",
          group.shares.size(), " ranks");
  REQUIRE(group.exchange != nullptr, "rank ", group.rank, " has no exchange with its group");
  REQUIRE(group.pages >= 1, "the KV pages of a group are 0: at least 1 is needed");
  return check_shares(spec, group.shares);
}

Status agree(const RankGroup& group, const Hash256& decided) {
  const std::size_t ranks = group.shares.size();
  if (ranks < 2) return ok_status();
  std::vector<Hash256> said(ranks, decided);
  std::vector<ByteSpan> out(ranks);
  std::vector<MutableByteSpan> in(ranks);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    if (rank == group.rank) continue;
    out[rank] = decided.bytes;
    in[rank] = said[rank].bytes;
  }
  TRY_VOID(group.exchange->swap(out, in));
  const auto alike = static_cast<std::size_t>(std::ranges::count(said, decided));
  if (alike == ranks) return ok_status();
  constexpr const char* kWhy =
      "decided to compute other rows, or has other KV pages, than its group: its program or its "
      "memory is at fault; take it out of the group";
  // The one that most ranks differ from. Of two ranks, each finds the other.
  if (2 * alike < ranks) return Error::invalid("rank ", group.rank, " ", kWhy);
  const auto other = std::ranges::find_if(said, [&](const Hash256& one) { return one != decided; });
  return group.exchange->blame(static_cast<std::uint32_t>(other - said.begin()), kWhy);
}

}  // namespace hearth::node
