// Layer ranges with replicas, for swarms of more nodes than the exact search takes. All replicas of
// a range have the same boundaries, so that a stage of one route can replace that of another (swarm
// parallelism, Ryabinin et al. 2023), and a request takes the quickest route (placement/route.h; as
// clients of Petals do, Borzunov et al. 2023).
//
// For throughput the slowest range sets the pace, and the replicas of each range together should
// make it as quick as possible. For latency the route of one stream should be short.
//
// Exact: the layer split for one class of equal nodes, and for more classes the best one in which
// each range is of one class and the ranges of a class are neighbours (placement/classes.h); for
// one class the replicas of a split; the quickest route. For latency one of the splits is that of
// the exact search over the 16 quickest nodes (placement/plan.h).
// Heuristic: the range of each node where nodes differ (placement/replicas.h). Giving each machine
// to one of several ranges so that the slowest gets as much as possible is NP-hard (the Santa Claus
// problem), and the mixed-integer program that solves it takes minutes for 24 nodes (Helix, Mei et
// al. 2025). The splits that are tried are those of the classes, every number of equal ranges, and
// for throughput up to eight rounds of neighbours of the best one (a boundary moved, removed or
// added). Every plan states `bound`, a throughput that no placement of these nodes exceeds.
#pragma once

#include <cstdint>
#include <utility>
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
  Route route;                // the quickest, for one stream in an idle swarm
  // tokens_per_second is the route's; all_tokens_per_second the slowest range's; kv_tokens the sum
  // over the replicas of the range with the least room.
  Prediction prediction;
  double bound = 0.0;  // upper bound of all streams' tokens a second for any placement
  std::vector<Spare> spares;
};

// The index of the plan to take, from each plan's rates of one stream and of all streams. The
// objective's rate decides; among plans within 2 % of the best (5 % for latency) the other rate
// decides.
std::size_t best_alike(Objective objective, const std::vector<std::pair<double, double>>& rates);

// The offers of all replicas, for placement/route.h.
std::vector<Stage> offers_of(const std::vector<Range>& ranges);

// kInvalidInput where a number is out of its range; kNoCapacity where no layer split was found
// whose ranges the nodes hold and links join.
//
// Steps for n nodes and L layers: n^2 for the usual outgoing link of each; those of
// placement/classes.h; then for each of at most min(L, 64) + 2 splits into R ranges, and 4 R splits
// a round of neighbours, n R to give nodes to ranges, at most n^2 to move them, and n^2 / R for the
// quickest route, or n^3 / R^2 where all links are different. 200 million at most for 1,000 nodes,
// 80 layers and links that are alike; for latency an exact search is added.
Result<RangePlan> plan_ranges(const Problem& problem);

// The changes that gain the most, each planned anew; at most kMaxGains, none that gains less than
// kMinGain. After them, where the plan is for latency, what the same nodes give to all streams
// together with throughput as the objective (Gain::Change::kThroughput).
std::vector<Gain> improvements(const Problem& problem, const RangePlan& plan);

}  // namespace hearth::placement
