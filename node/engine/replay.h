// Replay: the rows that a stage keeps after it has computed them, so that it can send them again to
// the node that replaces a lost neighbour. Beside every KV page it holds the hash of each row's
// input and the residual of its output. Sequences of an ended epoch stay here with their pages,
// oldest first, until other sequences need the pages.
//
// A row is recognised by its input and not by its sequence: keys and values are a function of the
// inputs at this and all earlier positions (kernels/CANONICAL.md).
//
// Not thread-safe. Memory is reserved at the start and backed where it is used.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>

#include "base/bytes.h"
#include "base/crypto.h"
#include "base/ids.h"
#include "node/engine/aligned_buffer.h"
#include "node/engine/kv_cache.h"

namespace hearth::node {

class Replay {
 public:
  struct Kept {
    SequenceId sequence;
    Position length = 0;  // positions whose keys and values the pages hold
    BlockTable pages;
  };

  // `row_bytes`: of a row that goes out; 0 on the last stage. Where `budget_bytes` do not suffice
  // for all pages, rows of the others are computed again.
  Replay(std::uint32_t pages, std::size_t row_bytes, std::uint64_t budget_bytes);
  bool empty() const { return pages_ == 0; }  // there is no room for rows

  // Nothing happens for a position that the table does not hold any more.
  void put_input(const BlockTable& table, Position position, const Hash256& in);
  void put_output(const BlockTable& table, Position position, ByteSpan out);
  bool came_in(const BlockTable& table, Position position, const Hash256& in) const;
  ByteSpan output(const BlockTable& table, Position position) const;  // of one that came in

  void keep(Kept kept);
  std::optional<Kept> take(SequenceId sequence);
  std::optional<Kept> take_oldest();
  std::uint32_t kept_pages() const { return kept_pages_; }

 private:
  std::optional<std::size_t> index(const BlockTable& table, Position position) const;

  std::uint32_t pages_ = 0;  // with room here; those with higher numbers have none
  std::size_t row_bytes_ = 0;
  AlignedBuffer<Hash256> inputs_;
  AlignedBuffer<std::byte> outputs_;
  std::deque<Kept> kept_;
  std::uint32_t kept_pages_ = 0;
};

}  // namespace hearth::node
