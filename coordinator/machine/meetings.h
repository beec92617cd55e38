// Meetings: the routes of links to workers. Where the dialling side cannot reach the other, it
// draws tickets, makes a relay or the coordinator's ports expect them, and writes the order with
// which the other side opens the link.
#pragma once

#include <deque>
#include <map>
#include <string>
#include <vector>

#include "base/random.h"
#include "coordinator/machine/machine_parts.h"
#include "coordinator/workers/registry.h"
#include "proto/control.pb.h"
#include "proto/link/route.h"

namespace hearth::coordinator {

class Meetings final : MachineParts {
 public:
  // hearth ping asks for each of its probes. A node takes 16 handshakes of an address a second.
  static constexpr std::uint32_t kBriefOrders = 64;

  Meetings(const MachineParts& parts, Random& random) : MachineParts(parts), random_(random) {}

  struct Order {
    LinkId session;
    control::v1::CoordinatorMessage message;
  };
  struct Meeting {
    LinkRoute kind = {};
    std::string route;  // for the dialling side; empty: it cannot reach the node now
    // For the relay and the other side. With a reverse route they follow the message with which the
    // dialling side gets it, so that it expects the ticket; else they go before that message.
    std::vector<Order> orders = {};
    std::string why = {};  // without a route: the reason
    bool dials_last() const { return kind.kind > RouteKind::kReverse; }
  };
  // A link between workers over LinkBook's route, or over `kind`. Without room for a punched one it
  // is relayed. Without room at the relay it is direct, if the node's address is good where the
  // dialling side is.
  Meeting between(const Node& from, const Node& to);
  Meeting between(const Node& from, const Node& to, RouteKind kind);
  // A link of the coordinator's own data transport.
  Meeting from_here(const Node& to);
  // A link over this node's relay did not open: others are preferred for a while.
  void avoid_relay(const std::string& node);
  // An open link over this node's relay broke. The first time an end may be the cause, and a relay
  // that breaks links again soon is avoided.
  void note_break(const std::string& node);
  // A link of another process on the machine of the member `from`, which does not listen. At most
  // kBriefOrders in limits::kTicketSeconds are relayed or punched for a member: each makes another
  // node dial.
  Meeting from_machine(const std::string& from, const Node& to);

 private:
  Ticket draw();
  Meeting reverse(const std::string& listener, const Node& to);
  Meeting punched(const std::string& from, const Node& to, bool brief);
  Meeting relayed(const std::string& from, const Node& to, bool brief);
  Meeting unrelayed(const std::string& from, const Node& to, const std::string& why) const;
  bool may_order_briefly(const std::string& from);
  Meeting relayed_by(const Node& relay, const std::string& from, const Node& to, bool brief);
  // `from`: null if it is no worker.
  Meeting direct(const Node* from, const Node& to) const;
  // The relay between the nodes with the greatest measured rate, among those that are `avoided` or
  // among the others. Null: no node relays between these two.
  const Node* find_relay(const std::string& from, const Node& to, bool avoided);
  std::string seen_host_of(const std::string& name) const;

  Random& random_;
  std::map<std::string, TimePoint> avoided_;  // until then
  std::map<std::string, TimePoint> broke_;    // when a link last broke
  // The latest relayed and punched links of commands, by member.
  std::map<std::string, std::deque<TimePoint>> brief_;
  TimePoint warns_again_{};  // of a link without a relay
};

}  // namespace hearth::coordinator
