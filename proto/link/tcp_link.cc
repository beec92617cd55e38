// What one link of a TcpTransport does.
#include "proto/link/tcp_link.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/post.hpp>

#include "base/check.h"
#include "proto/link/control_links.h"
#include "proto/link/ping.h"
#include "proto/link/socket_options.h"

namespace hearth {
namespace {

constexpr Duration kReadTurn = std::chrono::milliseconds(5);
// A connection may show its ticket a little before the coordinator's order to expect it.
constexpr Duration kTicketGrace = std::chrono::seconds(1);

bool has_bytes(int socket) {
  char first = 0;
  return ::recv(socket, &first, 1, MSG_PEEK | MSG_DONTWAIT) == 1;
}

}  // namespace

TcpTransport::Link::Link(std::shared_ptr<Core> owner, LinkId link, tcp::socket connection)
    : core(std::move(owner)),
      id(link),
      socket(std::move(connection)),
      reader(core->options.kind, core->options.frame_bytes) {}

void TcpTransport::Link::dial(const tcp::endpoint& endpoint, TlsStream::Side side) {
  incoming = side == TlsStream::Side::kServer;
  socket.async_connect(endpoint, [self = shared_from_this(), side](const SocketError& error) {
    if (self->state != State::kConnecting) return;
    if (error) return self->fail(unavailable("connecting: " + error.message()));
    // A free port of the ephemeral range may connect to itself.
    SocketError ignored;
    if (self->socket.local_endpoint(ignored) == self->socket.remote_endpoint(ignored)) {
      return self->fail(unavailable("connecting: no process listens at this address"));
    }
    self->connected(side);
  });
}

void TcpTransport::Link::connected(TlsStream::Side side) {
  tune_link_socket(socket.native_handle(), core->options.unread_deadline);
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
  deadline = link_now() + core->options.handshake_deadline;
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
  deadline = std::min(deadline, link_now() + kTicketGrace);
  hand_over();
}

// The connection leaves this link, for the one that expects it. False: none does yet.
bool TcpTransport::Link::hand_over() {
  const TicketBook::Hand hand = core->options.tickets->take(shown.ticket(), link_now());
  if (hand == nullptr) return false;
  SocketError error;
  const int taken = socket.release(error);
  const auto self = shared_from_this();
  drop();
  if (!error) hand(taken);
  return true;
}

void TcpTransport::Link::greet(TlsStream::Side side) {
  // The first bytes of an incoming connection are a part of its handshake.
  if (state != State::kGreeting) deadline = link_now() + core->options.handshake_deadline;
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
  read_at = written_at = link_now();
  deadline = incoming ? link_now() + core->options.first_frame_deadline : TimePoint{0};
  if (core->events != nullptr) core->events->on_link_open(id, incoming);
  if (state == State::kOpen) write();
  if (state != State::kDead) read();
}

void TcpTransport::Link::wait_for(tcp::socket::wait_type what, void (Link::*then)()) {
  socket.async_wait(what, [self = shared_from_this(), then](const SocketError& error) {
    if (self->state == State::kDead) return;
    if (error) return self->fail(io_error("waiting for the link", error));
    (self.get()->*then)();
  });
}

// Reads until TLS asks for more, because TLS may hold bytes that the socket no longer shows, or
// until the link's turn ends (kReadTurn, kReadTurnBytes).
void TcpTransport::Link::read() {
  const TimePoint end = link_now() + kReadTurn;
  for (std::size_t taken = 0; taken < kReadTurnBytes && link_now() < end;) {
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
  read_at = link_now();
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
  if (queue.empty()) written_at = link_now();
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
        written_at = link_now();
        queue.consume(bytes);
        break;
      case TlsStream::Step::kWantRead: return wait_to_write(tcp::socket::wait_read);
      case TlsStream::Step::kWantWrite: return wait_to_write(tcp::socket::wait_write);
      case TlsStream::Step::kClosed:
      case TlsStream::Step::kFailed:
        // The peer's last frames, perhaps a refusal, may still be unread. The reader ends the link
        // after them.
        write_failed = true;
        deadline = link_now() + kLinger;
        return;
    }
  }
  answer_next();
  if (state == State::kLingering) {
    tls->records().shutdown();
    SocketError ignored;
    socket.shutdown(tcp::socket::shutdown_send, ignored);
  }
}

void TcpTransport::Link::wait_to_write(tcp::socket::wait_type what) {
  waiting_to_write = true;
  socket.async_wait(what, [self = shared_from_this()](const SocketError& error) {
    self->waiting_to_write = false;
    if (self->state == State::kDead) return;
    if (error) return self->fail(io_error("waiting to send", error));
    self->write();
  });
}

void TcpTransport::Link::linger() {
  state = State::kLingering;
  deadline = link_now() + kLinger;
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
  if (refused && redial && core->redials.put(*redial, link_now())) return;
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
  SocketError ignored;
  socket.close(ignored);
  if (punch != nullptr) std::exchange(punch, nullptr)->cancel();
  queue.clear();
  core->links.erase(id);
}

}  // namespace hearth
