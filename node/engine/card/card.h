// An NVIDIA card as a Device. Only in builds with HEARTH_CUDA, and in the tests' emulation.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

#include "base/result.h"
#include "node/engine/device.h"

namespace hearth::node {

struct CardOptions {
  std::uint32_t index = 0;  // among those of CUDA_VISIBLE_DEVICES
  std::uint64_t memory_bytes =
      0;  // of the card's memory at most; 0: no other bound than card_budget
  // A sentence for the log: what will be taken, and what was.
  std::function<void(std::string_view)> say;
  std::function<void(std::uint64_t done, std::uint64_t all)> progress;  // bytes of the file
  // The card failed or does not answer: the process must end, and nothing of it may reach for the
  // card again, destructors included. On any thread, at most once an engine.
  std::function<void(const Error&)> on_lost;
  std::chrono::milliseconds step_limit{60'000};
};

// kUnavailable, with the driver's words, where there is no driver or no such card.
Result<std::unique_ptr<Device>> open_card(const CardOptions& options);

// Of `free` bytes of a card of `total`, what stages may take: all but a tenth of the card, and at
// least 1 GiB less.
std::uint64_t card_budget(std::uint64_t free, std::uint64_t total);

}  // namespace hearth::node
