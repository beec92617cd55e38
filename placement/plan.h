// The plan: which nodes form a pipeline, what it will do, who is spare and why, and what would make
// it quicker.
//
// For at most limits::kExactNodes nodes the plan is the best one of all orders and splits, by
// placement/search.h where layers have equal sizes and by placement/uneven.h where they differ (for
// throughput of nearly so many nodes it may give up, and be a percent or so short: see there).
// Then what a spare or a change would give is exact for up to 12 nodes; of more it is the best of
// the orders for equal layers, split by the sizes as they are. Of more nodes the exact search sees
// limits::kExactNodes; the rest are spare, and spares that hold the model form pipelines of their
// own (plan_replicas). Ranges that pipelines share are in placement/ranges.h, the way of a request
// by live load in placement/route.h.
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

// kInvalidInput where a number is out of its range; kNoCapacity, with what is wanted and what there
// is, where the nodes do not hold the model.
Result<Plan> plan(const Problem& problem);

// The plan's stages without its words: no spare says why.
Result<std::vector<Stage>> place(const Problem& problem);

// The plan, then one of its spares, and so on while they hold the model.
Result<std::vector<Plan>> plan_replicas(const Problem& problem);

// The changes that gain the most, each planned anew; at most kMaxGains, none that gains less than
// kMinGain.
std::vector<Gain> improvements(const Problem& problem, const Plan& plan);

}  // namespace hearth::placement
