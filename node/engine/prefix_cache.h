// PrefixCache: KV pages of ended sequences, kept until other sequences need them, with the output
// of their rows. It serves a new sequence with the same beginning as an earlier one, and an
// interrupted sequence after the loss of another stage.
//
// Every page has the hash of each row's input and the residual of each row's output. A page is
// found by the inputs of all its rows and by the hash chain of all inputs before them, which begins
// with the sequence's scope: keys and values are a function of the inputs at this and all earlier
// positions (kernels/CANONICAL.md). So each stage finds pages by itself, a row with a different
// input never matches, and no scope finds a page of another scope.
//
// Any number of open sequences may share a page of which all rows are known; it stays kept
// meanwhile. Any other page leaves the cache when a sequence takes it, and belongs to that
// sequence, which may continue in it. The least recently used page is evicted first, but always
// after the pages that follow it in its chains.
//
// Not thread-safe. Memory is reserved at the start and backed when used: for each page 1 KiB of
// input hashes, the rows' outputs and about 200 bytes of bookkeeping.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/bytes.h"
#include "base/crypto.h"
#include "base/ids.h"
#include "node/engine/kv_cache.h"

namespace hearth::node {

// The scope of a sequence without one: only the same sequence finds its pages.
Hash256 own_scope(SequenceId sequence);

class PrefixCache {
 public:
  // `row_bytes`: bytes of an outgoing row; 0 on the last stage. Pages beyond `budget_bytes` are not
  // kept.
  PrefixCache(std::uint32_t pages, std::size_t row_bytes, std::uint64_t budget_bytes);
  bool empty() const { return pages_ == 0; }  // there is no room for rows

  // Does nothing for a position that the table no longer holds.
  void put_input(const BlockTable& table, Position position, const Hash256& in);
  void put_output(const BlockTable& table, Position position, ByteSpan out);
  // Whether the kept row at this position had this input; false when the table does not hold it.
  bool came_in(const BlockTable& table, Position position, const Hash256& in) const;
  // The kept row's output. Requires came_in() for this position.
  ByteSpan output(const BlockTable& table, Position position) const;

  struct Found {
    std::uint32_t page = 0;
    std::uint32_t rows = 0;  // positions whose keys and values it holds
    Hash256 chain;           // of its last row; for a full page
  };
  // Takes a kept page after `chain` for a sequence. `inputs`: the inputs of its next rows, as far
  // as they are known and within one page. Any sequence of the scope may take a partial page if all
  // its rows, or all of `inputs`, are equal; the sequence that left a page may take it if its first
  // row is equal. `may_share`: the sequence never truncates or changes this page, so a full page
  // with all inputs equal is shared; the result is otherwise removed from the cache. The page may
  // have further rows: the caller compares each row as it arrives (came_in). Nothing: no such page.
  std::optional<Found> take(const Hash256& chain, SequenceId sequence,
                            std::span<const Hash256> inputs, bool may_share);
  // Keeps the pages of an ended sequence's first `length` positions. The table is empty afterwards;
  // other pages go to the pool.
  void keep(SequenceId sequence, const Hash256& scope, BlockTable& table, Position length,
            PagePool& pool);
  // Gives back the pages that lie wholly behind the first `positions`.
  void shrink(BlockTable& table, Position positions, PagePool& pool);
  // For a sequence whose rows are to be kept: when the pool's next page has no room here, evicts
  // the least recently used page, which the pool then gives first.
  void make_room(PagePool& pool);
  // Gives the least recently used page to the pool; false when no kept page is unused.
  bool evict(PagePool& pool);

  // Kept pages that no open sequence uses; they count as free.
  std::uint32_t kept_pages() const { return static_cast<std::uint32_t>(by_age_.size()); }

 private:
  struct Page {
    Hash256 parent;          // chain of all rows before it
    Hash256 chain;           // of its last row, when it is full
    std::uint32_t rows = 0;  // 0: it is not kept
    std::uint32_t uses = 0;  // open sequences that share it
    std::uint64_t age = 0;   // in by_age_, while no sequence uses it
    SequenceId sequence;     // that left it last
  };
  struct ChainHash {
    std::size_t operator()(const Hash256& chain) const noexcept;
  };

  std::optional<std::size_t> index(const BlockTable& table, Position position) const;
  std::span<const Hash256> inputs_of(std::uint32_t page, std::uint32_t rows) const;
  std::optional<std::uint32_t> find_same(const Hash256& parent, std::uint32_t page,
                                         std::uint32_t rows) const;
  void enter(std::uint32_t page, const Hash256& parent, std::uint32_t rows, SequenceId sequence);
  void remove(std::uint32_t page);
  void leave(std::uint32_t page, PagePool& pool);
  void touch(std::uint32_t page);

  std::uint32_t pages_ = 0;  // with room here; those with higher numbers have none
  std::size_t row_bytes_ = 0;
  AlignedBuffer<Hash256> inputs_;
  AlignedBuffer<std::byte> outputs_;
  std::vector<Page> kept_;
  std::unordered_multimap<Hash256, std::uint32_t, ChainHash> by_parent_;
  std::map<std::uint64_t, std::uint32_t> by_age_;  // unused pages, the oldest first
  std::uint64_t next_age_ = 0;
};

}  // namespace hearth::node
