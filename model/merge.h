// The merging that byte-level BPE and SentencePiece share: of all adjacent pairs the one of the
// lowest rank, the leftmost of equals, becomes one, until no pair has a rank. A list of nodes and
// a heap of pairs: O(n log n).
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

namespace hearth::model {

inline constexpr std::uint32_t kNoRank = UINT32_MAX;
inline constexpr std::uint32_t kNoNode = UINT32_MAX;

struct MergeNode {
  std::uint32_t value = 0;       // the caller's: a symbol, or an offset in the text
  std::uint32_t rank = kNoRank;  // of the pair of this node and the next
  std::uint32_t prev = kNoNode;
  std::uint32_t next = kNoNode;
};

class MergeList {
 public:
  std::vector<MergeNode> nodes;  // the caller fills `value`; node 0 is always the first that lives

  // rank(left, right): the rank of two adjacent nodes or kNoRank; join(left, right): called when
  // they merge into `left`, before `right` leaves the list.
  template <typename Rank, typename Join>
  void run(Rank rank, Join join) {
    heap_.clear();
    const auto count = static_cast<std::uint32_t>(nodes.size());
    for (std::uint32_t i = 0; i < count; ++i) {
      nodes[i].prev = i == 0 ? kNoNode : i - 1;
      nodes[i].next = i + 1 == count ? kNoNode : i + 1;
    }
    for (std::uint32_t i = 0; i + 1 < count; ++i) {
      nodes[i].rank = rank(i, i + 1);
      if (nodes[i].rank != kNoRank) heap_.push_back(entry(i));
    }
    std::make_heap(heap_.begin(), heap_.end(), std::greater<>());
    while (!heap_.empty()) {
      std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
      const std::uint64_t top = heap_.back();
      heap_.pop_back();
      const auto left = static_cast<std::uint32_t>(top);
      // A pair that has changed since has another rank, and an entry of its own.
      if (nodes[left].rank != static_cast<std::uint32_t>(top >> 32)) continue;
      merge(left, rank, join);
    }
  }

 private:
  std::uint64_t entry(std::uint32_t left) const {
    return (std::uint64_t{nodes[left].rank} << 32) | left;
  }
  template <typename Rank>
  void renew(std::uint32_t left, Rank rank) {
    MergeNode& node = nodes[left];
    node.rank = node.next == kNoNode ? kNoRank : rank(left, node.next);
    if (node.rank == kNoRank) return;
    heap_.push_back(entry(left));
    std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
  }
  template <typename Rank, typename Join>
  void merge(std::uint32_t left, Rank rank, Join join) {
    MergeNode& node = nodes[left];
    const std::uint32_t right = node.next;
    join(left, right);
    node.next = nodes[right].next;
    nodes[right].rank = kNoRank;
    if (node.next != kNoNode) nodes[node.next].prev = left;
    renew(left, rank);
    if (node.prev != kNoNode) renew(node.prev, rank);
  }

  std::vector<std::uint64_t> heap_;  // rank << 32 | left node
};

}  // namespace hearth::model
