// Meetings: the routes of links to workers. Where the dialling side cannot reach the other, it
// draws tickets, makes a relay expect them, and writes the order with which the other side opens
// the link.
#pragma once

#include <string>

#include "base/random.h"
#include "coordinator/machine/machine_parts.h"
#include "coordinator/workers/registry.h"
#include "proto/control.pb.h"
#include "proto/link/route.h"

namespace hearth::coordinator {

class Meetings final : MachineParts {
 public:
  Meetings(const MachineParts& parts, Random& random) : MachineParts(parts), random_(random) {}

  struct Meeting {
    RouteKind kind = RouteKind::kDirect;
    std::string route;  // for the dialling side
    // For the other side, before or after the dialling side gets its route; body not set: none.
    control::v1::CoordinatorMessage order;
    bool has_order() const {
      return order.body_case() != control::v1::CoordinatorMessage::BODY_NOT_SET;
    }
  };
  // A link between workers over LinkBook's route, or over `kind`. Without room at the relay it is
  // direct.
  Meeting between(const Node& from, const Node& to);
  Meeting between(const Node& from, const Node& to, RouteKind kind);
  // A link of the coordinator's own data transport.
  Meeting from_here(const Node& to);
  // A link of another process on the machine of the member `from`, which does not listen.
  Meeting from_machine(const std::string& from, const Node& to);

 private:
  Ticket draw();
  Meeting reverse(const std::string& listener, const Ticket& ticket) const;
  Meeting relayed(const std::string& account, const Node& to);

  Random& random_;
};

}  // namespace hearth::coordinator
