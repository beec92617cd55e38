#include "coordinator/workers/link_book.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <set>

#include "base/check.h"
#include "base/limits.h"
#include "proto/frame.h"

namespace hearth::coordinator {
namespace {

constexpr Duration kProbePatience =
    std::chrono::seconds(10);                          // with one way; a worker's own is shorter
constexpr Duration kAgain = std::chrono::seconds(30);  // after a failure
// After that, a closed route may be open, and a better route than the measured one is tried, which
// costs one measurement.
constexpr Duration kBetter = std::chrono::minutes(10);
constexpr std::size_t kClosed = std::size_t{8} * limits::kWorkers;  // routes to remember
// Of more than limits::kLinkedNodes each is measured with so many after it, and as many before it.
constexpr std::size_t kNeighbours = 2;
static_assert(2 * kNeighbours < limits::kLinkedNodes, "the neighbours of a node are distinct");
static_assert(kProbePatience < kAgain, "a way is retried after its probe has ended");

// The nodes that a probe may disturb.
std::vector<const Node*> measured_of(const std::vector<const Node*>& nodes) {
  std::vector<const Node*> measured;
  for (const Node* node : nodes) {
    const bool here = node->state != Node::State::kLost && !node->status.away;
    if (here && node->status.measured) measured.push_back(node);
  }
  std::ranges::sort(measured, {},
                    [](const Node* node) -> const std::string& { return node->status.name; });
  return measured;
}

// Of a node, over all of its ways.
struct OwnWays {
  double out = 0.0;  // the best rates
  double in = 0.0;
  std::vector<double> delays;
  double delay = 0.0;  // the usual one
};

void take_usual_delay(OwnWays& own) {
  if (own.delays.empty()) return;
  const auto middle = own.delays.begin() + static_cast<std::ptrdiff_t>(own.delays.size() / 2);
  std::nth_element(own.delays.begin(), middle, own.delays.end());
  own.delay = *middle;
}

bool among(const std::vector<const Node*>& nodes, const std::string& name) {
  return std::ranges::any_of(nodes, [&](const Node* node) { return node->status.name == name; });
}

}  // namespace

LinkBook::Pair LinkBook::pair_of(const std::string& a, const std::string& b) {
  return a < b ? Pair(a, b) : Pair(b, a);
}

LinkBook::Pair LinkBook::pair_of(const Nodes& nodes) {
  return pair_of(nodes.first->status.name, nodes.second->status.name);
}

void LinkBook::forget(const std::vector<const Node*>& nodes) {
  std::set<std::string> names;
  for (const Node* node : nodes) {
    if (node->status.measured) names.insert(node->status.name);
  }
  const auto gone = [&](const auto& entry) {
    return !names.contains(entry.first.first) || !names.contains(entry.first.second);
  };
  std::erase_if(tried_, gone);
  std::erase_if(measured_, gone);
  if (std::erase_if(links_, gone) > 0) ++changes_;
}

// Neighbours by name come first, so that each node soon has a way.
std::vector<LinkBook::Nodes> LinkBook::wanted(const std::vector<const Node*>& nodes) {
  std::vector<Nodes> pairs;
  const std::size_t count = nodes.size();
  const auto add = [&](const Node* a, const Node* b) {
    pairs.push_back(a->status.name < b->status.name ? Nodes(a, b) : Nodes(b, a));
  };
  if (count > limits::kLinkedNodes) {
    for (std::size_t off = 1; off <= kNeighbours; ++off) {
      for (std::size_t i = 0; i < count; ++i) add(nodes[i], nodes[(i + off) % count]);
    }
    return pairs;
  }
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t j = i + 1; j < count; ++j) add(nodes[i], nodes[j]);
  }
  return pairs;
}

bool LinkBook::is_closed_in(const Closed& routes, const Pair& pair) const {
  const auto found = routes.find(pair);
  return found != routes.end() && clock_.now() < found->second + kBetter;
}

void LinkBook::close_in(Closed& routes, const Pair& pair) {
  if (routes.size() >= kClosed) {
    std::erase_if(routes, [&](const auto& entry) { return !is_closed_in(routes, entry.first); });
  }
  if (routes.size() >= kClosed) {
    routes.erase(
        std::ranges::min_element(routes, {}, [](const auto& entry) { return entry.second; }));
  }
  INVARIANT(routes.size() < kClosed, "so many closed routes are remembered");
  routes[pair] = clock_.now();
}

bool LinkBook::may_dial(const Node& from, const Node& to) const {
  return to.status.may_be_dialled_from(from.status.seen_host) &&
         !closed({from.status.name, to.status.name});
}

bool LinkBook::may_punch(const Node& from, const Node& to) const {
  return punches_ && std::min(from.status.protocol, to.status.protocol) >= kProtocolPunch &&
         !is_closed_in(unpunched_, pair_of(from.status.name, to.status.name));
}

bool LinkBook::knows_routes(const Node& from, const Node& to) const {
  return routes_ && from.status.protocol >= kProtocolMeet && to.status.protocol >= kProtocolMeet;
}

RouteKind LinkBook::first_open(const Node& from, const Node& to) const {
  if (!knows_routes(from, to) || may_dial(from, to)) return RouteKind::kDirect;
  if (may_dial(to, from)) return RouteKind::kReverse;
  return may_punch(from, to) ? RouteKind::kPunched : RouteKind::kRelayed;
}

RouteKind LinkBook::route(const Node& from, const Node& to) const {
  // Maybe an older program than at the measurement.
  if (!knows_routes(from, to)) return RouteKind::kDirect;
  const RouteKind open = first_open(from, to);
  const Pair pair = pair_of(from.status.name, to.status.name);
  const auto found = measured_.find(pair);
  if (found == measured_.end()) return open;
  const bool turned = found->second == RouteKind::kReverse && pair.second == from.status.name;
  // A better route is not used before it is measured.
  return std::max(open, turned ? RouteKind::kDirect : found->second);
}

bool LinkBook::is_open(const std::string& from, const std::string& to) const {
  const Pair pair = pair_of(from, to);
  const auto found = measured_.find(pair);
  if (found == measured_.end() || closed({from, to})) return false;
  return found->second == RouteKind::kDirect ||
         (found->second == RouteKind::kReverse && pair.second == from);
}

bool LinkBook::is_closed(const Node& node) const {
  if (!routes_ || node.status.protocol < kProtocolMeet) return false;
  return !node.status.may_be_dialled_from("") ||
         std::ranges::any_of(closed_, [&](const auto& entry) {
           return entry.first.second == node.status.name && closed(entry.first);
         });
}

// The figures stay until the new route is measured.
void LinkBook::try_again(const std::string& node) {
  std::erase_if(closed_, [&](const auto& entry) { return entry.first.second == node; });
  for (auto& [pair, tried] : tried_) {
    if (pair.first == node || pair.second == node) tried.at = clock_.now() - kBetter;
  }
}

void LinkBook::fail(const std::string& from, const std::string& to, RouteKind route) {
  if (!routes_ || route == RouteKind::kRelayed) return;
  if (route == RouteKind::kPunched) return close_in(unpunched_, pair_of(from, to));
  close_in(closed_, route == RouteKind::kDirect ? Pair(from, to) : Pair(to, from));
}

void LinkBook::forget_routes(const std::string& node, bool moved) {
  const auto is_end = [&](const Pair& pair) { return pair.first == node || pair.second == node; };
  for (Closed* routes : {&closed_, &unpunched_}) {
    std::erase_if(*routes, [&](const auto& entry) { return is_end(entry.first); });
  }
  std::vector<Pair> old;
  for (const auto& [pair, tried] : tried_) {
    const auto measured = measured_.find(pair);
    const bool direct = measured != measured_.end() && measured->second == RouteKind::kDirect;
    if (is_end(pair) && (moved || !direct)) old.push_back(pair);
  }
  for (const Pair& pair : old) {
    tried_.erase(pair);
    drop_figures(pair);
  }
}

// Figures of a better route that has closed since are of no use.
void LinkBook::lose_last_route(const Way& way) {
  const auto tried = tried_.find({way.from, way.to});
  if (tried != tried_.end()) tried->second.unreachable = true;
  drop_figures({way.from, way.to});
}

void LinkBook::drop_figures(const Pair& pair) {
  measured_.erase(pair);
  const std::size_t dropped = links_.erase(pair) + links_.erase({pair.second, pair.first});
  if (dropped > 0) ++changes_;
}

bool LinkBook::has_other(const Nodes& nodes) const {
  const Pair pair = pair_of(nodes);
  const auto tried = tried_.find(pair);
  return tried != tried_.end() && !tried->second.unreachable && !links_.contains(pair) &&
         first_open(*nodes.first, *nodes.second) != tried->second.route;
}

bool LinkBook::is_due(const Nodes& nodes) const {
  const Pair pair = pair_of(nodes);
  const auto tried = tried_.find(pair);
  if (tried == tried_.end()) return true;
  const Duration since = clock_.now() - tried->second.at;
  if (!links_.contains(pair)) return has_other(nodes) || since >= kAgain;
  const RouteKind open = first_open(*nodes.first, *nodes.second);
  const RouteKind measured = measured_.at(pair);
  // A pipeline found the measured route closed, so the figures are of a route that is not used.
  if (route(*nodes.first, *nodes.second) != measured) {
    return open != tried->second.route || since >= kAgain;
  }
  return open < measured && since >= kBetter;
}

std::optional<LinkBook::Way> LinkBook::next(const std::vector<const Node*>& nodes) {
  const TimePoint now = clock_.now();
  const std::vector<const Node*> measured = measured_of(nodes);
  forget(nodes);
  const bool both =
      under_way_ && among(measured, under_way_->from) && among(measured, under_way_->to);
  if (both && now < deadline_) return std::nullopt;
  under_way_.reset();
  for (const Nodes& pair : wanted(measured)) {
    if (!is_due(pair)) continue;
    const RouteKind route = first_open(*pair.first, *pair.second);
    Tried& tried = tried_[pair_of(pair)];
    tried.at = now;
    tried.route = route;
    deadline_ = now + kProbePatience;
    under_way_ = Way{pair.first->status.name, pair.second->status.name, route};
    return under_way_;
  }
  return std::nullopt;
}

void LinkBook::take(const std::string& from, const control::v1::Probed& probed) {
  if (!under_way_ || under_way_->from != from || under_way_->to != probed.node()) return;  // late
  const Way way = *under_way_;
  under_way_.reset();
  const double delay = probed.round_trip_seconds() / 2.0;
  const placement::Link there{delay, probed.to_bytes_per_second()};
  const placement::Link back{delay, probed.from_bytes_per_second()};
  const bool figures = probed.error().empty() && placement::check(there, way.from, way.to).ok() &&
                       placement::check(back, way.to, way.from).ok() &&
                       there.bytes_per_second > 0.0 && back.bytes_per_second > 0.0;
  if (!figures) {
    const std::string why = decode_refused(as_bytes(probed.error()));
    spdlog::warn("the {} link from {} to {} was not measured: {}", route_name(way.route), way.from,
                 way.to, why.empty() ? "its figures are impossible" : why);
    if (!probed.unreached()) return;
    fail(way.from, way.to, way.route);
    if (way.route == RouteKind::kRelayed) lose_last_route(way);
    return;
  }
  INVARIANT(way.from < way.to, "the first of a pair by name measures");
  links_[{way.from, way.to}] = there;
  links_[{way.to, way.from}] = back;
  measured_[{way.from, way.to}] = way.route;
  tried_[{way.from, way.to}].unreachable = false;
  ++changes_;
  spdlog::info("{} to {}, {}: {:.3f} ms, {:.0f} MB/s; back {:.0f} MB/s", way.from, way.to,
               route_name(way.route), delay * 1e3, there.bytes_per_second / 1e6,
               back.bytes_per_second / 1e6);
}

bool LinkBook::complete(const std::vector<const Node*>& nodes) const {
  const std::vector<Nodes> pairs = wanted(measured_of(nodes));
  return std::ranges::all_of(pairs, [&](const Nodes& nodes_of) {
    const Pair pair = pair_of(nodes_of);
    const bool waits = under_way_ && pair_of(under_way_->from, under_way_->to) == pair;
    return tried_.contains(pair) && (links_.contains(pair) || (!waits && !has_other(nodes_of)));
  });
}

placement::Link LinkBook::find(const std::string& from, const std::string& to) const {
  const auto found = links_.find({from, to});
  return found == links_.end() ? placement::Link{} : found->second;
}

std::vector<placement::Link> LinkBook::between(const std::vector<const Node*>& nodes) const {
  std::map<std::string, OwnWays> own;
  for (const auto& [pair, link] : links_) {
    OwnWays& from = own[pair.first];
    from.out = std::max(from.out, link.bytes_per_second);
    from.delays.push_back(link.delay_seconds);
    OwnWays& to = own[pair.second];
    to.in = std::max(to.in, link.bytes_per_second);
  }
  std::map<std::string, std::size_t> places;
  std::vector<OwnWays> ends;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    places[nodes[i]->status.name] = i;
    ends.push_back(own[nodes[i]->status.name]);
    take_usual_delay(ends.back());
  }
  std::vector<placement::Link> links(nodes.size() * nodes.size());
  for (std::size_t from = 0; from < nodes.size(); ++from) {
    for (std::size_t to = 0; to < nodes.size(); ++to) {
      links[from * nodes.size() + to] = {std::max(ends[from].delay, ends[to].delay),
                                         std::min(ends[from].out, ends[to].in)};
    }
  }
  const bool waits = under_way_.has_value();
  for (const auto& [pair, tried] : tried_) {
    const auto a = places.find(pair.first);
    const auto b = places.find(pair.second);
    if (a == places.end() || b == places.end()) continue;
    const bool known = links_.contains(pair);
    if (!known && waits && pair_of(under_way_->from, under_way_->to) == pair) continue;
    if (!known && has_other({nodes[a->second], nodes[b->second]})) continue;
    links[a->second * nodes.size() + b->second] = find(pair.first, pair.second);
    links[b->second * nodes.size() + a->second] = find(pair.second, pair.first);
  }
  return links;
}

std::vector<LinkStatus> LinkBook::all() const {
  std::vector<LinkStatus> all;
  for (const auto& [pair, link] : links_) {
    const auto route = measured_.find(pair_of(pair.first, pair.second));
    all.push_back({pair.first, pair.second, link,
                   route == measured_.end() ? RouteKind::kDirect : route->second});
  }
  return all;
}

}  // namespace hearth::coordinator
