// Rendezvous: the coordinator's part in a punched link, which the two nodes open to each other at
// the same time, each from behind its router (TCP's simultaneous open).
//
// Each node connects from one local port to the coordinator's data port and to its control port,
// and shows a ticket on either connection. The coordinator sees there which outside address and
// port the node's router gives to that local port. If the router gives each connection another
// port, no node can tell where to connect to, and the punch is over. Else each node gets the other
// one's address over its first connection: a byte with the length of its text, the text, and 32
// bytes that prove the secret of its route. Then both connect, each from that local port, and the
// handshake of every link follows: the node that dials is the client.
//
// A node learns the secret with its route, over a session or a call to the coordinator. What it
// shows in clear is derived from the secret.
//
// Threads: the main thread, which owns the TicketBook.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/result.h"
#include "proto/address.h"
#include "proto/link/tickets.h"

namespace hearth {

enum class CoordinatorPort : std::uint8_t { kData, kControl };

// The ticket to show at this port, of a route with this secret.
Ticket shown_ticket(const Ticket& secret, CoordinatorPort port);

inline constexpr std::size_t kPunchAnswerBytes =
    1 + limits::kPunchAddressBytes + Ticket{}.bytes.size();  // at most
// The answer to a node whose route has this secret. The address has a numeric host.
Bytes encode_punch_answer(const Ticket& secret, const Address& peer);
// The bytes that an answer has, as its first byte says.
std::size_t punch_answer_bytes(std::byte first);
// kInvalidInput for an answer that is not whole or that another secret made.
Result<Address> decode_punch_answer(const Ticket& secret, ByteSpan answer);

// Whether a node connects to `peer`, which the coordinator at the other address names: no service
// of the system's ports, and no private address unless the coordinator has one, too.
Status check_punch_address(const Address& peer, const Address& coordinator);

class Rendezvous {
 public:
  explicit Rendezvous(std::shared_ptr<TicketBook> tickets) : tickets_(std::move(tickets)) {}

  // Expects the four connections of two nodes, whose routes have these secrets, for
  // limits::kTicketSeconds. `account`: the node to which the link counts. kNoCapacity when a limit
  // is reached.
  Status expect(const Ticket& dialler, const Ticket& acceptor, const std::string& account,
                TimePoint now);
  std::size_t under_way();

 private:
  struct Punch;
  const std::shared_ptr<TicketBook> tickets_;
  // Each lives as long as a ticket of it is expected.
  std::vector<std::weak_ptr<const Punch>> punches_;
};

}  // namespace hearth
