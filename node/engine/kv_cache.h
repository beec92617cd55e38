// KvCache: the paged pool of one stage. A page holds kernels::kPageTokens positions of one sequence
// for every layer of the stage that keeps keys and values. All memory is taken at the start; a
// sequence is a list of pages, and has a state where other layers keep one.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/check.h"
#include "base/result.h"
#include "kernels/kernels.h"

namespace hearth::node {

// Pages of one sequence, in the order of their positions.
using BlockTable = std::vector<std::uint32_t>;

// The free pages of a stage. A page is in the pool or in one block table, never in both.
class PagePool {
 public:
  PagePool() = default;
  explicit PagePool(std::uint32_t pages);

  // Makes `table` hold `positions` positions. False, and nothing taken, when too few are free.
  bool grow(BlockTable& table, std::uint32_t positions);
  // Gives back the pages that lie wholly behind the first `positions`.
  void shrink(BlockTable& table, std::uint32_t positions);
  void release(BlockTable& table) { shrink(table, 0); }

  // The page that the next growing table gets; nothing when no page is free.
  std::optional<std::uint32_t> next() const {
    return free_.empty() ? std::nullopt : std::optional(free_.back());
  }
  std::uint32_t pages() const { return pages_; }
  std::uint32_t pages_used() const { return pages_ - static_cast<std::uint32_t>(free_.size()); }

 private:
  std::uint32_t pages_ = 0;
  std::vector<std::uint32_t> free_;
};

// The free states of a stage. A state belongs to one open sequence, or to none.
class StatePool {
 public:
  explicit StatePool(std::uint32_t states) : states_(states) {
    free_.reserve(states);
    for (std::uint32_t i = states; i > 0; --i) free_.push_back(i - 1);
  }
  std::uint32_t states() const { return states_; }
  std::uint32_t used() const { return states_ - static_cast<std::uint32_t>(free_.size()); }

  // Nothing when all are taken.
  std::optional<std::uint32_t> take() {
    if (free_.empty()) return std::nullopt;
    const std::uint32_t state = free_.back();
    free_.pop_back();
    return state;
  }
  void give(std::uint32_t state) {
    INVARIANT(state < states_ && free_.size() < states_, "a state is given back once");
    free_.push_back(state);
  }

 private:
  std::uint32_t states_ = 0;
  std::vector<std::uint32_t> free_;
};

class KvCache : public PagePool {
 public:
  // For layers with these layouts: as many pages as fit `budget_bytes`, and never more than
  // `most_pages`. kNoCapacity, with the figures, when the budget or the memory does not hold one
  // page. Where no layer keeps keys and values, pages take no memory: they only count positions.
  static Result<KvCache> create(const std::vector<kernels::KvLayout>& layers,
                                std::size_t budget_bytes, std::uint32_t most_pages);

  // Bytes of one page: the least budget of a stage of these layers.
  static std::size_t page_bytes(const std::vector<kernels::KvLayout>& layers);

  // One layer's share of a page; `layer` counts from the stage's first.
  std::byte* page(std::uint32_t index, std::uint32_t layer) const {
    INVARIANT(index < pages() && layer + 1 < begins_.size(),
              "the page and the layer are the stage's");
    return memory_.data() + index * begins_.back() + begins_[layer];
  }

 private:
  explicit KvCache(std::uint32_t pages) : PagePool(pages) {}
  std::vector<std::size_t> begins_;  // of each layer's share in a page, and the page's end
  AlignedBuffer<std::byte> memory_;
};

}  // namespace hearth::node
