#include "coordinator/machine/meetings.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "coordinator/pipelines/pipelines.h"
#include "proto/fixed_field.h"
#include "proto/link/relay.h"

namespace hearth::coordinator {
namespace {

using control::v1::CoordinatorMessage;

constexpr Duration kAvoided = std::chrono::minutes(10);
constexpr Duration kWarnAgain = std::chrono::seconds(30);

CoordinatorMessage meet_over(const std::string& route) {
  CoordinatorMessage message;
  message.mutable_meet()->set_route(route);
  return message;
}

// The order for the side that dials `address` and shows the ticket.
CoordinatorMessage order_to_meet(const std::string& address, const Ticket& ticket) {
  return meet_over(relayed_route(ticket, address));
}

}  // namespace

Ticket Meetings::draw() {
  Ticket ticket;
  for (std::size_t i = 0; i < ticket.bytes.size(); i += sizeof(std::uint64_t)) {
    const std::uint64_t number = random_.next();
    std::memcpy(ticket.bytes.data() + i, &number, sizeof(number));
  }
  return ticket;
}

Meetings::Meeting Meetings::reverse(const std::string& listener, const Node& to) {
  const Ticket ticket = draw();
  return {{RouteKind::kReverse},
          Route{RouteKind::kReverse, {}, ticket}.text(),
          {{to.link, order_to_meet(listener, ticket)}}};
}

std::string Meetings::seen_host_of(const std::string& name) const {
  const Node* node = registry_.find(name);
  return node != nullptr ? node->status.seen_host : "";
}

void Meetings::avoid_relay(const std::string& node) {
  if (!node.empty()) avoided_[node] = clock_.now() + kAvoided;
}

void Meetings::note_break(const std::string& node) {
  std::erase_if(broke_, [&](const auto& entry) { return clock_.now() - entry.second >= kAvoided; });
  if (node.empty()) return;
  const auto [before, first] = broke_.try_emplace(node, clock_.now());
  if (first) return;
  before->second = clock_.now();
  avoid_relay(node);
}

const Node* Meetings::find_relay(const std::string& from, const Node& to, bool avoided) {
  std::erase_if(avoided_, [&](const auto& entry) { return clock_.now() >= entry.second; });
  const LinkBook& ways = pipelines_.ways();
  const Node* best = nullptr;
  double best_rate = 0.0;
  for (const Node* node : registry_.all()) {
    const NodeStatus& status = node->status;
    const bool offers = status.relay_megabits > 0 && status.protocol >= kProtocolMeet &&
                        node->state != Node::State::kLost && !status.away;
    if (!offers || status.name == from || status.name == to.status.name) continue;
    if (avoided_.contains(status.name) != avoided) continue;
    if (!ways.is_open(from, status.name) || !ways.is_open(to.status.name, status.name)) continue;
    const bool reached = status.may_be_dialled_from(seen_host_of(from)) &&
                         status.may_be_dialled_from(to.status.seen_host);
    if (!reached) continue;
    const double rate = std::min({ways.find(from, status.name).bytes_per_second,
                                  ways.find(status.name, to.status.name).bytes_per_second,
                                  status.relay_megabits * static_cast<double>(kBytesOfMegabit)});
    if (rate <= best_rate) continue;
    best = node;
    best_rate = rate;
  }
  return best;
}

// To other networks, the address of a node behind a router is another machine's.
Meetings::Meeting Meetings::direct(const Node* from, const Node& to) const {
  std::string address = to.status.address_for(from != nullptr ? from->status.seen_host : "");
  if (!address.empty()) return {{}, std::move(address)};
  return {{}, "", {}, message_of("a router translates the address of ", to.status.name)};
}

Meetings::Meeting Meetings::relayed_by(const Node& relay, const std::string& from, const Node& to,
                                       bool brief) {
  const Ticket ours = draw();
  const Ticket theirs = draw();
  CoordinatorMessage forward;
  forward.mutable_forward()->set_dialler(to_field(ours.bytes));
  forward.mutable_forward()->set_acceptor(to_field(theirs.bytes));
  forward.mutable_forward()->set_account(from);
  forward.mutable_forward()->set_brief(brief);
  const std::string met = relay.status.address_for(to.status.seen_host);
  return {{RouteKind::kRelayed, relay.status.name},
          relayed_route(ours, relay.status.address_for(seen_host_of(from))),
          {{relay.link, std::move(forward)}, {to.link, order_to_meet(met, theirs)}}};
}

Meetings::Meeting Meetings::unrelayed(const std::string& from, const Node& to,
                                      const std::string& why) const {
  Meeting meeting = direct(registry_.find(from), to);
  if (meeting.route.empty()) meeting.why = why;
  return meeting;
}

bool Meetings::may_order_briefly(const std::string& from) {
  const TimePoint since = clock_.now() - std::chrono::seconds(limits::kTicketSeconds);
  for (auto entry = brief_.begin(); entry != brief_.end();) {
    std::deque<TimePoint>& orders = entry->second;
    while (!orders.empty() && orders.front() <= since) orders.pop_front();
    entry = orders.empty() ? brief_.erase(entry) : std::next(entry);
  }
  std::deque<TimePoint>& own = brief_[from];
  if (own.size() >= kBriefOrders) return false;
  own.push_back(clock_.now());
  return true;
}

Meetings::Meeting Meetings::punched(const std::string& from, const Node& to, bool brief) {
  const Ticket ours = draw();
  const Ticket theirs = draw();
  INVARIANT(ours != theirs, "the tickets of a pair differ");
  const auto port = options_.punch(ours, theirs, from);
  if (!port.ok()) return relayed(from, to, brief);
  return {{RouteKind::kPunched},
          punched_route(ours, data_.address(), *port),
          {{to.link, meet_over(punched_route(theirs, data_.address(), *port))}}};
}

// A relay that failed lately is the last choice.
Meetings::Meeting Meetings::relayed(const std::string& from, const Node& to, bool brief) {
  if (const Node* relay = find_relay(from, to, false); relay != nullptr) {
    return relayed_by(*relay, from, to, brief);
  }
  const Ticket ours = draw();
  const Ticket theirs = draw();
  INVARIANT(ours != theirs, "the tickets of a pair differ");
  const Status expected = options_.relay(ours, theirs, from, brief);
  if (expected.ok()) {
    return {{RouteKind::kRelayed},
            relayed_route(ours, data_.address()),
            {{to.link, order_to_meet(data_.address(), theirs)}}};
  }
  if (const Node* relay = find_relay(from, to, true); relay != nullptr) {
    return relayed_by(*relay, from, to, brief);
  }
  const std::string why = message_of("no relay for the link from ", from, " to ", to.status.name,
                                     ": ", expected.error().message);
  // A member may ask as often as it likes, and a pipeline forms again soon.
  if (!brief && clock_.now() >= warns_again_) {
    warns_again_ = clock_.now() + kWarnAgain;
    spdlog::warn("{}", why);
  }
  return unrelayed(from, to, why);
}

Meetings::Meeting Meetings::between(const Node& from, const Node& to) {
  return between(from, to, pipelines_.ways().route(from, to));
}

Meetings::Meeting Meetings::between(const Node& from, const Node& to, RouteKind kind) {
  switch (options_.relay ? kind : RouteKind::kDirect) {
    case RouteKind::kDirect: break;
    case RouteKind::kReverse: {
      const std::string listener = from.status.address_for(to.status.seen_host);
      if (listener.empty()) break;  // its router has stopped to forward a port
      return reverse(listener, to);
    }
    case RouteKind::kPunched: return punched(from.status.name, to, false);
    case RouteKind::kRelayed: return relayed(from.status.name, to, false);
  }
  return direct(&from, to);
}

Meetings::Meeting Meetings::from_here(const Node& to) {
  if (options_.relay && pipelines_.ways().is_closed(to)) return reverse(data_.address(), to);
  return direct(nullptr, to);
}

Meetings::Meeting Meetings::from_machine(const std::string& from, const Node& to) {
  const Node* own = registry_.find(from);
  const LinkBook& ways = pipelines_.ways();
  RouteKind kind = ways.is_closed(to) ? RouteKind::kRelayed : RouteKind::kDirect;
  if (own != nullptr) kind = ways.route(*own, to);
  if (!options_.relay || kind == RouteKind::kDirect) return direct(own, to);
  if (!may_order_briefly(from)) {
    return unrelayed(from, to,
                     message_of("the commands of ", from, " have had ", kBriefOrders,
                                " relayed or punched links in ", limits::kTicketSeconds,
                                " s, which is the limit. Try again later"));
  }
  return kind == RouteKind::kPunched ? punched(from, to, true) : relayed(from, to, true);
}

}  // namespace hearth::coordinator
