// A request's route through a swarm: the stages that compute its layers, in order.
//
// Every offered stage is a vertex: its node and the boundary that it reaches. A route goes from
// layer 0 over stages that begin where the stage before ends, to the last layer and back to the
// first stage. Its length is the seconds of a token once round: each stage under its present load,
// and each link. The quickest route is found exactly: a shortest path over layers in their order
// for each first stage, in the order of their lower bounds, until no bound is below the best route.
//
// A request changes its route only for one that is better by a margin (hysteresis), so that it does
// not alternate between two similar ones: a change costs a replay of everything computed so far.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "placement/problem.h"

namespace hearth::placement {

// The present load of an offered stage.
struct Load {
  double wait_seconds = 0.0;  // a step waits in its queue
  double slowdown = 1.0;      // of its steps, relative to the idle node as measured
  std::uint64_t kv_tokens = std::numeric_limits<std::uint64_t>::max();  // positions that are free
  bool away = false;
};

struct Route {
  std::vector<Stage> stages;
  double seconds = 0.0;  // of one token, once round
};

// A route is changed where another takes less than 1 / (1 + margin) of its time.
constexpr double kRouteMargin = 0.2;

// Offers: no node twice, ranges inside the model. Loads: of each offer, or empty where nothing is
// loaded. Only stages with room for kv_tokens positions are used. Empty where no route goes all
// round.
//
// Steps: for e pairs of stages that may follow each other e, and as many again for every first
// stage that is tried: one or two where links are alike, at worst every one.
std::optional<Route> quickest_route(const Problem& problem, const std::vector<Stage>& offers,
                                    const std::vector<Load>& loads, std::uint64_t kv_tokens);

// The present seconds of a route; empty where a stage is not offered, or away, or not linked.
std::optional<double> route_seconds(const Problem& problem, const std::vector<Stage>& offers,
                                    const std::vector<Load>& loads,
                                    const std::vector<Stage>& stages);

// The held route with its present seconds, unless it is gone or another is better by the margin.
// Its stages have its positions already: they need no room.
std::optional<Route> keep_or_leave(const Problem& problem, const std::vector<Stage>& offers,
                                   const std::vector<Load>& loads, std::uint64_t kv_tokens,
                                   const Route& held, double margin = kRouteMargin);

}  // namespace hearth::placement
