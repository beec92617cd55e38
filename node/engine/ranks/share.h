// Share: what one rank of a group holds of a stage (CANONICAL.md, "Ranks"). A group computes the
// layers of its stage together. The shares of its ranks follow each other in the order of the ranks
// and are together the whole; a share may be empty.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "model/spec.h"

namespace hearth::node {

// Indices [begin, end).
struct IndexRange {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
  std::uint32_t size() const { return end - begin; }
  bool holds(std::uint32_t index) const { return begin <= index && index < end; }
  friend bool operator==(const IndexRange&, const IndexRange&) = default;
};

// The ends of `columns`, `hidden` and `vocabulary` are multiples of kShareUnit, or the whole's end.
struct Share {
  IndexRange kv_heads;    // with the query heads that read them, and their rows of attn_q, k and v
  IndexRange columns;     // of the feed-forward, or of each expert: rows of ffn_gate and ffn_up
  IndexRange hidden;      // values of the residual: rows of attn_output and ffn_down
  IndexRange vocabulary;  // tokens: rows of the embedding and of the head
  // Each rank of the group has all rows of attn_output, so that no exchange follows that product.
  bool whole_attention_output = false;
  friend bool operator==(const Share&, const Share&) = default;
};

inline constexpr std::uint32_t kShareUnit = kernels::kBlock;
// An attn_output with at most so many weights is whole on each rank: computing all of its rows
// takes less time than an exchange over a network, and little memory.
inline constexpr std::uint64_t kWholeOutput = std::uint64_t{1} << 22;

// The shares of a group of ranks with these speeds, which have any unit and may be 0. Each end is
// rounded to the nearest unit, so that a share is within one unit of its rank's part of the speed.
// An attn_output with more than `whole_output` weights is divided.
// kInvalidInput for no rank, too many or no speed at all; kUnsupported as check_shares().
Result<std::vector<Share>> divide(const model::ModelSpec& spec,
                                  std::span<const std::uint32_t> speeds,
                                  std::uint64_t whole_output = kWholeOutput);

// kInvalidInput names the rank whose share does not begin where the one before ends, ends inside a
// unit, or divides attn_output where others do not; kUnsupported a family that groups do not
// compute.
Status check_shares(const model::ModelSpec& spec, std::span<const Share> shares);

// The model as a rank sees it: with its own heads, and columns of the feed-forward, alone. Its
// residual and its vocabulary stay whole.
model::ModelSpec narrowed(const model::ModelSpec& spec, const Share& share);

}  // namespace hearth::node
