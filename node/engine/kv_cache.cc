#include "node/engine/kv_cache.h"

#include <algorithm>
#include <new>
#include <string>

#include "proto/split.h"

namespace hearth::node {

std::size_t KvCache::page_bytes(std::uint32_t layers, kernels::KvLayout layout) {
  constexpr std::size_t kAlignment = AlignedBuffer<std::byte>::kAlignment;
  return (layout.page_bytes() + kAlignment - 1) / kAlignment * kAlignment * layers;
}

Result<KvCache> KvCache::create(std::uint32_t layers, kernels::KvLayout layout,
                                std::size_t budget_bytes, std::uint32_t most_pages) {
  KvCache cache;
  cache.layers_ = layers;
  cache.layer_bytes_ = KvCache::page_bytes(1, layout);
  const std::size_t page_bytes = cache.layer_bytes_ * layers;
  const std::size_t fitting = budget_bytes / page_bytes;
  if (fitting == 0) {
    return Error{ErrorCode::kNoCapacity, "the KV budget of " + std::to_string(budget_bytes) +
                                             " bytes holds no page: one page of " +
                                             std::to_string(kernels::kPageTokens) +
                                             " positions takes " + std::to_string(page_bytes) +
                                             " bytes for " + std::to_string(layers) + " layers"};
  }
  cache.pages_ = static_cast<std::uint32_t>(std::min<std::size_t>(fitting, most_pages));
  try {
    cache.memory_ = AlignedBuffer<std::byte>(page_bytes * cache.pages_);
    cache.free_.reserve(cache.pages_);
  } catch (const std::bad_alloc&) {
    return Error{ErrorCode::kNoCapacity, "no memory for " + std::to_string(cache.pages_) +
                                             " KV pages of " + std::to_string(page_bytes) +
                                             " bytes"};
  }
  for (std::uint32_t i = cache.pages_; i > 0; --i) cache.free_.push_back(i - 1);
  return cache;
}

bool KvCache::grow(BlockTable& table, std::uint32_t positions) {
  const std::uint32_t needed = pages_for(positions, kernels::kPageTokens);
  if (needed <= table.size()) return true;
  if (needed - table.size() > free_.size()) return false;
  while (table.size() < needed) {
    table.push_back(free_.back());
    free_.pop_back();
  }
  return true;
}

void KvCache::shrink(BlockTable& table, std::uint32_t positions) {
  const std::uint32_t kept = pages_for(positions, kernels::kPageTokens);
  while (table.size() > kept) {
    free_.push_back(table.back());
    table.pop_back();
  }
}

}  // namespace hearth::node
