// A request's way through a swarm: which stage computes its layers up to which boundary.
//
// Every stage on offer is a vertex, its node and the boundary that it reaches; a way goes from
// layer 0 over stages that begin where the one before ends, to the last layer and back to the first
// stage. Its length is the seconds of a token once round: each stage as it is loaded now, and each
// link. The quickest way is found exactly (a shortest path over layers in their order, once for a
// first stage, in the order of what each could give at best; it ends when none can be better).
//
// A way is left only for one that is better by a margin, so that two that are alike do not take
// turns (hysteresis): moving costs a replay of everything that was computed.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "placement/problem.h"

namespace hearth::placement {

// Of a stage on offer, now.
struct Load {
  double wait_seconds = 0.0;  // a step's, until its own turn comes
  double slowdown = 1.0;      // of its steps, against what was measured on the idle node
  std::uint64_t kv_tokens = std::numeric_limits<std::uint64_t>::max();  // positions that are free
  bool away = false;
};

struct Route {
  std::vector<Stage> stages;
  double seconds = 0.0;  // of one token, once round
};

// A way is left where another takes less than 1 / (1 + margin) of its time.
constexpr double kRouteMargin = 0.2;

// Offers: no node twice, ranges inside the model. Loads: of each offer, or empty where nothing is
// loaded. Only stages with room for so many positions are taken. Null where no way goes all round.
//
// Steps: for e pairs of stages that may follow each other e, and as many again for every first
// stage that is tried: one or two where links are alike, at worst every one.
std::optional<Route> quickest_route(const Problem& problem, const std::vector<Stage>& offers,
                                    const std::vector<Load>& loads, std::uint64_t kv_tokens);

// What the stages of this way take now; null where one is not on offer, or away, or not linked.
std::optional<double> route_seconds(const Problem& problem, const std::vector<Stage>& offers,
                                    const std::vector<Load>& loads,
                                    const std::vector<Stage>& stages);

// The way that is held, with its seconds as they are now, unless it is gone or another is better by
// the margin. Its stages have its positions already: they need no room.
std::optional<Route> keep_or_leave(const Problem& problem, const std::vector<Stage>& offers,
                                   const std::vector<Load>& loads, std::uint64_t kv_tokens,
                                   const Route& held, double margin = kRouteMargin);

}  // namespace hearth::placement
