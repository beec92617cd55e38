// Cards of several kinds as a problem of placement: each card is a node, and its seconds are those
// of the roofline (placement/estimate/speed.h) in place of measured ones.
#pragma once

#include <cstdint>
#include <span>

#include "placement/estimate/cost.h"
#include "placement/estimate/speed.h"
#include "placement/problem.h"

namespace hearth::placement {

inline constexpr std::uint32_t kProblemRowsLeast = 2;  // of a batch: a problem has two measures

// `setup`: all but its card. Nodes are named "rtx4090-1" and stand in the machines in their order;
// a card that is a whole machine stands alone.
Problem problem_of(EstimateInput setup, std::span<const CardSet> sets);

}  // namespace hearth::placement
