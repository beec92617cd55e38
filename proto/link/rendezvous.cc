#include "proto/link/rendezvous.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/descriptor.h"
#include "base/peer_host.h"

namespace hearth {
namespace {

constexpr std::array kPorts = {CoordinatorPort::kData, CoordinatorPort::kControl};

// The far end of a connection; an IPv4 address also where the socket listens for IPv6.
std::optional<Address> far_end(int socket) {
  sockaddr_storage at{};
  socklen_t size = sizeof(at);
  if (::getpeername(socket, reinterpret_cast<sockaddr*>(&at), &size) != 0) return std::nullopt;
  char host[INET6_ADDRSTRLEN] = {};
  if (at.ss_family == AF_INET) {
    const auto& four = reinterpret_cast<const sockaddr_in&>(at);
    inet_ntop(AF_INET, &four.sin_addr, host, sizeof(host));
    return Address{host, ntohs(four.sin_port)};
  }
  if (at.ss_family != AF_INET6) return std::nullopt;
  const auto& six = reinterpret_cast<const sockaddr_in6&>(at);
  inet_ntop(AF_INET6, &six.sin6_addr, host, sizeof(host));
  const bool mapped = IN6_IS_ADDR_V4MAPPED(&six.sin6_addr);
  return Address{mapped ? peer_of_host(host) : host, ntohs(six.sin6_port)};
}

bool is_own_machine(const Address& address) {
  return address.host == "::1" || address.host.starts_with("127.");
}

// Addresses of more than one machine, or of none.
bool is_unicast(const std::string& host) {
  in_addr parsed{};
  if (inet_pton(AF_INET, host.c_str(), &parsed) == 1) {
    const std::uint32_t first = ntohl(parsed.s_addr) >> 24;
    return first != 0 && first < 224;
  }
  in6_addr six{};
  return inet_pton(AF_INET6, host.c_str(), &six) == 1 && !IN6_IS_ADDR_MULTICAST(&six) &&
         !IN6_IS_ADDR_UNSPECIFIED(&six) && !IN6_IS_ADDR_V4MAPPED(&six);
}

}  // namespace

Ticket shown_ticket(const Ticket& secret, CoordinatorPort port) {
  return keyed_blake2b(secret,
                       as_bytes(port == CoordinatorPort::kData ? "hearth punch data port"
                                                               : "hearth punch control port"));
}

Bytes encode_punch_answer(const Ticket& secret, const Address& peer) {
  const std::string text = peer.text();
  INVARIANT(!text.empty() && text.size() <= limits::kPunchAddressBytes,
            "the text of a numeric address is short");
  const Ticket proof = keyed_blake2b(secret, as_bytes(text));
  Bytes answer{static_cast<std::byte>(text.size())};
  std::ranges::copy(as_bytes(text), std::back_inserter(answer));
  std::ranges::copy(proof.bytes, std::back_inserter(answer));
  return answer;
}

std::size_t punch_answer_bytes(std::byte first) {
  const auto text = static_cast<std::size_t>(first);
  return 1 + std::min(text, limits::kPunchAddressBytes) + Ticket{}.bytes.size();
}

Result<Address> decode_punch_answer(const Ticket& secret, ByteSpan answer) {
  REQUIRE(!answer.empty(), "the coordinator gave no address of the other node");
  const auto size = static_cast<std::size_t>(answer[0]);
  REQUIRE(size > 0 && size <= limits::kPunchAddressBytes &&
              answer.size() == punch_answer_bytes(answer[0]),
          "the answer to a punch must have an address of 1 to ", limits::kPunchAddressBytes,
          " bytes and its proof");
  const ByteSpan text = answer.subspan(1, size);
  const Ticket proof = keyed_blake2b(secret, text);
  REQUIRE(equal_secrets(proof.bytes, answer.subspan(1 + size)),
          "the address of the other node is not from the coordinator");
  return parse_address(as_text(text));
}

Status check_punch_address(const Address& peer, const Address& coordinator) {
  const std::string what = "the address of the other node, " + peer.text() + ", ";
  REQUIRE(peer.port >= limits::kPunchPortLeast, what, "must have a port from ",
          limits::kPunchPortLeast, " on");
  REQUIRE(is_unicast(peer.host), what, "must be an address of one machine");
  REQUIRE(is_ipv6(peer.host) == is_ipv6(coordinator.host), what,
          "must be of the same family as the coordinator's, ", coordinator.host);
  REQUIRE(!is_own_machine(peer) || is_own_machine(coordinator), what, "must not be this machine");
  REQUIRE(!is_private(peer.host) || is_private(coordinator.host) || is_own_machine(coordinator),
          what, "must not be in a private network, because the coordinator is in none");
  return ok_status();
}

struct Rendezvous::Punch {
  struct End {
    Ticket secret;
    std::array<Descriptor, kPorts.size()> connections = {};
    std::array<std::optional<Address>, kPorts.size()> seen = {};
    bool is_whole() const { return seen[0] && seen[1]; }
    // Whether the router gives both connections one outside address and port.
    bool is_one() const { return seen[0] == seen[1]; }
  };

  void take(std::size_t end, std::size_t port, int socket);
  void answer(const End& to, const End& other) const;

  std::string account;
  std::array<End, 2> ends;  // the node that dials, and the other one
  bool over = false;
};

void Rendezvous::Punch::take(std::size_t number, std::size_t port, int socket) {
  Descriptor connection(socket);
  if (over) return;
  End& end = ends[number];
  INVARIANT(!end.seen[port], "a ticket brings one connection");
  end.seen[port] = far_end(socket);
  end.connections[port] = std::move(connection);
  over = !end.seen[port] || (end.is_whole() && !end.is_one());
  if (!over && ends[0].is_whole() && ends[1].is_whole()) {
    over = true;
    answer(ends[0], ends[1]);
    answer(ends[1], ends[0]);
  }
  // Closing tells the nodes that no address follows.
  if (over) {
    for (End& each : ends) each.connections = {};
  }
}

// A new connection has room for a few bytes.
void Rendezvous::Punch::answer(const End& to, const End& other) const {
  const Bytes bytes = encode_punch_answer(to.secret, *other.seen[0]);
  (void)::send(*to.connections[0], bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

std::size_t Rendezvous::under_way() {
  std::erase_if(punches_, [](const auto& punch) { return punch.expired(); });
  return punches_.size();
}

Status Rendezvous::expect(const Ticket& dialler, const Ticket& acceptor, const std::string& account,
                          TimePoint now) {
  tickets_->forget_late(now);
  const auto all = under_way();
  const auto own = std::ranges::count_if(punches_, [&](const auto& each) {
    const auto punch = each.lock();
    return punch != nullptr && punch->account == account;
  });
  if (all >= limits::kPunches || own >= limits::kPunchesOfNode) {
    return Error::of(ErrorCode::kNoCapacity, "the coordinator arranges at most ", limits::kPunches,
                     " punched links at a time, and ", limits::kPunchesOfNode, " of a node");
  }
  const auto punch = std::make_shared<Punch>();
  punch->account = account;
  punch->ends[0].secret = dialler;
  punch->ends[1].secret = acceptor;
  for (std::size_t end = 0; end < punch->ends.size(); ++end) {
    for (std::size_t port = 0; port < kPorts.size(); ++port) {
      TRY_VOID(tickets_->expect(
          shown_ticket(punch->ends[end].secret, kPorts[port]),
          [punch, end, port](int socket) { punch->take(end, port, socket); }, now));
    }
  }
  punches_.push_back(punch);
  return ok_status();
}

}  // namespace hearth
