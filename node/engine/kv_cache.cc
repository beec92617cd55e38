#include "node/engine/kv_cache.h"

#include <algorithm>
#include <new>

#include "proto/split.h"

namespace hearth::node {

namespace {

// A layer's share of a page.
std::size_t share_bytes(const kernels::KvLayout& layout) {
  constexpr std::size_t kAlignment = AlignedBuffer<std::byte>::kAlignment;
  static_assert(kAlignment == 64, "the kernels read pages that begin at a cache line");
  return (layout.page_bytes() + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

std::size_t KvCache::page_bytes(const std::vector<kernels::KvLayout>& layers) {
  std::size_t bytes = 0;
  for (const kernels::KvLayout& layer : layers) bytes += share_bytes(layer);
  return bytes;
}

Result<KvCache> KvCache::create(const std::vector<kernels::KvLayout>& layers,
                                std::size_t budget_bytes, std::uint32_t most_pages) {
  const std::size_t page_bytes = KvCache::page_bytes(layers);
  INVARIANT(!layers.empty() && most_pages != 0, "a KV cache has layers, and pages");
  const std::size_t fitting = page_bytes != 0 ? budget_bytes / page_bytes : most_pages;
  if (fitting == 0) {
    return Error::of(ErrorCode::kNoCapacity, "the KV budget of ", budget_bytes,
                     " bytes holds no page: one page of ", kernels::kPageTokens,
                     " positions takes ", page_bytes, " bytes for ", layers.size(), " layers");
  }
  const auto pages = static_cast<std::uint32_t>(std::min<std::size_t>(fitting, most_pages));
  try {
    KvCache cache(pages);
    cache.begins_.push_back(0);
    for (const kernels::KvLayout& layer : layers) {
      cache.begins_.push_back(cache.begins_.back() + share_bytes(layer));
    }
    cache.memory_ = AlignedBuffer<std::byte>(page_bytes * pages);
    return cache;
  } catch (const std::bad_alloc&) {
    return Error::of(ErrorCode::kNoCapacity, "no memory for ", pages, " KV pages of ", page_bytes,
                     " bytes; choose a smaller --kv-budget");
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
