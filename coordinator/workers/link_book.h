// LinkBook: the measured links between nodes, and the next one to measure. One is measured at a
// time in the whole swarm, so that no two measurements share a wire.
//
// Threads: everything on the main thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "coordinator/coordinator.h"
#include "coordinator/workers/registry.h"
#include "placement/problem.h"
#include "proto/control.pb.h"

namespace hearth::coordinator {

class LinkBook {
 public:
  explicit LinkBook(const Clock& clock) : clock_(clock) {}

  struct Way {
    std::string from;  // the node that measures both directions
    std::string to;
  };
  // The next link between measured nodes of `nodes` that is unmeasured, or that failed some time
  // ago; its measurement counts as under way. Lost and away nodes are skipped. Nothing while a
  // measurement is under way. Links of other nodes are dropped. With more than limits::kLinkedNodes
  // nodes, only the links from each to the next two by name are measured, in a circle, so their
  // number grows linearly.
  std::optional<Way> next(const std::vector<const Node*>& nodes);
  // Takes the result of `from` for the link under way. Impossible figures count as a failure.
  void take(const std::string& from, const control::v1::Probed& probed);

  // Whether every link of these nodes that next() would return was measured or has failed.
  bool complete(const std::vector<const Node*>& nodes) const;
  // A link without a rate is unmeasured.
  placement::Link find(const std::string& from, const std::string& to) const;
  // The links from each of these nodes to each, [from * nodes + to]. An untried link is estimated
  // from its ends' other links: the lower of the best rate out of the one and the best rate into
  // the other, and the longer of their usual delays. No rate when an end has no measured link, or
  // when the link was tried and failed.
  std::vector<placement::Link> between(const std::vector<const Node*>& nodes) const;
  std::vector<LinkStatus> all() const;
  // A counter that changes whenever find() may return something else.
  std::uint64_t changes() const { return changes_; }

 private:
  using Pair = std::pair<std::string, std::string>;  // by name
  static Pair pair_of(const std::string& a, const std::string& b);
  static std::vector<Pair> wanted(const std::vector<const Node*>& nodes);
  void forget(const std::vector<const Node*>& nodes);

  const Clock& clock_;
  std::map<Pair, TimePoint> tried_;
  std::map<Pair, placement::Link> links_;  // from, to
  std::uint64_t changes_ = 0;
  std::optional<Way> under_way_;
  TimePoint deadline_{};  // of the measurement
};

}  // namespace hearth::coordinator
