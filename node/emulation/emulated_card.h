// EmulatedCard: a GPU that is not there. It computes nothing: a step takes the time that the
// roofline of placement/estimate gives for its rows on this card, and every row that leaves has the
// real size. Tokens spell "EMULATED", by their position, so that an answer can be compared and says
// what it is. The engine around it is the real one: sequences, KV pages, hashes and the prefix
// cache work as on a real GPU.
//
// As a rank of a group it takes the time of its heads and columns, and exchanges frames of the real
// size after each layer. What all ranks compute in whole takes each of them no time.
//
// It serves shapes without weights alone (check_emulation() of node/engine/device.h). Its name
// begins with EMULATED. A step of log probabilities or a grammar fails with kUnsupported, because
// there are no logits.
#pragma once

#include <functional>
#include <memory>

#include "base/clock.h"
#include "base/result.h"
#include "node/engine/device.h"
#include "placement/estimate/figures.h"

namespace hearth::node {

inline constexpr const char* kEmulated = "EMULATED";

// The clock and the sleep of its steps; tests give it others.
struct EmulationTime {
  const Clock& clock;
  std::function<void(TimePoint)> sleep_until;
};
EmulationTime real_time();

// kInvalidInput when the card lacks a figure that the roofline needs.
Result<std::unique_ptr<Device>> emulate_card(const placement::Card& card, EmulationTime time);

}  // namespace hearth::node
