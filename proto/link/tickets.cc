#include "proto/link/tickets.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

#include "base/check.h"
#include "base/limits.h"

namespace hearth {

Status TicketBook::expect(const Ticket& ticket, Hand hand, TimePoint now) {
  forget_late(now);
  if (expected_.size() >= limits::kTickets) {
    return Error::of(ErrorCode::kNoCapacity, "this process expects ", limits::kTickets,
                     " connections by ticket, which is the limit");
  }
  REQUIRE(!expected_.contains(ticket), "a ticket must be new");
  expected_[ticket] = {std::move(hand), now + std::chrono::seconds(limits::kTicketSeconds)};
  return ok_status();
}

TicketBook::Hand TicketBook::take(const Ticket& ticket, TimePoint now) {
  forget_late(now);
  const auto found = expected_.find(ticket);
  if (found == expected_.end()) return nullptr;
  Hand hand = std::move(found->second.hand);
  expected_.erase(found);
  INVARIANT(hand != nullptr, "an expected connection has a receiver");
  return hand;
}

void TicketBook::forget_late(TimePoint now) {
  std::erase_if(expected_, [&](const auto& entry) { return now >= entry.second.until; });
}

Bytes ticket_head(const Ticket& ticket) {
  Bytes head(1 + ticket.bytes.size(), kTicketByte);
  std::ranges::copy(ticket.bytes, head.begin() + 1);
  return head;
}

TicketReader::Step TicketReader::read(int socket) {
  const auto step_of = [](ssize_t got) {
    const bool later = got < 0 && (errno == EAGAIN || errno == EINTR);
    return later ? Step::kMore : Step::kEnd;
  };
  if (filled_ == 0) {
    std::byte first{};
    const ssize_t seen = ::recv(socket, &first, 1, MSG_PEEK | MSG_DONTWAIT);
    if (seen != 1) return step_of(seen);
    if (first != kTicketByte) return Step::kOther;
    if (const ssize_t got = ::recv(socket, &first, 1, MSG_DONTWAIT); got != 1) return step_of(got);
    filled_ = 1;
  }
  const std::size_t have = filled_ - 1;
  const ssize_t got =
      ::recv(socket, ticket_.bytes.data() + have, ticket_.bytes.size() - have, MSG_DONTWAIT);
  if (got <= 0) return step_of(got);
  filled_ += static_cast<std::size_t>(got);
  INVARIANT(filled_ <= 1 + ticket_.bytes.size(), "no byte behind a ticket is read");
  return filled_ == 1 + ticket_.bytes.size() ? Step::kTicket : Step::kMore;
}

}  // namespace hearth
