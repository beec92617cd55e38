#include "coordinator/http/generation/predicted_wait.h"

#include <algorithm>
#include <cmath>

#include "coordinator/http/generation/generation.h"

namespace hearth::coordinator::http {

std::uint32_t predicted_wait(const Api& api) {
  constexpr double kLongest = 3600.0;
  constexpr double kAssumedRate = 100.0;  // tokens a second, until the first token is counted
  const RequestBounds& swarm = api.last_bounds;
  double tokens = 0.0;
  for (const auto& generation : api.generations) {
    tokens += static_cast<double>(generation->tokens_to_come());
  }
  // With no token ahead, the queue is assumed to move as it did, by whole requests.
  const double running = std::max<double>(1.0, swarm.running);
  const double rate = swarm.tokens_per_second > 0.0 ? swarm.tokens_per_second : kAssumedRate;
  const double seconds = tokens > 0.0
                             ? tokens * api.metrics.used_share() / rate
                             : api.metrics.mean_request_seconds() * (swarm.waiting + 1) / running;
  return static_cast<std::uint32_t>(std::clamp(std::ceil(seconds), 1.0, kLongest));
}

}  // namespace hearth::coordinator::http
