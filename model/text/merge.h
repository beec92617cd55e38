// The merging that byte-level BPE and SentencePiece share. It repeatedly joins the adjacent pair of
// the lowest rank, the leftmost of equals, until no pair has a rank. It uses a list of nodes and a
// heap of pairs, O(n log n). For long texts, a heap holds only the pairs that are due now, and
// lists hold those of later ranks, because a heap of millions of pairs misses the cache at every
// step.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "base/check.h"

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
  // they merge into `left`, before `right` leaves the list. The result is the same in all three.
  template <typename Rank, typename Join>
  void run(Rank rank, Join join) {
    if (nodes.size() < kLong) {
      run_short(rank, join);
    } else {
      run_long(rank, join);
    }
  }

  template <typename Rank, typename Join>
  void run_short(Rank rank, Join join) {
    link(rank);
    due_ = kNoRank;  // everything is: a heap of all pairs
    for (std::uint32_t i = 0; i + 1 < nodes.size(); ++i) {
      if (nodes[i].rank != kNoRank) heap_.push_back(entry(i));
    }
    std::make_heap(heap_.begin(), heap_.end(), std::greater<>());
    while (!heap_.empty()) merge(pop(), rank, join);
  }

  template <typename Rank, typename Join>
  void run_long(Rank rank, Join join) {
    link(rank);
    for (std::uint32_t i = 0; i + 1 < nodes.size(); ++i) {
      if (nodes[i].rank != kNoRank) later_[nodes[i].rank].push_back(i);
    }
    while (!later_.empty()) {
      due_ = later_.begin()->first;
      std::vector<std::uint32_t> lefts = std::exchange(later_.begin()->second, {});
      later_.erase(later_.begin());
      if (!std::is_sorted(lefts.begin(), lefts.end())) std::sort(lefts.begin(), lefts.end());
      for (const std::uint32_t left : lefts) {
        const std::uint64_t next = (std::uint64_t{due_} << 32) | left;
        while (!heap_.empty() && heap_.front() < next) merge(pop(), rank, join);
        merge(next, rank, join);
      }
      while (!heap_.empty()) merge(pop(), rank, join);
    }
  }

 private:
  static constexpr std::size_t kLong = 8192;  // nodes; their heap is as large as a first cache

  template <typename Rank>
  void link(Rank rank) {
    heap_.clear();
    later_.clear();
    INVARIANT(nodes.size() < kNoNode, "nodes have numbers of 32 bits");
    const auto count = static_cast<std::uint32_t>(nodes.size());
    for (std::uint32_t i = 0; i < count; ++i) {
      nodes[i].prev = i == 0 ? kNoNode : i - 1;
      nodes[i].next = i + 1 == count ? kNoNode : i + 1;
    }
    for (std::uint32_t i = 0; i + 1 < count; ++i) nodes[i].rank = rank(i, i + 1);
  }
  std::uint64_t pop() {
    std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
    const std::uint64_t top = heap_.back();
    heap_.pop_back();
    return top;
  }
  std::uint64_t entry(std::uint32_t left) const {
    return (std::uint64_t{nodes[left].rank} << 32) | left;
  }
  template <typename Rank>
  void renew(std::uint32_t left, Rank rank) {
    MergeNode& node = nodes[left];
    node.rank = node.next == kNoNode ? kNoRank : rank(left, node.next);
    if (node.rank == kNoRank) return;
    if (node.rank > due_) return later_[node.rank].push_back(left);
    heap_.push_back(entry(left));
    std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
  }
  template <typename Rank, typename Join>
  void merge(std::uint64_t pair, Rank rank, Join join) {
    const auto left = static_cast<std::uint32_t>(pair);
    MergeNode& node = nodes[left];
    // A pair that has changed since has another rank, and an entry of its own.
    if (node.rank != static_cast<std::uint32_t>(pair >> 32)) return;
    const std::uint32_t right = node.next;
    INVARIANT(right != kNoNode && node.rank != kNoRank, "a pair with a rank has two nodes");
    join(left, right);
    node.next = nodes[right].next;
    INVARIANT(nodes[right].prev == left, "neighbours know each other");
    nodes[right].rank = kNoRank;
    if (node.next != kNoNode) nodes[node.next].prev = left;
    renew(left, rank);
    if (node.prev != kNoNode) renew(node.prev, rank);
  }

  std::vector<std::uint64_t> heap_;  // rank << 32 | left node, of ranks up to due_
  std::uint32_t due_ = kNoRank;
  std::map<std::uint32_t, std::vector<std::uint32_t>> later_;  // left nodes by rank
};

}  // namespace hearth::model
