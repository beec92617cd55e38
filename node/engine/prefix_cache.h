// PrefixCache: KV pages of ended sequences, until other sequences need them, and the rows that a
// stage says again instead of computing them. It serves a new sequence that begins as an earlier
// one did, and an interrupted one that comes again after the loss of another stage.
//
// Beside every page stand the hash of each row's input and the residual of each row's output. A
// page is found by the inputs of all its rows and by the hash chain of all inputs before them,
// which begins with the sequence's scope: keys and values are a function of the inputs at this and
// all earlier positions (kernels/CANONICAL.md). So each stage finds pages by itself, a row whose
// input is another one is never taken for a kept one, and no scope finds a page of another.
//
// A full page may belong to any number of open sequences, and stays kept meanwhile. Any other page
// that is taken belongs to one sequence, which may go on in it. The page that was used least
// recently is evicted first, and a page after those that follow it in its chains.
//
// Not thread-safe. Memory is reserved at the start and backed where it is used: for each page 1 KiB
// of input hashes and the rows' outputs, and about 200 bytes that say where it stands.
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

// Of a sequence that has no other scope: only the same sequence finds what it left.
Hash256 own_scope(SequenceId sequence);

class PrefixCache {
 public:
  // `row_bytes`: of a row that goes out; 0 on the last stage. Where `budget_bytes` do not suffice
  // for all pages, the others are not kept.
  PrefixCache(std::uint32_t pages, std::size_t row_bytes, std::uint64_t budget_bytes);
  bool empty() const { return pages_ == 0; }  // there is no room for rows

  // Nothing happens for a position that the table does not hold any more.
  void put_input(const BlockTable& table, Position position, const Hash256& in);
  void put_output(const BlockTable& table, Position position, ByteSpan out);
  bool came_in(const BlockTable& table, Position position, const Hash256& in) const;
  ByteSpan output(const BlockTable& table, Position position) const;  // of one that came in

  struct Found {
    std::uint32_t page = 0;
    std::uint32_t rows = 0;  // positions whose keys and values it holds
    Hash256 chain;           // of its last row; for a full page
  };
  // Takes a page behind `chain` for a sequence whose next rows have these inputs, all that are
  // known of the page's. `may_share`: the sequence never cuts or changes this page. Rows behind the
  // known ones are to be compared as they come (came_in).
  std::optional<Found> take(const Hash256& chain, SequenceId sequence,
                            std::span<const Hash256> inputs, bool may_share);
  // Keeps what a sequence leaves: the pages of its first `length` positions. The table is empty
  // afterwards; what is not kept goes to the pool.
  void keep(SequenceId sequence, const Hash256& scope, BlockTable& table, Position length,
            PagePool& pool);
  // Gives back the pages that lie wholly behind the first `positions`.
  void shrink(BlockTable& table, Position positions, PagePool& pool);
  // For a sequence whose rows are to be kept: where the pool's next page has no room here, the page
  // that was used least recently comes before it.
  void make_room(PagePool& pool);
  // Gives the page that was used least recently to the pool; false when none is unused.
  bool evict(PagePool& pool);

  // Kept and of no open sequence: they count as free.
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
