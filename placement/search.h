// The exact placement search: which nodes form the pipeline, in which order and with which layers,
// for layers of any sizes and at most limits::kExactNodes nodes.
//
// Every pipeline is bounded from below by a relaxed one: the shortest path through its nodes, with
// the layers given to the quickest nodes as if layers could be divided anywhere within what each
// node holds. Where all layers have one size the relaxed pipeline is a real one, so that the best
// relaxed pipeline is the answer. Where sizes differ, the layers of one node decide what the next
// node holds, so that order and split are one search: for each first node over (set of nodes, last
// node, end of its layers), of which only those are visited whose bound is below the best pipeline
// known. Bounds of the remaining path price the remaining layers (a Lagrangian bound). A pipeline
// is known at the start: the same search with all layers taken as large as the largest, the mean
// and the smallest one gives three orders of nodes, and each order its best split.
//
// Steps for n nodes and L layers. Equal sizes: n 2^(n-1) sets with a first node, and in each about
// n^2 / 4 ends of paths: 30 million for 16 nodes, and as many for the splits. Different sizes: the
// same for the bounds, and where no bound ends a path n^2 2^(n-2) rows of up to n L / 2 steps each:
// 4 million rows for 16 nodes, which are all visited if need be, so that the minimum latency is
// always exact.
//
// Throughput adds 14 or so tests of whether a pace can be kept, of n^3 2^(n-3) steps each. Its pace
// is the minimum; where the time round the ring sets the pace, it is within one part in ten
// thousand of the minimum. With layers of different sizes the search for it stops after a million
// rows; then the best pipeline found counts. Of pipelines with equal layers and the same pace the
// one with the shortest ring is taken.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "placement/problem.h"

namespace hearth::placement {

enum class Effort : std::uint8_t {
  kExact,
  kOrders,  // with layers of different sizes only the three orders above, each with its best split
};

// Empty when no set of linked nodes holds the model. Every node in `required` (bit i: node i) takes
// part.
std::optional<std::vector<Stage>> search(const Problem& problem, std::uint32_t required = 0,
                                         Effort effort = Effort::kExact);

// The exact part of search() alone: the best pipeline, or `known` when no other is better. `known`
// must be a pipeline of the problem that fits; empty: no pipeline is known.
std::optional<std::vector<Stage>> search_from(const Problem& problem,
                                              std::optional<std::vector<Stage>> known,
                                              std::uint32_t required = 0);

// The best split of the layers over nodes in the order of `order`, whose layers are ignored. It
// minimises the sum of the stages' seconds for latency, and the slowest stage for throughput. Empty
// where no split fits into the nodes' memory. S L^2 / 2 steps for S stages and L layers.
std::vector<Stage> split_layers(const Problem& problem, const std::vector<Stage>& order);

}  // namespace hearth::placement
