#include "node/emulation/emulated_ranks.h"

#include <algorithm>
#include <vector>

#include "base/check.h"

namespace hearth::node {
namespace {

// Int8 values with a scale for each block.
std::uint64_t quantised_row(std::uint64_t values) {
  return values + values / kernels::kBlock * sizeof(float);
}

}  // namespace

Status EmulatedRanks::embeddings(std::uint32_t rows) {
  return swap(rows, [&](const Share& share) {
    // The rank that holds a token sends all of its row; which one it is does not matter here.
    return &share == group_.shares.data() ? sizeof(std::uint16_t) * spec_.hidden : 0;
  });
}

Status EmulatedRanks::layer(std::uint32_t rows) {
  const std::uint64_t head = spec_.heads / spec_.kv_heads * spec_.head_dim;
  const std::uint64_t experts = std::max(1U, spec_.experts_used);
  TRY_VOID(
      swap(rows, [&](const Share& share) { return quantised_row(share.kv_heads.size() * head); }));
  if (!group_.own().whole_attention_output) {
    TRY_VOID(swap(rows, [](const Share& share) { return sizeof(float) * share.hidden.size(); }));
  }
  TRY_VOID(swap(rows,
                [&](const Share& share) { return experts * quantised_row(share.columns.size()); }));
  return swap(rows, [](const Share& share) { return sizeof(std::uint16_t) * share.hidden.size(); });
}

Status EmulatedRanks::logits(std::uint32_t rows) {
  return swap(
      rows, [](const Share& share) { return sizeof(float) * share.vocabulary.size(); }, false);
}

Status EmulatedRanks::swap(std::uint32_t rows, const BytesOf& bytes_of, bool to_all) {
  const std::size_t ranks = group_.shares.size();
  std::vector<std::uint64_t> sizes;
  std::uint64_t all = 0;
  for (const Share& share : group_.shares) all += sizes.emplace_back(rows * bytes_of(share));
  out_.resize(std::max<std::size_t>(out_.size(), sizes[group_.rank]));
  in_.resize(std::max<std::size_t>(in_.size(), all));
  std::vector<ByteSpan> out(ranks);
  std::vector<MutableByteSpan> in(ranks);
  std::size_t at = 0;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    if (rank == group_.rank) continue;
    if (to_all || rank == 0) out[rank] = ByteSpan(out_).first(sizes[group_.rank]);
    if (!to_all && group_.rank != 0) continue;
    in[rank] = MutableByteSpan(in_).subspan(at, sizes[rank]);
    at += sizes[rank];
  }
  INVARIANT(at <= in_.size(), "there is room for what all ranks send");
  return group_.exchange->swap(out, in);
}

}  // namespace hearth::node
