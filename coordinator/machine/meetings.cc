#include "coordinator/machine/meetings.h"

#include <spdlog/spdlog.h>

#include <cstring>

#include "base/check.h"
#include "coordinator/pipelines/pipelines.h"

namespace hearth::coordinator {
namespace {

// The order for the side that dials `address` and shows the ticket.
control::v1::CoordinatorMessage order_to_meet(const std::string& address, const Ticket& ticket) {
  control::v1::CoordinatorMessage message;
  message.mutable_meet()->set_route(relayed_route(ticket, address));
  return message;
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

Meetings::Meeting Meetings::reverse(const std::string& listener, const Ticket& ticket) const {
  return {RouteKind::kReverse, Route{RouteKind::kReverse, {}, ticket}.text(),
          order_to_meet(listener, ticket)};
}

Meetings::Meeting Meetings::relayed(const std::string& account, const Node& to) {
  const Ticket ours = draw();
  const Ticket theirs = draw();
  const Status expected = options_.relay(ours, theirs, account);
  if (!expected.ok()) {
    spdlog::warn("the link to {} is tried directly: {}", to.status.name, expected.error().message);
    return {RouteKind::kDirect, to.status.data_address, {}};
  }
  INVARIANT(ours != theirs, "the tickets of a pair differ");
  return {RouteKind::kRelayed, relayed_route(ours, data_.address()),
          order_to_meet(data_.address(), theirs)};
}

Meetings::Meeting Meetings::between(const Node& from, const Node& to) {
  return between(from, to, pipelines_.ways().route(from, to));
}

Meetings::Meeting Meetings::between(const Node& from, const Node& to, RouteKind kind) {
  switch (options_.relay ? kind : RouteKind::kDirect) {
    case RouteKind::kDirect: break;
    case RouteKind::kReverse: return reverse(from.status.data_address, draw());
    case RouteKind::kRelayed: return relayed(from.status.name, to);
  }
  return {RouteKind::kDirect, to.status.data_address, {}};
}

Meetings::Meeting Meetings::from_here(const Node& to) {
  if (options_.relay && pipelines_.ways().is_closed(to)) return reverse(data_.address(), draw());
  return {RouteKind::kDirect, to.status.data_address, {}};
}

Meetings::Meeting Meetings::from_machine(const std::string& from, const Node& to) {
  const Node* own = registry_.find(from);
  const bool closed = own != nullptr ? pipelines_.ways().route(*own, to) != RouteKind::kDirect
                                     : pipelines_.ways().is_closed(to);
  if (options_.relay && closed) return relayed(from, to);
  return {RouteKind::kDirect, to.status.data_address, {}};
}

}  // namespace hearth::coordinator
