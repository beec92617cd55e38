// Placement: arrays of a stage one after the other in one allocation of the card. Without memory it
// only counts, so that the size is known before memory is taken.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/runtime.h"

namespace hearth::node {

class Placement {
 public:
  Placement() = default;
  explicit Placement(kernels::cuda::DeviceMemory& memory) : memory_(&memory) {}

  // Null while counting, and for zero elements.
  template <typename T>
  T* take(std::size_t count) {
    const std::size_t at = bytes_;
    const std::size_t bytes = count * sizeof(T);
    bytes_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
    if (memory_ == nullptr || count == 0) return nullptr;
    return reinterpret_cast<T*>(memory_->part(at, bytes));
  }
  std::uint64_t bytes() const { return bytes_; }

 private:
  static constexpr std::size_t kAlignment = 256;
  kernels::cuda::DeviceMemory* memory_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace hearth::node
