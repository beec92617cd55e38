// CardGraphs: CUDA graphs of the shapes of step that a card has run lately. The driver takes a
// graph's memory beyond the stage's own. So the number and bytes of kept graphs stay within the
// reserve of card_budget(); the least recently used one is dropped first.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>

#include "base/result.h"
#include "kernels/cuda/runtime.h"

namespace hearth::node {

class CardGraphs {
 public:
  static constexpr std::size_t kMost = 64;
  static constexpr std::uint64_t kBytesMost = 256 << 20;

  // The host's calls are the same in all steps of one shape.
  struct Shape {
    std::uint32_t arrays = 0;  // which step arrays
    std::uint32_t rows = 0;
    std::uint32_t pages = 0;
    std::uint32_t local_pages = 0;
    friend bool operator==(const Shape&, const Shape&) = default;
  };
  struct Count {
    std::uint64_t made = 0;     // since load
    std::uint64_t dropped = 0;  // of those
    std::uint32_t kept = 0;
    std::uint64_t bytes = 0;  // of the kept graphs: the loss of free GPU memory when they were made
  };

  // Queues `calls` on `stream`: directly the first time of a shape, which loads its kernels, then
  // as a graph. Once the driver has no memory for a graph, all are freed and no more are made.
  Status run(const Shape& shape, kernels::cuda::Stream stream,
             const std::function<Status()>& calls);
  const Count& count() const { return count_; }

 private:
  struct Slot {
    Shape shape;
    kernels::cuda::OwnedGraph graph;
    std::uint64_t bytes = 0;
    std::uint64_t used = 0;  // number of the run; 0: free
  };

  Slot& slot_of(const Shape& shape);
  Slot* oldest_graph(const Slot& but);
  Status make(Slot& slot, kernels::cuda::Stream stream, const std::function<Status()>& calls);
  void drop(Slot& slot);

  std::array<Slot, kMost> slots_;
  std::uint64_t runs_ = 0;
  bool makes_ = true;
  Count count_;
};

}  // namespace hearth::node
