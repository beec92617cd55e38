#include "placement/route.h"

#include <algorithm>
#include <limits>

#include "base/check.h"

namespace hearth::placement {
namespace {

constexpr double kNoRoute = std::numeric_limits<double>::infinity();
constexpr std::uint32_t kNoClass = std::numeric_limits<std::uint32_t>::max();

class Router {
 public:
  Router(const Problem& problem, const std::vector<Stage>& offers, const std::vector<double>& waits)
      : problem_(problem), offers_(offers), begins_(problem.layers() + 1) {
    INVARIANT(waits.empty() || waits.size() == offers.size(), "every offer has its wait");
    for (std::uint32_t i = 0; i < offers.size(); ++i) {
      INVARIANT(
          offers[i].layers.begin < offers[i].layers.end && offers[i].layers.end <= problem.layers(),
          "an offer has layers of the model");
      seconds_.push_back(stage_seconds(problem, offers[i], 1.0) + (waits.empty() ? 0.0 : waits[i]));
      begins_[offers[i].layers.begin].push_back(i);
    }
  }

  std::optional<Route> run() {
    walk(kNoClass);
    const std::vector<double> open = to_end_;
    std::vector<std::pair<double, std::uint32_t>> firsts;
    for (const std::uint32_t first : begins_[0]) {
      if (open[first] < kNoRoute) firsts.emplace_back(open[first] + least_back(first), first);
    }
    std::ranges::sort(firsts);
    Route best;
    best.seconds = kNoRoute;
    for (const auto& [least, first] : firsts) {
      if (least >= best.seconds) break;
      walk(first);
      if (to_end_[first] < best.seconds) best = {stages_from(first), to_end_[first]};
    }
    if (best.stages.empty()) return std::nullopt;
    INVARIANT(best.stages.back().layers.end == problem_.layers(), "a route ends at the last layer");
    return best;
  }

 private:
  bool is_last(std::uint32_t offer) const { return offers_[offer].layers.end == problem_.layers(); }

  double hop(std::uint32_t from, std::uint32_t to) const {
    const Link& link = problem_.link(offers_[from].node, offers_[to].node);
    if (link.bytes_per_second <= 0.0) return kNoRoute;
    return link.delay_seconds +
           static_cast<double>(problem_.model.activation_bytes) / link.bytes_per_second;
  }

  double back(std::uint32_t last, std::uint32_t first) const {
    if (last == first) return 0.0;
    const Link& link = problem_.link(offers_[last].node, offers_[first].node);
    return link.bytes_per_second > 0.0 ? link.delay_seconds : kNoRoute;
  }

  double least_back(std::uint32_t first) const {
    if (is_last(first)) return 0.0;
    double shortest = kNoRoute;
    for (const auto& offers : begins_) {
      for (const std::uint32_t last : offers) {
        if (is_last(last)) shortest = std::min(shortest, back(last, first));
      }
    }
    return shortest;
  }

  // Seconds from each stage to the end and back to `first`; kNoClass: without the link back.
  void walk(std::uint32_t first) {
    to_end_.assign(offers_.size(), kNoRoute);
    next_.assign(offers_.size(), kNoClass);
    for (std::uint32_t begin = problem_.layers(); begin-- > 0;) {
      for (const std::uint32_t from : begins_[begin]) {
        if (begin == 0 && first != kNoClass && from != first) continue;
        double shortest = kNoRoute;
        if (is_last(from)) {
          shortest = first == kNoClass ? 0.0 : back(from, first);
        } else {
          for (const std::uint32_t to : begins_[offers_[from].layers.end]) {
            const double seconds = hop(from, to) + to_end_[to];
            if (seconds >= shortest) continue;
            shortest = seconds;
            next_[from] = to;
          }
        }
        to_end_[from] = seconds_[from] + shortest;
      }
    }
  }

  std::vector<Stage> stages_from(std::uint32_t first) const {
    std::vector<Stage> stages;
    for (std::uint32_t at = first; at != kNoClass; at = next_[at]) stages.push_back(offers_[at]);
    return stages;
  }

  const Problem& problem_;
  const std::vector<Stage>& offers_;
  std::vector<double> seconds_;
  std::vector<std::vector<std::uint32_t>> begins_;  // offers by their first layer
  std::vector<double> to_end_;
  std::vector<std::uint32_t> next_;
};

}  // namespace

std::optional<Route> quickest_route(const Problem& problem, const std::vector<Stage>& offers,
                                    const std::vector<double>& waits) {
  return Router(problem, offers, waits).run();
}

}  // namespace hearth::placement
