// TicketBook: the connections that a listener expects by ticket (proto/link/route.h). Such a
// connection begins with kTicketByte and the ticket, in clear. Each ticket is good for one
// connection, for limits::kTicketSeconds. A connection with another ticket is closed.
//
// Threads: one, the main thread.
#pragma once

#include <cstddef>
#include <functional>
#include <map>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/result.h"
#include "proto/link/route.h"

namespace hearth {

// No TLS record begins with this byte, and no first byte of proto/link/control_links.h is equal.
inline constexpr std::byte kTicketByte{0x03};

class TicketBook {
 public:
  // Takes over the socket, from which the ticket was read.
  using Hand = std::function<void(int socket)>;

  // kNoCapacity with limits::kTickets expected; kInvalidInput for a ticket that is expected
  // already.
  Status expect(const Ticket& ticket, Hand hand, TimePoint now);
  // Null: the ticket is unknown, used or too late.
  Hand take(const Ticket& ticket, TimePoint now);
  void forget(const Ticket& ticket) { expected_.erase(ticket); }
  // Destroys the hands of tickets whose time is over.
  void forget_late(TimePoint now);
  std::size_t size() const { return expected_.size(); }

 private:
  struct Expected {
    Hand hand;
    TimePoint until{};
  };
  std::map<Ticket, Expected> expected_;
};

// What a connection begins with to show a ticket.
Bytes ticket_head(const Ticket& ticket);

// Reads a ticket from a non-blocking socket, and no byte behind it. A connection that begins with
// another byte is left unread.
class TicketReader {
 public:
  enum class Step : std::uint8_t {
    kMore,    // call again when the socket can be read
    kTicket,  // ticket() is read
    kOther,   // the connection shows no ticket
    kEnd,     // the connection has ended
  };
  Step read(int socket);
  const Ticket& ticket() const { return ticket_; }

 private:
  Ticket ticket_;
  std::size_t filled_ = 0;  // bytes of kTicketByte and the ticket
};

}  // namespace hearth
