#include "placement/gain.h"

#include <algorithm>

#include "base/check.h"

namespace hearth::placement {

static_assert(kMinGain > 1.0, "a change that loses is no gain");

std::vector<Gain> largest_gains(const Problem& problem, double rate,
                                const std::vector<std::vector<std::uint32_t>>& groups, bool linked,
                                const std::function<double(const Problem& changed)>& rate_after) {
  INVARIANT(rate > 0.0, "a plan has a rate");
  std::vector<Gain> gains;
  const auto try_change = [&](Gain::Change change, const std::vector<std::uint32_t>& nodes,
                              const auto& alter) {
    Problem changed = problem;
    alter(changed);
    const double after = rate_after(changed);
    if (after >= kMinGain * rate) gains.push_back({change, nodes, rate, after, 0.0});
  };
  for (const std::vector<std::uint32_t>& group : groups) {
    try_change(Gain::Change::kMemory, group, [&](Problem& changed) {
      for (const std::uint32_t node : group) changed.nodes[node].memory_bytes *= 2;
    });
    try_change(Gain::Change::kSpeed, group, [&](Problem& changed) {
      for (const std::uint32_t each : group) {
        Node& node = changed.nodes[each];
        node.layer = {node.layer.one / 2, node.layer.batch / 2};
        node.head = {node.head.one / 2, node.head.batch / 2};
      }
    });
  }
  if (linked) {
    try_change(Gain::Change::kLinkRate, {}, [](Problem& changed) {
      for (Link& link : changed.links) link.bytes_per_second *= 10;
    });
    try_change(Gain::Change::kLinkDelay, {}, [](Problem& changed) {
      for (Link& link : changed.links) link.delay_seconds /= 2;
    });
  }
  std::ranges::stable_sort(gains, std::ranges::greater(), &Gain::after_tokens_per_second);
  if (gains.size() > kMaxGains) gains.resize(kMaxGains);
  return gains;
}

}  // namespace hearth::placement
