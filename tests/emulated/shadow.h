// What is known of every byte of emulated memory: whether anybody has written it, and who touched
// it last in this launch. An access that nothing orders after an earlier one of another thread is a
// fault, whatever order the threads happened to run in: within a block a barrier orders, within a
// warp a sync_warp too, between blocks a ticket (block_order.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>

#include "tests/emulated/block_order.h"

namespace hearth::emulated {

// Of atomic operations those of one kind may meet in any order, but for exchanges of unlike values.
enum class Update : std::uint8_t { kAdd, kMax, kOr, kExchange };

class Shadow {
 public:
  // `written`: the host has filled it. Memory that is not `writable` keeps no account of readers.
  Shadow(std::size_t bytes, bool written, bool writable);

  // Each gives null, or what is wrong with the access.
  const char* read(std::size_t at, std::size_t bytes, const Moment& now);
  const char* write(std::size_t at, std::size_t bytes, const Moment& now);
  // An atomic operation. `changes`: the value that was there.
  const char* update(std::size_t at, std::size_t bytes, Update kind, bool changes, Moment now,
                     BlockOrder& order);
  // The updating thread looks at the value that it found, and so comes after all earlier ones.
  void look(std::size_t at, std::size_t bytes, const Moment& now);
  // The destination of an asynchronous copy: no thread may touch it until `arrive`.
  const char* announce(std::size_t at, std::size_t bytes, const Moment& now);
  const char* arrive(std::size_t at, std::size_t bytes, const Moment& now);

  // The host's copies, between launches.
  void fill(std::size_t at, std::size_t bytes);
  bool filled(std::size_t at, std::size_t bytes) const;

  std::size_t size() const { return bytes_; }

 private:
  struct Cell {
    std::uint32_t launch = 0;
    bool written = false;
    bool pending = false;
    Update kind = Update::kAdd;  // of the latest updates
    Event write;
    Event read;
    Event update;  // of several blocks: kManyBlocks, and `barrier` is the number of their crowd
  };
  static void join(Event& event, const Moment& now, BlockOrder& order);
  static bool updates_before(const Cell& cell, const Moment& now);
  static bool repeats(const Cell& cell, const Cell& before);
  Cell& cell_at(std::size_t at, const Moment& now);
  const char* overwrite(std::size_t at, std::size_t bytes, const Moment& now);
  struct Free {
    void operator()(Cell* cells) const { std::free(cells); }
  };
  // By byte. The system gives memory for a cell when it is first touched, as most of a KV cache
  // never is.
  std::unique_ptr<Cell[], Free> cells_;
  std::size_t bytes_;
  bool writable_;
};

}  // namespace hearth::emulated
