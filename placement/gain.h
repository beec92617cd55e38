// Changes of a swarm that would make its plan quicker.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "placement/problem.h"

namespace hearth::placement {

struct Gain {
  enum class Change : std::uint8_t {
    kMemory,      // the nodes have twice the memory
    kSpeed,       // machines twice as fast in place of the nodes
    kLinkRate,    // all links have ten times the rate
    kLinkDelay,   // all links have half the delay
    kThroughput,  // the objective becomes throughput, for all streams together
  };
  Change change = Change::kMemory;
  std::vector<std::uint32_t> nodes;  // nodes that change: one, or all of a class of equal nodes
  double tokens_per_second = 0.0;    // now
  double after_tokens_per_second = 0.0;
  double after_one_stream = 0.0;  // kThroughput: tokens a second of one stream
};

constexpr double kMinGain = 1.03;  // a smaller gain is not worth a change
constexpr std::size_t kMaxGains = 3;

// The changes that gain the most, the largest first; at most kMaxGains. `rate`: the plan's tokens a
// second. `groups`: nodes that change together. `linked`: the plan uses links. `rate_after`: the
// rate that a changed problem's plan has; 0: no plan.
std::vector<Gain> largest_gains(const Problem& problem, double rate,
                                const std::vector<std::vector<std::uint32_t>>& groups, bool linked,
                                const std::function<double(const Problem& changed)>& rate_after);

}  // namespace hearth::placement
