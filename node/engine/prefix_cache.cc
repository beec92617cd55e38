#include "node/engine/prefix_cache.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "base/check.h"
#include "kernels/canonical.h"

namespace hearth::node {
namespace {

using kernels::kPageTokens;

// Tags of one length, so that no message of one kind equals one of another kind.
constexpr std::string_view kOwnTag = "hearth.own";
constexpr std::string_view kChainTag = "hearth.chn";
static_assert(kOwnTag.size() == kChainTag.size());

std::uint32_t pages_within(std::uint32_t pages, std::size_t row_bytes, std::uint64_t budget) {
  const std::uint64_t page = kPageTokens * (sizeof(Hash256) + row_bytes);
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(pages, budget / page));
}

Hash256 chain_of(const Hash256& parent, std::span<const Hash256> inputs) {
  INVARIANT(inputs.size() == kPageTokens, "a chain goes on by whole pages");
  Blake2b hash;
  hash.update(as_bytes(kChainTag));
  hash.update(parent.bytes);
  for (const Hash256& in : inputs) hash.update(in.bytes);
  return hash.finish();
}

// How many of both are equal, from the first on.
std::size_t common(std::span<const Hash256> one, std::span<const Hash256> other) {
  const auto [end, unused] = std::ranges::mismatch(one, other);
  return static_cast<std::size_t>(end - one.begin());
}

}  // namespace

Hash256 own_scope(SequenceId sequence) {
  Bytes bytes;
  ByteWriter writer(bytes);
  writer.append(as_bytes(kOwnTag));
  writer.write(sequence.value);
  return blake2b(bytes);
}

std::size_t PrefixCache::ChainHash::operator()(const Hash256& chain) const noexcept {
  std::size_t first = 0;
  std::memcpy(&first, chain.bytes.data(), sizeof(first));
  return first;
}

PrefixCache::PrefixCache(std::uint32_t pages, std::size_t row_bytes, std::uint64_t budget_bytes)
    : pages_(pages_within(pages, row_bytes, budget_bytes)),
      row_bytes_(row_bytes),
      inputs_(std::size_t{pages_} * kPageTokens),
      outputs_(std::size_t{pages_} * kPageTokens * row_bytes),
      kept_(pages_) {}

std::optional<std::size_t> PrefixCache::index(const BlockTable& table, Position position) const {
  const std::uint32_t at = position / kPageTokens;
  if (at >= table.size() || table[at] >= pages_) return std::nullopt;
  return std::size_t{table[at]} * kPageTokens + position % kPageTokens;
}

std::span<const Hash256> PrefixCache::inputs_of(std::uint32_t page, std::uint32_t rows) const {
  INVARIANT(page < pages_ && rows <= kPageTokens, "the page has room for its inputs");
  return {inputs_.data() + std::size_t{page} * kPageTokens, rows};
}

void PrefixCache::put_input(const BlockTable& table, Position position, const Hash256& in) {
  if (const auto at = index(table, position)) inputs_.data()[*at] = in;
}

void PrefixCache::put_output(const BlockTable& table, Position position, ByteSpan out) {
  INVARIANT(out.size() == row_bytes_, "a kept row has the width of the stage's output");
  const auto at = index(table, position);
  if (at) std::memcpy(outputs_.data() + *at * row_bytes_, out.data(), row_bytes_);
}

bool PrefixCache::came_in(const BlockTable& table, Position position, const Hash256& in) const {
  const auto at = index(table, position);
  return at && inputs_.data()[*at] == in;
}

ByteSpan PrefixCache::output(const BlockTable& table, Position position) const {
  const auto at = index(table, position);
  INVARIANT(at, "the table still holds the page of a replayed row");
  return {outputs_.data() + *at * row_bytes_, row_bytes_};
}

// A full page with only some known rows is taken only for the sequence that left it. It could
// belong to another conversation, which would lose it if the later rows differ.
std::optional<PrefixCache::Found> PrefixCache::take(const Hash256& chain, SequenceId sequence,
                                                    std::span<const Hash256> inputs,
                                                    bool may_share) {
  INVARIANT(!inputs.empty() && inputs.size() <= kPageTokens, "rows of one page are looked for");
  std::size_t most = 0;
  std::uint32_t best = 0;
  const auto [begin, end] = by_parent_.equal_range(chain);
  for (auto it = begin; it != end; ++it) {
    const std::uint32_t page = it->second;
    Page& one = kept_[page];
    const std::size_t same = common(inputs_of(page, one.rows), inputs);
    if (may_share && same == kPageTokens) {
      if (one.uses++ == 0) by_age_.erase(one.age);
      return Found{page, one.rows, one.chain};
    }
    const bool open_ended =
        one.rows < kPageTokens && same == std::min<std::size_t>(one.rows, inputs.size());
    const bool takes = one.uses == 0 && (open_ended || one.sequence == sequence);
    if (!takes || same <= most) continue;
    most = same;
    best = page;
  }
  if (most == 0) return std::nullopt;
  const Found found{best, kept_[best].rows, kept_[best].chain};
  remove(best);
  return found;
}

std::optional<std::uint32_t> PrefixCache::find_same(const Hash256& parent, std::uint32_t page,
                                                    std::uint32_t rows) const {
  const auto [begin, end] = by_parent_.equal_range(parent);
  const auto same = std::find_if(begin, end, [&](const auto& entry) {
    const std::uint32_t other = entry.second;
    return kept_[other].rows >= rows &&
           common(inputs_of(other, rows), inputs_of(page, rows)) == rows;
  });
  return same == end ? std::nullopt : std::optional(same->second);
}

void PrefixCache::enter(std::uint32_t page, const Hash256& parent, std::uint32_t rows,
                        SequenceId sequence) {
  Page& one = kept_[page];
  INVARIANT(one.rows == 0 && one.uses == 0 && rows > 0, "a page is kept once");
  one.parent = parent;
  one.rows = rows;
  one.sequence = sequence;
  if (rows == kPageTokens) one.chain = chain_of(parent, inputs_of(page, rows));
  one.age = next_age_++;
  by_age_.emplace(one.age, page);
  by_parent_.emplace(parent, page);
}

// Takes the page out of the cache; the caller owns it then.
void PrefixCache::remove(std::uint32_t page) {
  Page& one = kept_[page];
  INVARIANT(one.rows > 0 && one.uses == 0, "only an unused page leaves the cache");
  const auto [begin, end] = by_parent_.equal_range(one.parent);
  by_parent_.erase(std::find_if(begin, end, [&](const auto& at) { return at.second == page; }));
  by_age_.erase(one.age);
  one = {};
}

// Makes the page the most recently used one.
void PrefixCache::touch(std::uint32_t page) {
  Page& one = kept_[page];
  INVARIANT(one.rows > 0, "a page with an age is kept");
  if (one.uses > 0) return;
  by_age_.erase(one.age);
  one.age = next_age_++;
  by_age_.emplace(one.age, page);
}

// An open sequence does not hold the page any more.
void PrefixCache::leave(std::uint32_t page, PagePool& pool) {
  if (page >= pages_ || kept_[page].rows == 0) {
    BlockTable one{page};
    return pool.release(one);
  }
  Page& shared = kept_[page];
  INVARIANT(shared.uses > 0, "a kept page in a table is counted as used");
  if (--shared.uses > 0) return;
  shared.age = next_age_++;
  by_age_.emplace(shared.age, page);
}

void PrefixCache::shrink(BlockTable& table, Position positions, PagePool& pool) {
  const std::size_t left = (std::size_t{positions} + kPageTokens - 1) / kPageTokens;
  while (table.size() > left) {
    leave(table.back(), pool);
    table.pop_back();
  }
}

void PrefixCache::keep(SequenceId sequence, const Hash256& scope, BlockTable& table,
                       Position length, PagePool& pool) {
  INVARIANT(length <= table.size() * std::size_t{kPageTokens},
            "the pages hold the positions that are kept");
  std::vector<std::uint32_t> kept;
  Hash256 parent = scope;
  for (std::uint32_t i = 0; i < table.size() && i * kPageTokens < length; ++i) {
    const std::uint32_t page = table[i];
    if (page >= pages_) break;
    const std::uint32_t rows = std::min(length - i * kPageTokens, kPageTokens);
    std::uint32_t stays = page;
    if (kept_[page].rows > 0) {
      leave(page, pool);
    } else if (const auto same = find_same(parent, page, rows)) {
      stays = *same;
      leave(page, pool);
    } else {
      enter(page, parent, rows, sequence);
    }
    kept.push_back(stays);
    if (rows < kPageTokens) break;
    parent = kept_[stays].chain;
  }
  // Kept pages were already handled above.
  table.erase(table.begin(), table.begin() + static_cast<std::ptrdiff_t>(kept.size()));
  shrink(table, 0, pool);
  for (auto page = kept.rbegin(); page != kept.rend(); ++page) {
    kept_[*page].sequence = sequence;
    touch(*page);
  }
}

void PrefixCache::make_room(PagePool& pool) {
  if (pool.next() && *pool.next() >= pages_) evict(pool);
}

bool PrefixCache::evict(PagePool& pool) {
  if (by_age_.empty()) return false;
  const std::uint32_t page = by_age_.begin()->second;
  remove(page);
  BlockTable one{page};
  pool.release(one);
  return true;
}

}  // namespace hearth::node
