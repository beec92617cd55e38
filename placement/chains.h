// Swarms of more nodes than an exact search sees, as pipelines that share no node: all have the
// same cut, so that whoever has loaded a range stands in for a stage of any of them.
//
// A pipeline is as quick as its slowest stage, so that its nodes are to be of like speed for their
// ranges, and each range wants as many nodes as there are pipelines. Tried are the cut of
// placement/ranges.h and, for every number of pipelines, nodes in groups of so many, alike in speed
// and memory, each group with the range that makes the slowest of them as quick as can be: exact
// for the groups and their order. The eight that promise most are made into pipelines by the
// quickest way (placement/route.h), one after the other: the quickest nodes of all ranges come
// together first.
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
  std::vector<std::uint32_t> range_of;  // of each node; kNoRange: it holds none, or is not wanted
  std::vector<Route> pipelines;         // the quickest first
  double all_tokens_per_second = 0.0;   // of all pipelines together, each with many streams
  double bound = 0.0;                   // that no placement of these nodes exceeds
};

// kInvalidInput and kNoCapacity as of plan_ranges. For throughput the most of all pipelines
// together, for latency the quickest of them; within 2 % and 5 % the other figure decides. Steps
// for n nodes and L layers: those of plan_ranges, and n L for each of n numbers of pipelines.
Result<Chains> plan_chains(const Problem& problem);

}  // namespace hearth::placement
