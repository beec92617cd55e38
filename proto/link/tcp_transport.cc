#include "proto/link/tcp_transport.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <deque>
#include <unordered_map>
#include <utility>

#include "base/check.h"
#include "base/peer_host.h"
#include "proto/address.h"
#include "proto/link/control_links.h"
#include "proto/link/frame_reader.h"
#include "proto/link/ping.h"
#include "proto/link/redials.h"
#include "proto/link/route.h"
#include "proto/link/send_queue.h"
#include "proto/link/socket_options.h"

namespace hearth {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using ErrorCondition = boost::system::error_code;

// Bound for one link before the other links and the heartbeat timers run: where each frame is
// computed on arrival, the next one is always waiting.
constexpr std::size_t kReadTurnBytes = 1 * limits::kMiB;
constexpr Duration kReadTurn = std::chrono::milliseconds(5);
constexpr Duration kSweep = std::chrono::milliseconds(100);
// A longer time between two sweeps shows that this process was stopped.
constexpr Duration kPause = std::chrono::milliseconds(500);
constexpr Duration kAcceptBackoff = std::chrono::milliseconds(100);
constexpr Duration kLinger = std::chrono::seconds(1);
// A connection may show its ticket a little before the coordinator's order to expect it.
constexpr Duration kTicketGrace = std::chrono::seconds(1);

TimePoint now() {
  return std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now().time_since_epoch());
}

Error io_error(std::string what, const ErrorCondition& error) {
  return Error::of(ErrorCode::kIo, std::move(what), ": ", error.message());
}

Error unavailable(std::string message) { return {ErrorCode::kUnavailable, std::move(message)}; }

Result<tcp::endpoint> endpoint_of(const Address& address) {
  ErrorCondition error;
  const asio::ip::address host = asio::ip::make_address(address.host, error);
  if (error) return io_error("address \"" + address.text() + "\"", error);
  return tcp::endpoint(host, address.port);
}

tcp family_of(int socket) { return is_ipv6_socket(socket) ? tcp::v6() : tcp::v4(); }

bool has_bytes(int socket) {
  char first = 0;
  return ::recv(socket, &first, 1, MSG_PEEK | MSG_DONTWAIT) == 1;
}

}  // namespace

struct TcpTransport::Link : std::enable_shared_from_this<Link> {
  enum class State { kConnecting, kTicketShown, kGreeting, kOpen, kLingering, kDead };

  Link(std::shared_ptr<Core> owner, LinkId link, tcp::socket connection);
  ~Link() { end_greeting(); }

  void dial(const tcp::endpoint& endpoint, TlsStream::Side side);
  void connected(TlsStream::Side side);
  void await_greeting();
  void see_first_bytes();
  bool hand_over();
  void greet(TlsStream::Side side);
  void shake_hands();
  void end_greeting();
  void open();
  void wait_for(tcp::socket::wait_type what, void (Link::*then)());
  void read();
  TlsStream::Step read_record(std::size_t& bytes);
  bool take(std::size_t bytes);
  void deliver();
  bool answer(ByteSpan payload);
  void answer_next();
  std::size_t sending() const { return queue.bytes(); }
  std::size_t receiving() const { return reader.payload_bytes(); }
  bool same_peer(const Link& other) const;
  bool has_room(std::size_t (Link::*held)() const, std::size_t more) const;
  bool enqueue(Frame&& frame);
  void write();
  void wait_to_write(tcp::socket::wait_type what);
  void linger();
  void check_deadlines(TimePoint time);
  void beat(TimePoint time);
  // Ends the link with an event. Only from the io_context, never inside a call of the owner.
  void fail(const Error& why);
  Error broken() const;
  // The same for bytes that a peer may not send: the log names the peer on every kind of link.
  void misspoke(const Error& why);
  void drop();

  std::shared_ptr<Core> core;
  LinkId id;
  tcp::socket socket;
  std::unique_ptr<TlsStream> tls;
  bool incoming = false;
  std::string greeted;  // the peer's address while its handshake is counted
  State state = State::kConnecting;
  TimePoint deadline{0};  // for connecting, the handshake, the first frame, or lingering; 0: none
  Bytes head;             // in clear, before our handshake
  TicketReader shown;     // by an incoming connection
  std::optional<Redial> redial = {};  // until the other side speaks
  FrameReader reader;
  TimePoint read_at{0};
  SendQueue queue;
  std::deque<std::uint32_t> pings;  // sizes of the answers to send when the queue is empty
  bool waiting_to_write = false;
  bool write_failed = false;
  TimePoint written_at{0};
};

struct TcpTransport::Core : std::enable_shared_from_this<Core> {
  Core(asio::io_context& context, const TcpOptions& tcp_options)
      : io(context),
        options(tcp_options),
        handshakes(tcp_options.handshakes),
        acceptor(context),
        accept_timer(context),
        sweep_timer(context) {}

  Status admit(const PublicKey& key) const;
  Status listen();
  void accept();
  void adopt(tcp::socket socket);
  Status begin(const std::shared_ptr<Link>& link, const Route& route, TlsStream::Side side);
  Status await(const std::shared_ptr<Link>& link, const Ticket& ticket);
  void make_room();
  bool too_many_of(const Link& link) const;
  void sweep();
  void post_closed(LinkId link, Error why);
  void stop();
  Status meet(const Redial& meeting);

  asio::io_context& io;
  TcpOptions options;
  std::unique_ptr<TlsContext> tls;
  Handshakes handshakes;
  tcp::acceptor acceptor;
  asio::steady_timer accept_timer;
  asio::steady_timer sweep_timer;
  TransportEvents* events = nullptr;
  std::string address;
  TimePoint swept_at = now();
  std::uint64_t last_link = 0;
  std::unordered_map<LinkId, std::shared_ptr<Link>> links;
  Redials redials;
  bool stopped = false;
};

// --- one link -------------------------------------------------------------------------------

TcpTransport::Link::Link(std::shared_ptr<Core> owner, LinkId link, tcp::socket connection)
    : core(std::move(owner)),
      id(link),
      socket(std::move(connection)),
      reader(core->options.kind, core->options.frame_bytes) {}

void TcpTransport::Link::dial(const tcp::endpoint& endpoint, TlsStream::Side side) {
  incoming = side == TlsStream::Side::kServer;
  socket.async_connect(endpoint, [self = shared_from_this(), side](const ErrorCondition& error) {
    if (self->state != State::kConnecting) return;
    if (error) return self->fail(unavailable("connecting: " + error.message()));
    // A free port of the ephemeral range may connect to itself.
    ErrorCondition ignored;
    if (self->socket.local_endpoint(ignored) == self->socket.remote_endpoint(ignored)) {
      return self->fail(unavailable("connecting: no process listens at this address"));
    }
    self->connected(side);
  });
}

void TcpTransport::Link::connected(TlsStream::Side side) {
  tune_link_socket(socket.native_handle());
  if (core->options.kind == LinkKind::kControl) head = {kControlByte};
  // A queue that holds nothing yet takes a few bytes.
  if (!head.empty()) {
    (void)::send(socket.native_handle(), head.data(), head.size(), MSG_NOSIGNAL);
    head.clear();
  }
  greet(side);
}

// Where tickets are expected, the first byte of a connection says whether it shows one.
void TcpTransport::Link::await_greeting() {
  incoming = true;
  state = State::kGreeting;
  deadline = now() + core->options.handshake_deadline;
  if (core->options.tickets == nullptr) return greet(TlsStream::Side::kServer);
  wait_for(tcp::socket::wait_read, &Link::see_first_bytes);
}

void TcpTransport::Link::see_first_bytes() {
  if (state != State::kGreeting) return;
  switch (shown.read(socket.native_handle())) {
    case TicketReader::Step::kMore: return wait_for(tcp::socket::wait_read, &Link::see_first_bytes);
    case TicketReader::Step::kOther: return greet(TlsStream::Side::kServer);
    case TicketReader::Step::kEnd: return fail(unavailable("the peer closed the connection"));
    case TicketReader::Step::kTicket: break;
  }
  state = State::kTicketShown;
  deadline = std::min(deadline, now() + kTicketGrace);
  hand_over();
}

// The connection leaves this link, for the one that expects it. False: none does yet.
bool TcpTransport::Link::hand_over() {
  const TicketBook::Hand hand = core->options.tickets->take(shown.ticket(), now());
  if (hand == nullptr) return false;
  ErrorCondition error;
  const int taken = socket.release(error);
  const auto self = shared_from_this();
  drop();
  if (!error) hand(taken);
  return true;
}

void TcpTransport::Link::greet(TlsStream::Side side) {
  // The first bytes of an incoming connection are a part of its handshake.
  if (state != State::kGreeting) deadline = now() + core->options.handshake_deadline;
  state = State::kGreeting;
  incoming = side == TlsStream::Side::kServer;
  tls = std::make_unique<TlsStream>(*core->tls, socket.native_handle(), side,
                                    core->options.key_bytes);
  shake_hands();
}

void TcpTransport::Link::shake_hands() {
  if (state != State::kGreeting) return;
  if (redial && has_bytes(socket.native_handle())) redial.reset();
  switch (tls->handshake()) {
    case TlsStream::Step::kDone: return open();
    case TlsStream::Step::kWantRead: return wait_for(tcp::socket::wait_read, &Link::shake_hands);
    case TlsStream::Step::kWantWrite: return wait_for(tcp::socket::wait_write, &Link::shake_hands);
    case TlsStream::Step::kClosed:
    case TlsStream::Step::kFailed:
      return fail(unavailable("the handshake failed: " + tls->error()));
  }
}

void TcpTransport::Link::end_greeting() {
  if (!greeted.empty()) core->handshakes.end(std::exchange(greeted, {}));
}

void TcpTransport::Link::open() {
  const auto self = shared_from_this();
  end_greeting();
  if (incoming && core->too_many_of(*this)) {
    return fail(unavailable("the peer has " + std::to_string(core->options.links_of_key) +
                            " links here, which is the limit"));
  }
  state = State::kOpen;
  read_at = written_at = now();
  deadline = incoming ? now() + core->options.first_frame_deadline : TimePoint{0};
  if (core->events != nullptr) core->events->on_link_open(id, incoming);
  if (state == State::kOpen) write();
  if (state != State::kDead) read();
}

void TcpTransport::Link::wait_for(tcp::socket::wait_type what, void (Link::*then)()) {
  socket.async_wait(what, [self = shared_from_this(), then](const ErrorCondition& error) {
    if (self->state == State::kDead) return;
    if (error) return self->fail(io_error("waiting for the link", error));
    (self.get()->*then)();
  });
}

// Reads until TLS asks for more, because TLS may hold bytes that the socket no longer shows, or
// until the link's turn ends (kReadTurn, kReadTurnBytes).
void TcpTransport::Link::read() {
  const TimePoint end = now() + kReadTurn;
  for (std::size_t taken = 0; taken < kReadTurnBytes && now() < end;) {
    std::size_t bytes = 0;
    switch (read_record(bytes)) {
      case TlsStream::Step::kDone: break;
      case TlsStream::Step::kWantRead: return wait_for(tcp::socket::wait_read, &Link::read);
      case TlsStream::Step::kWantWrite: return wait_for(tcp::socket::wait_write, &Link::read);
      case TlsStream::Step::kClosed:
      case TlsStream::Step::kFailed: return;
    }
    taken += bytes;
  }
  asio::post(core->io, [self = shared_from_this()] {
    if (self->state != State::kDead) self->read();
  });
}

// kClosed or kFailed: the link has ended.
TlsStream::Step TcpTransport::Link::read_record(std::size_t& bytes) {
  const TlsStream::Step step = tls->records().read(reader.space(), bytes);
  if (step == TlsStream::Step::kClosed) fail(unavailable("the peer closed the link"));
  if (step == TlsStream::Step::kFailed) fail(broken());
  return step == TlsStream::Step::kDone && !take(bytes) ? TlsStream::Step::kFailed : step;
}

// The dialling side finishes its handshake before the other side has checked its key.
Error TcpTransport::Link::broken() const {
  if (!incoming && tls->records().refused()) return unavailable(std::string(kNotAdmitted));
  return unavailable("the link broke: " + tls->records().error());
}

// False when these bytes have ended the link.
bool TcpTransport::Link::take(std::size_t bytes) {
  read_at = now();
  if (state == State::kLingering) {
    reader.drop();  // what still arrives after close() is dropped
  } else {
    reader.received(bytes);
    deliver();
  }
  if (state == State::kOpen && !has_room(&Link::receiving, 0)) {
    fail(
        {ErrorCode::kNoCapacity, "the peer's frames under way take more than its share of memory"});
  }
  return state != State::kDead;
}

void TcpTransport::Link::deliver() {
  while (state == State::kOpen) {
    Frame frame;
    const Result<bool> complete = reader.next(frame);
    if (!complete) return misspoke(complete.error());
    if (!*complete) return;
    if (frame.type == FrameType::kBeat) continue;
    if (!write_failed) deadline = TimePoint{0};
    if (frame.type == FrameType::kPing) {
      if (!answer(frame.payload)) return;
    } else if (core->events != nullptr) {
      core->events->on_frame(id, std::move(frame));
    }
  }
}

// False when the ping has ended the link. An answer takes memory only when it is sent.
bool TcpTransport::Link::answer(ByteSpan payload) {
  const auto ping = decode_ping(payload);
  if (!ping) {
    misspoke(ping.error());
    return false;
  }
  if (pings.size() >= limits::kPings) {
    misspoke(Error::invalid("more than ", limits::kPings, " pings wait for their answers"));
    return false;
  }
  pings.push_back(ping->answer_bytes);
  answer_next();
  return state != State::kDead;
}

// A ping without room for its answer is not answered: the peer waits.
void TcpTransport::Link::answer_next() {
  while (state == State::kOpen && queue.empty() && !pings.empty()) {
    const std::uint32_t bytes = pings.front();
    pings.pop_front();
    if (has_room(&Link::sending, kFrameHeaderBytes + bytes)) {
      enqueue({FrameType::kPong, Bytes(bytes)});
    }
  }
}

bool TcpTransport::Link::same_peer(const Link& other) const {
  const auto known = [](const Link& link) {
    return link.state == State::kOpen || link.state == State::kLingering;
  };
  return this == &other || (known(*this) && known(other) && tls->peer() == other.tls->peer());
}

// Whether the sent or received frames may take so many more bytes. A peer takes at most its share,
// and at most as much as it leaves to all others. An idle link always has room for a small frame.
bool TcpTransport::Link::has_room(std::size_t (Link::*held)() const, std::size_t more) const {
  if ((this->*held)() + more <= limits::kReadStepBytes) return true;
  std::size_t all = more;
  std::size_t own = more;
  for (const auto& [number, other] : core->links) {
    const std::size_t bytes = (other.get()->*held)();
    all += bytes;
    if (same_peer(*other)) own += bytes;
  }
  return own <= core->options.send_queue_bytes && all + own <= core->options.all_queue_bytes;
}

// False when there is no room, with the frame unchanged. Its size is within its limit.
bool TcpTransport::Link::enqueue(Frame&& frame) {
  const std::size_t bytes = kFrameHeaderBytes + frame.payload.size();
  if (!has_room(&Link::sending, bytes)) return false;
  if (queue.empty()) written_at = now();
  queue.push(frame.type, std::move(frame.payload));
  write();
  return true;
}

void TcpTransport::Link::write() {
  const bool open = state == State::kOpen || state == State::kLingering;
  if (!open || waiting_to_write || write_failed) return;
  while (!queue.empty()) {
    std::size_t bytes = 0;
    const ByteSpan next = queue.next();
    switch (tls->records().write(next, next.size() < queue.unsent(), bytes)) {
      case TlsStream::Step::kDone:
        written_at = now();
        queue.consume(bytes);
        break;
      case TlsStream::Step::kWantRead: return wait_to_write(tcp::socket::wait_read);
      case TlsStream::Step::kWantWrite: return wait_to_write(tcp::socket::wait_write);
      case TlsStream::Step::kClosed:
      case TlsStream::Step::kFailed:
        // The peer's last frames, perhaps a refusal, may still be unread. The reader ends the link
        // after them.
        write_failed = true;
        deadline = now() + kLinger;
        return;
    }
  }
  answer_next();
  if (state == State::kLingering) {
    tls->records().shutdown();
    ErrorCondition ignored;
    socket.shutdown(tcp::socket::shutdown_send, ignored);
  }
}

void TcpTransport::Link::wait_to_write(tcp::socket::wait_type what) {
  waiting_to_write = true;
  socket.async_wait(what, [self = shared_from_this()](const ErrorCondition& error) {
    self->waiting_to_write = false;
    if (self->state == State::kDead) return;
    if (error) return self->fail(io_error("waiting to send", error));
    self->write();
  });
}

void TcpTransport::Link::linger() {
  state = State::kLingering;
  deadline = now() + kLinger;
  if (write_failed) return drop();
  write();
}

void TcpTransport::Link::check_deadlines(TimePoint time) {
  if (state == State::kTicketShown && hand_over()) return;
  if (deadline != TimePoint{0} && time > deadline) {
    if (state == State::kConnecting) return fail({ErrorCode::kTimeout, "connecting took too long"});
    if (state == State::kTicketShown) {
      return fail(unavailable("the ticket is unknown, used or too late"));
    }
    if (state == State::kGreeting) {
      return fail({ErrorCode::kTimeout, "the handshake took too long"});
    }
    if (write_failed || state == State::kLingering) return fail(unavailable("the link broke"));
    return fail({ErrorCode::kTimeout, "the peer sent no whole frame in time after connecting"});
  }
  const Duration stall = core->options.stall_deadline;
  if (state == State::kOpen && reader.inside_frame() && time - read_at > stall) {
    return fail({ErrorCode::kTimeout, "the peer stopped in the middle of a frame"});
  }
  if (state == State::kOpen && !queue.empty() && time - written_at > stall) {
    return fail({ErrorCode::kTimeout, "the peer stopped reading"});
  }
  if (state == State::kOpen && time - read_at > core->options.silence) {
    const auto silent = std::chrono::duration_cast<std::chrono::milliseconds>(time - read_at);
    return fail(
        Error::of(ErrorCode::kTimeout, "the peer sent nothing for ", silent.count(), " ms"));
  }
  beat(time);
}

void TcpTransport::Link::beat(TimePoint time) {
  const bool silent = queue.empty() && time - written_at >= core->options.beat;
  if (state != State::kOpen || write_failed || !silent) return;
  queue.push(FrameType::kBeat, {});
  write();
}

void TcpTransport::Link::fail(const Error& why) {
  const auto self = shared_from_this();
  // The events have not reported an incoming link yet.
  const bool refused = incoming && state < State::kOpen;
  const bool silent = refused || state == State::kLingering || state == State::kDead;
  drop();
  if (refused && redial && core->redials.put(*redial, now())) return;
  if (refused && core->options.on_refused) core->options.on_refused(why.message);
  if (!silent && core->events != nullptr) core->events->on_link_closed(id, why);
}

void TcpTransport::Link::misspoke(const Error& why) {
  if (core->options.on_refused) {
    const auto peer = core->options.roster->find(tls->peer());
    const std::string who = peer ? "node " + peer->name : "key " + tls->peer().hex();
    core->options.on_refused(who + ": " + why.message);
  }
  fail(why);
}

void TcpTransport::Link::drop() {
  const auto self = shared_from_this();
  state = State::kDead;
  end_greeting();
  ErrorCondition ignored;
  socket.close(ignored);
  queue.clear();
  core->links.erase(id);
}

// --- all links ------------------------------------------------------------------------------

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
  ErrorCondition error;
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
  acceptor.async_accept(
      [self = shared_from_this()](const ErrorCondition& error, tcp::socket socket) {
        if (self->stopped) return;
        if (!error) {
          self->adopt(std::move(socket));
          return self->accept();
        }
        // The pending connection stays pending.
        if (error == asio::error::no_descriptors) self->make_room();
        self->accept_timer.expires_after(kAcceptBackoff);
        self->accept_timer.async_wait([self](const ErrorCondition&) {
          if (!self->stopped) self->accept();
        });
      });
}

void TcpTransport::Core::adopt(tcp::socket socket) {
  if (events == nullptr || links.size() >= options.connections) return;  // closes the socket
  ErrorCondition error;
  const tcp::endpoint from = socket.remote_endpoint(error);
  if (error) return;
  const std::string peer = peer_of_host(from.address().to_string());
  if (options.makes_room && handshakes.waits_for_room(peer, now())) make_room();
  if (!handshakes.begin(peer, now())) return;
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
  link->deadline = now() + options.first_frame_deadline;
  if (route.kind == RouteKind::kReverse) {
    TRY_VOID(await(link, route.ticket));
    links.emplace(link->id, link);
    return ok_status();
  }
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
    ErrorCondition error = asio::error::operation_aborted;
    if (link != nullptr && link->state == Link::State::kConnecting) {
      link->socket.assign(family_of(connection), connection, error);
    }
    if (error) {
      ::close(connection);
      return;
    }
    link->connected(TlsStream::Side::kClient);
  };
  return options.tickets->expect(ticket, hand, now());
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
  sweep_timer.async_wait([self = shared_from_this()](const ErrorCondition& error) {
    if (error || self->stopped) return;
    std::vector<std::shared_ptr<Link>> all;
    for (const auto& [id, link] : self->links) all.push_back(link);
    // After a pause of this process, silence is our own fault.
    const bool paused = now() - std::exchange(self->swept_at, now()) > kPause;
    for (const auto& link : all) {
      if (paused) link->read_at = now();
      if (link->state != Link::State::kDead) link->check_deadlines(now());
    }
    if (self->options.tickets != nullptr) self->options.tickets->forget_late(now());
    for (const Redial& redial : self->redials.take_due(now())) (void)self->meet(redial).ok();
    if (!self->stopped) self->sweep();
  });
}

Status TcpTransport::Core::meet(const Redial& meeting) {
  const auto link =
      std::make_shared<Link>(shared_from_this(), LinkId(++last_link), tcp::socket(io));
  link->redial = meeting;
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
  ErrorCondition ignored;
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
  REQUIRE(route.kind == RouteKind::kRelayed,
          "a route to meet a node must have a ticket and an address, got a ",
          route_name(route.kind), " one");
  return core_->meet({route, now() + std::chrono::seconds(limits::kTicketSeconds)});
}

void TcpTransport::adopt(int socket) {
  tcp::socket taken(core_->io);
  ErrorCondition error;
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
  ErrorCondition error;
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
