// Swarms of more nodes than an exact search sees: the model is cut into ranges, and every range has
// replicas. All replicas of a range have the same boundaries, so that a stage of one way through
// the swarm stands in for that of another (swarm parallelism, Ryabinin et al. 2023), and a request
// takes the quickest way (placement/route.h; as clients of Petals do, Borzunov et al. 2023).
//
// For throughput the slowest range sets the pace: the replicas of each together make it as quick as
// can be. For latency the way of one stream is to be short. Of cuts that are within 2 % of the best
// throughput, or within 5 % of the shortest way, the other figure decides.
//
// Exact: the cut for one class of equal nodes, and for more classes the best cut in which each
// range is of one class and a class's ranges are neighbours (placement/classes.h); for one class
// the replicas of a cut; the quickest way. For latency one of the cuts is that of the exact search
// over the 16 quickest nodes (placement/plan.h).
// Heuristic: which nodes replicate which range, where they differ: to give each machine to one of
// several ranges so that the slowest gets the most is NP-hard (the Santa Claus problem), and the
// mixed-integer program that solves it takes minutes for 24 nodes (Helix, Mei et al. 2025). Here
// those that hold the fewest ranges choose first, the quickest before the others, each the range
// that has least; then nodes move to the slowest range while that gains. The cuts that are tried
// are the classes', every number of equal ranges, and for throughput up to eight rounds of those
// beside the best (a boundary moved, taken away or added). What may be lost is said with every
// plan: `bound`, the throughput that no placement of these nodes exceeds.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "placement/plan.h"
#include "placement/problem.h"
#include "placement/route.h"

namespace hearth::placement {

struct Range {
  LayerRange layers;
  std::vector<std::uint32_t> nodes;    // its replicas, ascending
  double all_tokens_per_second = 0.0;  // of all of them together
};

struct RangePlan {
  std::vector<Range> ranges;  // neighbours, from layer 0 to the last
  Route way;                  // the quickest of one stream, with nothing else loaded
  // tokens_per_second is the way's; all_tokens_per_second the slowest range's; kv_tokens of all
  // replicas of the range with the least room.
  Prediction prediction;
  double bound = 0.0;  // tokens a second of all streams that no placement exceeds
  std::vector<Spare> spares;
};

// What every node offers to route.h.
std::vector<Stage> offers_of(const std::vector<Range>& ranges);

// kInvalidInput where a number is out of its range; kNoCapacity where no cut was found whose ranges
// nodes hold and links join.
//
// Steps for n nodes and L layers: n^2 for the usual way out of each; the cuts of
// placement/classes.h; then for each of at most min(L, 64) + 2 cuts of R ranges, and 4 R a round of
// those beside one, n R to give nodes to ranges, at most n^2 to move them, and n^2 / R for the
// quickest way, or n^3 / R^2 where all ways are different. 200 million at most for 1,000 nodes, 80
// layers and links that are alike; for latency an exact search is added.
Result<RangePlan> plan_ranges(const Problem& problem);

// The plan after `node` came, which the problem has and the plan has not. Nothing that runs
// changes: the joiner becomes a further replica of the slowest range that it holds, or a spare. So
// neither figure of the plan gets worse.
RangePlan joined(const Problem& problem, const RangePlan& plan, std::uint32_t node);

// The changes that gain the most, each planned anew; at most kMaxGains, none that gains less than
// kMinGain. After them, where the plan is for latency, what the same nodes give to all streams
// together with throughput as the objective (Gain::Change::kThroughput).
std::vector<Gain> improvements(const Problem& problem, const RangePlan& plan);

}  // namespace hearth::placement
