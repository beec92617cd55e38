// LinkBook: what the ways between nodes were measured to be, and which one is to be measured next.
// One at a time in the whole swarm, so that no two share a wire.
//
// Threads: everything on the owner's thread.
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
    std::string from;  // who measures, both directions
    std::string to;
  };
  // The next way between measured nodes of `nodes`, of which those that are lost or away are left
  // alone, that is unmeasured, or that failed a while ago; it is under way from here on.
  // Nothing while one is. Ways of nodes that are not among them are forgotten. Of more than
  // limits::kLinkedNodes only the ways from each to the next two by name are measured, the last one
  // beside the first: their number grows as that of the nodes.
  std::optional<Way> next(const std::vector<const Node*>& nodes);
  // What `from` says of the way under way. Figures that no link has are a failure.
  void take(const std::string& from, const control::v1::Probed& probed);

  // Every way of these nodes that next() gives has been measured or has failed.
  bool complete(const std::vector<const Node*>& nodes) const;
  // Without a rate where the way is unmeasured.
  placement::Link find(const std::string& from, const std::string& to) const;
  // From each of these nodes to each, [from * nodes + to]. A way that was not tried is taken to be
  // as quick as what its ends can do elsewhere: the best rate out of the one and into the other,
  // and the longer of their usual delays. Without a rate where one of them has no way at all.
  std::vector<placement::Link> between(const std::vector<const Node*>& nodes) const;
  std::vector<LinkStatus> all() const;
  // Another number whenever find() may say something else.
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
  TimePoint deadline_{};  // of it
};

}  // namespace hearth::coordinator
