// A GPU as a Device. Only in builds with HEARTH_CUDA or HEARTH_OPENCL, and in the tests' emulation.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

#include "base/result.h"
#include "node/engine/card/card_buffers.h"
#include "node/engine/card/card_context.h"
#include "node/engine/device.h"

namespace hearth::node {

struct CardOptions {
  std::uint32_t index = 0;  // as kernels/cuda/runtime.h counts
  // Gets sentences for the log: the memory to be taken, and the memory taken.
  std::function<void(std::string_view)> say;
  std::function<void(std::uint64_t done, std::uint64_t all)> progress;  // bytes of the file
  // Called when the GPU failed or does not answer. The process must end without another call to the
  // GPU, destructors included. On any thread, at most once a Device.
  std::function<void(const Error&)> on_lost;
  std::chrono::milliseconds step_limit = kCardStepLimit;
  std::size_t score_floats = kScoreFloats;
};

// kUnavailable, with the driver's message, without a driver or such a GPU; kUnsupported when this
// program has no code for its compute capability.
Result<std::unique_ptr<Device>> open_card(const CardOptions& options);
// Whether open_card() would find such a GPU; takes no memory of it.
Status check_card(std::uint32_t index);

// The memory that stages may take of `free` bytes on a GPU of `total`. It leaves a tenth of the
// GPU's memory, and at least 1 GiB.
std::uint64_t card_budget(std::uint64_t free, std::uint64_t total);

}  // namespace hearth::node
