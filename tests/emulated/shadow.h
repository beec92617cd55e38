// What is known of every byte of emulated memory: whether anybody has written it, and who touched
// it last in this launch. An access that no barrier orders after an earlier one of another thread
// is a fault, whatever order the threads happened to run in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace hearth::emulated {

// A thread at a moment. Two accesses are ordered when both are of one thread, when a barrier of the
// block lies between them, or, within a warp, a sync_warp.
struct Moment {
  std::uint32_t launch = 0;
  std::uint32_t block = 0;    // from 1 on, unique within the launch; 0 is nobody
  std::uint32_t barrier = 0;  // barriers of the block so far
  std::uint32_t meeting = 0;  // sync_warps of the warp so far
  std::uint16_t warp = 0;
  std::uint16_t thread = 0;
};

class Shadow {
 public:
  // `written`: the host has filled it. Memory that is not `writable` keeps no account of readers.
  Shadow(std::size_t bytes, bool written, bool writable);

  // Each gives null, or what is wrong with the access.
  const char* read(std::size_t at, std::size_t bytes, const Moment& now);
  const char* write(std::size_t at, std::size_t bytes, const Moment& now);
  // A step of an atomic operation: never in conflict with another one.
  const char* update(std::size_t at, std::size_t bytes, const Moment& now);
  // The destination of an asynchronous copy: nobody may touch it until `arrive`.
  const char* announce(std::size_t at, std::size_t bytes, const Moment& now);
  const char* arrive(std::size_t at, std::size_t bytes, const Moment& now);

  // The host's copies, between launches.
  void fill(std::size_t at, std::size_t bytes);
  bool filled(std::size_t at, std::size_t bytes) const;

  std::size_t size() const { return cells_.size(); }

 private:
  // The latest accesses of a kind; several threads of one warp, warps or blocks are kMany.
  struct Event {
    std::uint32_t block = 0;
    std::uint32_t barrier = 0;
    std::uint32_t meeting = 0;
    std::uint16_t warp = 0;
    std::uint16_t thread = 0;
    bool before(const Moment& now) const;
    void add(const Moment& now);
  };
  struct Cell {
    std::uint32_t launch = 0;
    bool written = false;
    bool pending = false;
    Event write;
    Event read;
    Event update;
  };
  Cell& cell_at(std::size_t at, const Moment& now);
  const char* overwrite(std::size_t at, std::size_t bytes, const Moment& now);
  std::vector<Cell> cells_;
  bool writable_;
};

}  // namespace hearth::emulated
