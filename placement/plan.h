// The plan: the nodes of a pipeline with their layers, its predicted speed, the spare nodes with
// their reasons, and the changes that would make it quicker.
//
// For at most limits::kExactNodes nodes the plan is the best one of all orders and splits
// (placement/search.h; throughput with layers of different sizes may be a percent short for nearly
// so many nodes). Of splits that are as good it has an even one (placement/even.h). The
// alternatives that a spare or a change would give are searched exactly for up to 12 nodes; for
// more nodes and layers of different sizes they are the best of three orders. With more nodes the
// exact search considers limits::kExactNodes; the rest are spare, and spares that hold the model
// form pipelines of their own (plan_replicas). Ranges that pipelines share are in
// placement/ranges.h.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "placement/gain.h"
#include "placement/problem.h"
#include "placement/shortage.h"

namespace hearth::placement {

struct Plan {
  std::vector<Stage> stages;
  Prediction prediction;
  std::vector<Spare> spares;
};

// kInvalidInput where a number is out of its range; kNoCapacity where the nodes do not hold the
// model: shortage_of() has the reason.
Result<Plan> plan(const Problem& problem);

// The plan's stages alone, without the search for the reasons of spares.
Result<std::vector<Stage>> place(const Problem& problem);

// The plan, then a plan of its spares, and so on while the spares hold the model.
Result<std::vector<Plan>> plan_replicas(const Problem& problem);

// The stages of each of those plans, without the search for the reasons of spares.
Result<std::vector<std::vector<Stage>>> place_replicas(const Problem& problem);

// The changes that gain the most, each planned anew; at most kMaxGains, none that gains less than
// kMinGain.
std::vector<Gain> improvements(const Problem& problem, const Plan& plan);

}  // namespace hearth::placement
