#include "proto/link/tcp_transport.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/post.hpp>
#include <utility>

#include "base/check.h"
#include "base/peer_host.h"
#include "proto/address.h"
#include "proto/link/control_links.h"
#include "proto/link/ping.h"
#include "proto/link/socket_options.h"
#include "proto/link/tcp_link.h"

namespace hearth {
namespace {

constexpr Duration kSweep = std::chrono::milliseconds(100);
// A longer time between two sweeps shows that this process was stopped.
constexpr Duration kPause = std::chrono::milliseconds(500);
constexpr Duration kAcceptBackoff = std::chrono::milliseconds(100);

Result<tcp::endpoint> endpoint_of(const Address& address) {
  SocketError error;
  const asio::ip::address host = asio::ip::make_address(address.host, error);
  if (error) return io_error("address \"" + address.text() + "\"", error);
  return tcp::endpoint(host, address.port);
}

tcp family_of(int socket) { return is_ipv6_socket(socket) ? tcp::v6() : tcp::v4(); }

}  // namespace

Status TcpTransport::Core::admit(const PublicKey& key) const {
  const auto entry = options.roster->find(key);
  REQUIRE(entry.has_value(), "the key ", key.hex(), " is not in the roster");
  const bool admitted = std::ranges::find(options.peers, entry->role) != options.peers.end();
  REQUIRE(admitted, entry->name, " is in the roster as ", role_name(entry->role),
          ", and no link here may connect to that role");
  return ok_status();
}

bool TcpTransport::Core::too_many_of(const Link& link) const {
  std::uint32_t count = 0;
  for (const auto& [id, other] : links) {
    const bool open = other->state == Link::State::kOpen || other->state == Link::State::kLingering;
    if (open && other->incoming && other->tls->peer() == link.tls->peer()) ++count;
  }
  return count >= options.links_of_key;
}

Status TcpTransport::Core::listen() {
  TRY(const Address wanted, parse_address(options.listen_address));
  TRY(const tcp::endpoint endpoint, endpoint_of(wanted));
  const std::string what = "listening on " + options.listen_address;
  SocketError error;
  acceptor.open(endpoint.protocol(), error);
  if (error) return io_error(what, error);
  acceptor.set_option(asio::socket_base::reuse_address(true), error);
  acceptor.bind(endpoint, error);
  if (error) return io_error(what, error);
  acceptor.listen(asio::socket_base::max_listen_connections, error);
  if (error) return io_error(what, error);
  const tcp::endpoint local = acceptor.local_endpoint(error);
  if (error) return io_error(what, error);
  address = Address{local.address().to_string(), local.port()}.text();
  return ok_status();
}

void TcpTransport::Core::accept() {
  acceptor.async_accept([self = shared_from_this()](const SocketError& error, tcp::socket socket) {
    if (self->stopped) return;
    if (!error) {
      self->adopt(std::move(socket));
      return self->accept();
    }
    // The pending connection stays pending.
    if (error == asio::error::no_descriptors) self->make_room();
    self->accept_timer.expires_after(kAcceptBackoff);
    self->accept_timer.async_wait([self](const SocketError&) {
      if (!self->stopped) self->accept();
    });
  });
}

void TcpTransport::Core::adopt(tcp::socket socket) {
  if (events == nullptr || links.size() >= options.connections) return;  // closes the socket
  SocketError error;
  const tcp::endpoint from = socket.remote_endpoint(error);
  if (error) return;
  const std::string peer = peer_of_host(from.address().to_string());
  if (options.makes_room && handshakes.waits_for_room(peer, link_now())) make_room();
  if (!handshakes.begin(peer, link_now())) return;
  tune_link_socket(socket.native_handle());
  const LinkId id(++last_link);
  const auto link = std::make_shared<Link>(shared_from_this(), id, std::move(socket));
  link->greeted = peer;
  links.emplace(id, link);
  link->await_greeting();
}

// The link's own events follow; an error here is for the caller to report.
Status TcpTransport::Core::begin(const std::shared_ptr<Link>& link, const Route& route,
                                 TlsStream::Side side) {
  if (links.size() >= options.connections) {
    return Error::of(ErrorCode::kNoCapacity, "this process holds ", options.connections,
                     " links, which is the limit");
  }
  link->deadline = link_now() + options.first_frame_deadline;
  if (route.kind == RouteKind::kReverse) {
    TRY_VOID(await(link, route.ticket));
    links.emplace(link->id, link);
    return ok_status();
  }
  if (route.kind == RouteKind::kPunched) return punch(link, route, side);
  TRY(const tcp::endpoint endpoint, endpoint_of(route.address));
  if (route.kind == RouteKind::kRelayed) link->head = ticket_head(route.ticket);
  links.emplace(link->id, link);
  link->dial(endpoint, side);
  return ok_status();
}

Status TcpTransport::Core::await(const std::shared_ptr<Link>& link, const Ticket& ticket) {
  REQUIRE(options.tickets != nullptr, "this transport takes no reverse routes");
  // Weak: the book of these hands belongs to the core, which every link holds.
  const auto hand = [weak = std::weak_ptr(link)](int connection) {
    const std::shared_ptr<Link> link = weak.lock();
    SocketError error = asio::error::operation_aborted;
    if (link != nullptr && link->state == Link::State::kConnecting) {
      link->socket.assign(family_of(connection), connection, error);
    }
    if (error) {
      ::close(connection);
      return;
    }
    link->connected(TlsStream::Side::kClient);
  };
  return options.tickets->expect(ticket, hand, link_now());
}

Status TcpTransport::Core::punch(const std::shared_ptr<Link>& link, const Route& route,
                                 TlsStream::Side side) {
  const auto punches = [](const auto& entry) { return entry.second->punch != nullptr; };
  if (std::ranges::count_if(links, punches) >= std::ptrdiff_t{limits::kPunchesHere}) {
    return Error::of(ErrorCode::kNoCapacity, "this process has ", limits::kPunchesHere,
                     " punched links under way, which is the limit");
  }
  link->incoming = side == TlsStream::Side::kServer;
  // Weak: the link holds the punch.
  const auto done = [weak = std::weak_ptr(link), side](Result<int> connection) {
    const std::shared_ptr<Link> link = weak.lock();
    if (link == nullptr) {
      if (connection) ::close(*connection);
      return;
    }
    link->punch = nullptr;
    if (!connection) return link->fail(connection.error());
    SocketError error;
    link->socket.assign(family_of(*connection), *connection, error);
    INVARIANT(!error, "a connection fits a new socket");
    link->connected(side);
  };
  link->punch = std::make_shared<TcpPunch>(io, route, done);
  links.emplace(link->id, link);
  const Status begun = link->punch->begin();
  if (!begun.ok()) link->drop();
  return begun;
}

// Unauthenticated connections that fill the table must not keep members out.
void TcpTransport::Core::make_room() {
  std::shared_ptr<Link> chosen;
  std::uint32_t most = 0;
  for (const auto& [id, link] : links) {
    if (link->greeted.empty()) continue;
    const std::uint32_t neighbours = handshakes.under_way(link->greeted);
    if (neighbours < most || (neighbours == most && chosen->id < id)) continue;
    chosen = link;
    most = neighbours;
  }
  if (chosen != nullptr) chosen->fail(unavailable("a newer handshake replaced this one"));
}

void TcpTransport::Core::sweep() {
  sweep_timer.expires_after(kSweep);
  sweep_timer.async_wait([self = shared_from_this()](const SocketError& error) {
    if (error || self->stopped) return;
    std::vector<std::shared_ptr<Link>> all;
    for (const auto& [id, link] : self->links) all.push_back(link);
    // After a pause of this process, silence is our own fault.
    const bool paused = link_now() - std::exchange(self->swept_at, link_now()) > kPause;
    for (const auto& link : all) {
      if (paused) link->read_at = link_now();
      if (link->state != Link::State::kDead) link->check_deadlines(link_now());
    }
    if (self->options.tickets != nullptr) self->options.tickets->forget_late(link_now());
    for (const Redial& redial : self->redials.take_due(link_now())) (void)self->meet(redial).ok();
    if (!self->stopped) self->sweep();
  });
}

Status TcpTransport::Core::meet(const Redial& meeting) {
  const auto link =
      std::make_shared<Link>(shared_from_this(), LinkId(++last_link), tcp::socket(io));
  // A punch's tickets are good once, and the coordinator expects them before it sends the route.
  if (meeting.route.kind == RouteKind::kRelayed) link->redial = meeting;
  return begin(link, meeting.route, TlsStream::Side::kServer);
}

void TcpTransport::Core::post_closed(LinkId link, Error why) {
  asio::post(io, [self = shared_from_this(), link, why = std::move(why)] {
    if (self->events != nullptr) self->events->on_link_closed(link, why);
  });
}

void TcpTransport::Core::stop() {
  stopped = true;
  events = nullptr;
  SocketError ignored;
  acceptor.close(ignored);
  accept_timer.cancel();
  sweep_timer.cancel();
  const auto all = std::exchange(links, {});
  for (const auto& [id, link] : all) link->drop();
}

// --- the seam -------------------------------------------------------------------------------

TcpTransport::TcpTransport(std::shared_ptr<Core> core) : core_(std::move(core)) {}

TcpTransport::~TcpTransport() { core_->stop(); }

Result<std::unique_ptr<TcpTransport>> TcpTransport::open(asio::io_context& io,
                                                         const TcpOptions& options) {
  INVARIANT(options.roster != nullptr, "a transport has a roster");
  auto core = std::make_shared<Core>(io, options);
  TRY(core->tls, TlsContext::make(options.identity, [here = core.get()](const PublicKey& key) {
        return here->admit(key);
      }));
  if (!options.listen_address.empty()) {
    TRY_VOID(core->listen());
    core->accept();
  }
  core->sweep();
  return std::unique_ptr<TcpTransport>(new TcpTransport(std::move(core)));
}

void TcpTransport::set_events(TransportEvents* events) { core_->events = events; }

LinkId TcpTransport::connect(std::string_view text) {
  const LinkId id(++core_->last_link);
  const Result<Route> route = parse_route(text);
  const auto link = std::make_shared<Link>(core_, id, tcp::socket(core_->io));
  const Status begun =
      route.ok() ? core_->begin(link, *route, TlsStream::Side::kClient) : Status(route.error());
  if (!begun.ok()) core_->post_closed(id, begun.error());
  return id;
}

Status TcpTransport::meet(std::string_view text) {
  TRY(const Route route, parse_route(text));
  REQUIRE(route.kind == RouteKind::kRelayed || route.kind == RouteKind::kPunched,
          "a route to meet a node must have a ticket and an address, got a ",
          route_name(route.kind), " one");
  return core_->meet({route, link_now() + std::chrono::seconds(limits::kTicketSeconds)});
}

void TcpTransport::adopt(int socket) {
  tcp::socket taken(core_->io);
  SocketError error;
  taken.assign(family_of(socket), socket, error);
  if (error) {
    ::close(socket);
    return;
  }
  core_->adopt(std::move(taken));
}

Status TcpTransport::send(LinkId id, Frame&& frame) {
  const auto found = core_->links.find(id);
  if (found == core_->links.end()) return ok_status();
  Link& link = *found->second;
  const bool open = link.state == Link::State::kOpen;
  const bool opening =
      link.state == Link::State::kConnecting || link.state == Link::State::kGreeting;
  if ((!open && !opening) || link.write_failed) return ok_status();
  const bool control = core_->options.kind == LinkKind::kControl;
  const std::size_t limit = control ? limits::kControlMessageBytes : limits::kFrameBytes;
  REQUIRE(frame.payload.size() <= limit, "frame payload of ", frame.payload.size(),
          " bytes passes the limit of ", limit);
  REQUIRE(!control || frame.type == FrameType::kControl,
          "only control frames travel on a control link");
  if (!link.enqueue(std::move(frame))) {
    return Error::of(ErrorCode::kNoCapacity, "the send queue of the link holds ",
                     link.queue.bytes(), " bytes; the limit is ", core_->options.send_queue_bytes,
                     " for all links of a peer and ", core_->options.all_queue_bytes, " for all");
  }
  return ok_status();
}

void TcpTransport::close(LinkId id) {
  const auto found = core_->links.find(id);
  if (found == core_->links.end()) return;
  const std::shared_ptr<Link> link = found->second;
  if (link->state == Link::State::kLingering) return;
  core_->post_closed(id, {ErrorCode::kCancelled, "closed on this side"});
  if (link->state != Link::State::kOpen) return link->drop();
  link->linger();
}

std::string TcpTransport::address() const { return core_->address; }

std::optional<RosterEntry> TcpTransport::peer(LinkId id) const {
  const auto found = core_->links.find(id);
  if (found == core_->links.end() || found->second->state != Link::State::kOpen) {
    return std::nullopt;
  }
  return core_->options.roster->find(found->second->tls->peer());
}

std::string TcpTransport::host(LinkId id) const {
  const auto found = core_->links.find(id);
  if (found == core_->links.end()) return "";
  SocketError error;
  const tcp::endpoint from = found->second->socket.remote_endpoint(error);
  return error ? "" : from.address().to_string();
}

bool TcpTransport::is_sent(LinkId id) const {
  const auto found = core_->links.find(id);
  return found == core_->links.end() || found->second->queue.empty() || found->second->write_failed;
}

void TcpTransport::poll(LinkId id) {
  const auto found = core_->links.find(id);
  if (found == core_->links.end() || found->second->state != Link::State::kOpen) return;
  const std::shared_ptr<Link> link = found->second;  // an event may end it
  // Records that one read of the socket has brought are read here: nothing else would show them.
  bool more = true;
  for (std::size_t taken = 0; more && taken < kReadTurnBytes;) {
    std::size_t bytes = 0;
    more = link->read_record(bytes) == TlsStream::Step::kDone && link->tls->records().holds_bytes();
    taken += bytes;
  }
}

void TcpTransport::recheck_peers() {
  asio::post(core_->io, [core = core_] {
    const auto links = core->links;  // an event may end any of them
    for (const auto& [id, link] : links) {
      if (link->state != Link::State::kOpen || core->admit(link->tls->peer()).ok()) continue;
      const Error why = unavailable("the roster no longer names the peer");
      if (core->options.kind == LinkKind::kData) {
        link->fail(why);
        continue;
      }
      link->linger();  // the new roster may be on its way to the peer
      if (core->events != nullptr) core->events->on_link_closed(id, why);
    }
  });
}

std::size_t TcpTransport::links() const { return core_->links.size(); }

}  // namespace hearth
