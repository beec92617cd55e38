#include "node/engine/kv_cache.h"

#include <algorithm>
#include <new>
#include <string>

#include "proto/split.h"

namespace hearth::node {

std::size_t KvCache::page_bytes(std::uint32_t layers, kernels::KvLayout layout) {
  constexpr std::size_t kAlignment = AlignedBuffer<std::byte>::kAlignment;
  static_assert(kAlignment == 64, "the kernels read pages that begin at a cache line");
  return (layout.page_bytes() + kAlignment - 1) / kAlignment * kAlignment * layers;
}

Result<KvCache> KvCache::create(std::uint32_t layers, kernels::KvLayout layout,
                                std::size_t budget_bytes, std::uint32_t most_pages) {
  const std::size_t layer_bytes = KvCache::page_bytes(1, layout);
  const std::size_t page_bytes = layer_bytes * layers;
  INVARIANT(layer_bytes != 0 && most_pages != 0, "a KV cache has heads, and pages");
  const std::size_t fitting = layers != 0 ? budget_bytes / page_bytes : most_pages;
  if (fitting == 0) {
    return Error::of(ErrorCode::kNoCapacity, "the KV budget of ", budget_bytes,
                     " bytes holds no page: one page of ", kernels::kPageTokens,
                     " positions takes ", page_bytes, " bytes for ", layers, " layers");
  }
  const auto pages = static_cast<std::uint32_t>(std::min<std::size_t>(fitting, most_pages));
  try {
    KvCache cache(pages);
    cache.layers_ = layers;
    cache.layer_bytes_ = layer_bytes;
    cache.memory_ = AlignedBuffer<std::byte>(page_bytes * pages);
    return cache;
  } catch (const std::bad_alloc&) {
    return Error::of(ErrorCode::kNoCapacity, "no memory for ", pages, " KV pages of ", page_bytes,
                     " bytes");
  }
}

PagePool::PagePool(std::uint32_t pages) : pages_(pages) {
  free_.reserve(pages);
  for (std::uint32_t i = pages; i > 0; --i) free_.push_back(i - 1);
}

bool PagePool::grow(BlockTable& table, std::uint32_t positions) {
  const std::uint32_t needed = pages_for(positions, kernels::kPageTokens);
  if (needed <= table.size()) return true;
  if (needed - table.size() > free_.size()) return false;
  while (table.size() < needed) {
    INVARIANT(free_.back() < pages_, "a free page is one of the pool's");
    table.push_back(free_.back());
    free_.pop_back();
  }
  return true;
}

void PagePool::shrink(BlockTable& table, std::uint32_t positions) {
  const std::uint32_t kept = pages_for(positions, kernels::kPageTokens);
  while (table.size() > kept) {
    INVARIANT(table.back() < pages_ && free_.size() < pages_, "a page is given back once");
    free_.push_back(table.back());
    table.pop_back();
  }
}

}  // namespace hearth::node
