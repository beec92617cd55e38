// KvCache: the paged pool of one stage. A page holds kernels::kPageTokens positions of one sequence
// for every layer of the stage. All memory is taken at the start; a sequence is a list of pages.
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

class KvCache : public PagePool {
 public:
  // As many pages as fit `budget_bytes`, and never more than `most_pages`. kNoCapacity, with the
  // figures, when the budget does not hold one page, or the memory of all pages cannot be had.
  static Result<KvCache> create(std::uint32_t layers, kernels::KvLayout layout,
                                std::size_t budget_bytes, std::uint32_t most_pages);

  // Bytes of one page: the least budget of a stage of so many layers.
  static std::size_t page_bytes(std::uint32_t layers, kernels::KvLayout layout);

  // One layer's share of a page; `layer` counts from the stage's first one.
  std::byte* page(std::uint32_t index, std::uint32_t layer) const {
    INVARIANT(index < pages() && layer < layers_, "the page and the layer are the stage's");
    return memory_.data() + (std::size_t{index} * layers_ + layer) * layer_bytes_;
  }

 private:
  explicit KvCache(std::uint32_t pages) : PagePool(pages) {}
  std::uint32_t layers_ = 0;
  std::size_t layer_bytes_ = 0;
  AlignedBuffer<std::byte> memory_;
};

}  // namespace hearth::node
