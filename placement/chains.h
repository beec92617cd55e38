// Pipelines that share no node, for swarms of more nodes than the exact search takes. All pipelines
// have the same layer split, so that a node with a loaded range can replace a stage of any of them.
//
// A pipeline is as quick as its slowest stage. So its nodes should have similar speeds for their
// ranges, and each range needs as many nodes as there are pipelines. The candidates are the layer
// split of placement/ranges.h and, for every number P of pipelines, nodes in groups of P that are
// alike in speed and memory, each group with the range that minimises the slowest stage: exact for
// the groups and their order. The eight best candidates are made into pipelines by quickest routes
// (placement/route.h), one after the other, so that the quickest nodes of all ranges meet in the
// first pipelines.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "placement/problem.h"
#include "placement/replicas.h"
#include "placement/route.h"

namespace hearth::placement {

struct Chains {
  std::vector<LayerRange> ranges;       // of every pipeline, by stage
  std::vector<std::uint32_t> range_of;  // of each node; kNoRange: it holds none or is not used
  std::vector<Route> pipelines;         // the quickest first
  double all_tokens_per_second = 0.0;   // of all pipelines together, each with many streams
  double bound = 0.0;                   // upper bound for any placement of these nodes
};

// kInvalidInput and kNoCapacity as of plan_ranges. Maximises the throughput of all pipelines
// together, or for latency the rate of the quickest one, as best_alike(). Steps for n nodes and L
// layers: those of plan_ranges, and n L for each of n numbers of pipelines.
Result<Chains> plan_chains(const Problem& problem);

}  // namespace hearth::placement
