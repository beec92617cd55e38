// An NVIDIA card as a Device. Only in builds with HEARTH_CUDA, and in the tests' emulation.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

#include "base/result.h"
#include "model/spec.h"
#include "node/engine/card/card_buffers.h"
#include "node/engine/card/card_context.h"
#include "node/engine/device.h"

namespace hearth::node {

struct CardOptions {
  std::uint32_t index = 0;  // among those of CUDA_VISIBLE_DEVICES
  // A sentence for the log: what will be taken, and what was.
  std::function<void(std::string_view)> say;
  std::function<void(std::uint64_t done, std::uint64_t all)> progress;  // bytes of the file
  // The card failed or does not answer: the process must end, and nothing of it may reach for the
  // card again, destructors included. On any thread, at most once a Device.
  std::function<void(const Error&)> on_lost;
  std::chrono::milliseconds step_limit = kCardStepLimit;
  std::size_t score_floats = kScoreFloats;
};

// kUnavailable, with the driver's words, where there is no driver or no such card; kUnsupported
// where this program has no code for a card of its compute capability.
Result<std::unique_ptr<Device>> open_card(const CardOptions& options);
// Whether open_card() would find such a card; takes nothing of it.
Status check_card(std::uint32_t index);

// What models of the family have that no card computes, to follow "with"; empty where a card
// computes them.
std::string_view what_no_card_computes(const model::FamilyTraits& family);

// Of `free` bytes of a card of `total`, what stages may take: all but a tenth of the card, and at
// least 1 GiB less.
std::uint64_t card_budget(std::uint64_t free, std::uint64_t total);

}  // namespace hearth::node
