// A request's route through a swarm: the stages that compute its layers, in order.
//
// Every offered stage is a vertex: its node and the boundary that it reaches. A route goes from
// layer 0 over stages that begin where the stage before ends, to the last layer and back to the
// first stage. Its length is the seconds of a token once round: each stage with its wait, and each
// link. The quickest route is found exactly: a shortest path over layers in their order
// for each first stage, in the order of their lower bounds, until no bound is below the best route.
#pragma once

#include <optional>
#include <vector>

#include "placement/problem.h"

namespace hearth::placement {

struct Route {
  std::vector<Stage> stages;
  double seconds = 0.0;  // of one token, once round
};

// Offers: no node twice, ranges inside the model. `waits`: seconds that a step waits at each offer
// before it is computed; empty: no waits. Nothing when no route closes the ring.
//
// With e pairs of stages that may follow each other it takes e steps, and e more for every first
// stage tried: one or two with equal links, at worst all.
std::optional<Route> quickest_route(const Problem& problem, const std::vector<Stage>& offers,
                                    const std::vector<double>& waits = {});

}  // namespace hearth::placement
