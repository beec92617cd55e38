#include "placement/gain.h"

#include <algorithm>

#include "base/check.h"

namespace hearth::placement {

static_assert(kMinGain > 1.0, "a change that loses is no gain");

Gains::Gains(double tokens_per_second) : before_(tokens_per_second) {
  INVARIANT(tokens_per_second > 0.0, "a plan has a rate");
}

void Gains::add(Gain::Change change, std::vector<std::uint32_t> nodes,
                double after_tokens_per_second) {
  if (after_tokens_per_second < kMinGain * before_) return;
  all_.push_back({change, std::move(nodes), before_, after_tokens_per_second, 0.0});
}

std::vector<Gain> Gains::largest() const {
  std::vector<Gain> sorted = all_;
  std::stable_sort(sorted.begin(), sorted.end(), [](const Gain& a, const Gain& b) {
    return a.after_tokens_per_second > b.after_tokens_per_second;
  });
  if (sorted.size() > kMaxGains) sorted.resize(kMaxGains);
  return sorted;
}

}  // namespace hearth::placement
