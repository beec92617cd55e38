// LinkBook: how nodes reach each other, the measured links between them, and the next one to
// measure. One is measured at a time in the whole swarm, so that no two measurements share a wire.
//
// Routes (proto/link/route.h) are tried in the order direct, reverse, punched, relayed. A route
// that was found closed is not used for a while, or until one of its nodes registers again. Where
// links are measured, it is used again only after a measurement over it.
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
#include "proto/link/route.h"

namespace hearth::coordinator {

class LinkBook {
 public:
  // `routes`: whether routes other than the direct one exist. `punches`: whether punched ones do.
  explicit LinkBook(const Clock& clock, bool routes = false, bool punches = false)
      : clock_(clock), routes_(routes), punches_(punches) {}

  struct Way {
    std::string from;  // the node that measures both directions
    std::string to;
    RouteKind route = RouteKind::kDirect;
  };
  // The next link between measured nodes of `nodes` that is unmeasured, that failed some time ago,
  // or that may have a better route now; its measurement counts as under way. Lost and away nodes
  // are skipped. Nothing while a measurement is under way. Links of other nodes are dropped. With
  // more than limits::kLinkedNodes nodes, only the links from each to the next two by name are
  // measured, in a circle, so their number grows linearly.
  std::optional<Way> next(const std::vector<const Node*>& nodes);
  // Takes the result of `from` for the link under way. Impossible figures count as a failure.
  void take(const std::string& from, const control::v1::Probed& probed);

  // The route that `from` takes to `to`: the measured one, else the first that may be open.
  RouteKind route(const Node& from, const Node& to) const;
  // Whether the direct route from `from` to `to` was measured.
  bool is_open(const std::string& from, const std::string& to) const;
  // Whether a direct route to the node was found closed, or cannot be open.
  bool is_closed(const Node& node) const;
  // A link of a pipeline from `from` did not open over the route() of then.
  void fail(const std::string& from, const std::string& to, RouteKind route);
  // The node registers: its routes may have changed. What was measured over its direct routes
  // stays, unless it `moved`: its session comes from another host than before.
  void forget_routes(const std::string& node, bool moved);
  // The node can be dialled where it could not before: a better route is measured soon.
  void try_again(const std::string& node);

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
  using Nodes = std::pair<const Node*, const Node*>;
  struct Tried {
    TimePoint at{};
    RouteKind route = RouteKind::kDirect;
    bool unreachable = false;  // no route opened; no pipeline waits for another attempt
  };
  static Pair pair_of(const std::string& a, const std::string& b);
  static Pair pair_of(const Nodes& nodes);
  static std::vector<Nodes> wanted(const std::vector<const Node*>& nodes);
  void forget(const std::vector<const Node*>& nodes);
  using Closed = std::map<Pair, TimePoint>;  // when a route was found closed
  bool is_closed_in(const Closed& routes, const Pair& pair) const;
  void close_in(Closed& routes, const Pair& pair);
  // Whether the direct route was found closed lately.
  bool closed(const Pair& way) const { return is_closed_in(closed_, way); }
  bool may_dial(const Node& from, const Node& to) const;
  bool may_punch(const Node& from, const Node& to) const;
  bool knows_routes(const Node& from, const Node& to) const;
  RouteKind first_open(const Node& from, const Node& to) const;
  // Whether a failed link has another route that was not tried yet.
  bool has_other(const Nodes& nodes) const;
  void lose_last_route(const Way& way);
  void drop_figures(const Pair& pair);
  bool is_due(const Nodes& nodes) const;

  const Clock& clock_;
  const bool routes_;
  const bool punches_;
  std::map<Pair, Tried> tried_;            // the last attempt
  std::map<Pair, placement::Link> links_;  // from, to
  std::map<Pair, RouteKind> measured_;     // first, second: the route of links_
  Closed closed_;                          // direct routes, from, to
  Closed unpunched_;                       // punched ones, by name
  std::uint64_t changes_ = 0;
  std::optional<Way> under_way_;
  TimePoint deadline_{};  // of the measurement
};

}  // namespace hearth::coordinator
