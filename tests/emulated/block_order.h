// What the blocks of a launch may know of each other. Blocks of a grid run in no order; one sees
// what another did only by a ticket:
//
//   the other   its accesses; a fence; an atomic addition whose result it looks at
//   this one    such an addition to the same word, later; a fence; its accesses
//
// where within each block the three steps are ordered: one thread's in turn, or a barrier between
// threads. An atomic operation whose result no thread reads orders nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

namespace hearth::emulated {

class BlockOrder;

// A thread at a moment.
struct Moment {
  std::uint32_t launch = 0;
  std::uint32_t block = 0;    // from 1 on, unique within the launch; 0: no block
  std::uint32_t barrier = 0;  // barriers of the block so far
  std::uint32_t meeting = 0;  // sync_warps of the warp so far
  std::uint16_t fences = 0;   // of the thread so far
  std::uint16_t thread = 0;
  const BlockOrder* order = nullptr;
};

// The latest accesses of a kind to one place: of one thread, of several of a warp, or of a block.
struct Event {
  static constexpr std::uint32_t kManyBlocks = 0xFFFFFFFFU;
  static constexpr std::uint16_t kWarps = 1024;  // and the warp: of several of its threads
  static constexpr std::uint16_t kMany = 0xFFFFU;

  std::uint32_t block = 0;
  std::uint32_t barrier = 0;
  std::uint32_t meeting = 0;
  std::uint16_t fences = 0;
  std::uint16_t thread = 0;

  bool operator==(const Event&) const = default;
  static Event at(const Moment& now);
  std::uint16_t warp() const;
  // Whether a barrier, a sync_warp or a ticket orders them before what `now` does, or one thread
  // does both.
  bool before(const Moment& now) const;
  // What is ordered before the new one needs no account of its own. Blocks that nothing orders
  // become kManyBlocks.
  void add(const Moment& now);
};

class BlockOrder {
 public:
  void begin_launch();
  void begin_block(std::uint32_t block, unsigned threads);
  void fence(unsigned thread, std::uint32_t barriers);
  void barrier();
  // An atomic addition whose result the thread looks at.
  void ticket(std::uintptr_t word, unsigned thread);
  std::uint16_t fences(unsigned thread) const { return fences_[thread]; }
  // Whether the running block's thread is ordered behind an event of another block.
  bool seen(const Event& event, unsigned thread) const;

  // Events of several blocks at one place, of which the numbers are given here.
  std::uint32_t new_crowd(const Event& first);
  std::vector<Event>& crowd(std::uint32_t number) { return crowds_[number]; }
  const std::vector<Event>& crowd(std::uint32_t number) const { return crowds_[number]; }

 private:
  // How many fences each thread had passed at a barrier.
  using Fences = std::shared_ptr<const std::vector<std::uint16_t>>;
  // What an atomic addition of `thread` hands to a thread that sees it.
  struct Release {
    unsigned thread = 0;
    std::uint16_t fences = 0;    // of that thread
    Fences at_barrier;           // of all, at the last barrier
    std::uint32_t barriers = 0;  // what came before so many of them, a later fence covers
    bool covers(const Event& event) const;
  };
  using Chain = std::map<std::uint32_t, Release>;  // of a word: the latest of each block
  bool holds(std::size_t chain, const Event& event) const;

  std::map<std::uintptr_t, std::size_t> words_;
  std::vector<Chain> chains_;
  std::vector<std::vector<Event>> crowds_;

  // Of the block that runs.
  std::uint32_t block_ = 0;
  std::vector<std::uint16_t> fences_;
  std::vector<std::uint32_t> fence_barriers_;  // of each thread's last fence
  std::vector<std::size_t> taken_;             // by each thread's last fence, of waiting_
  std::uint32_t fenced_ = 0;                   // barriers of the last fence before the last barrier
  std::uint32_t fencing_ = 0;                  // and of the last since
  bool any_fence_ = false;                     // since the last barrier
  Fences at_barrier_;
  using Seen = std::pair<unsigned, std::size_t>;  // thread and chain
  std::vector<Seen> tickets_;                     // since the last barrier, no fence behind yet
  std::vector<Seen> own_;                         // since the last barrier, a fence behind
  std::vector<std::size_t> waiting_;              // chains that a barrier gave to all threads
  std::size_t taken_by_all_ = 0;                  // of them
  std::vector<std::size_t> seen_;                 // with a fence and a barrier behind
};

}  // namespace hearth::emulated
