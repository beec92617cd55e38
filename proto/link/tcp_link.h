// What a TcpTransport has of its own: the state of one link, and of all. Only tcp_link.cc, with
// what one link does, and tcp_transport.cc include it.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "proto/link/frame_reader.h"
#include "proto/link/redials.h"
#include "proto/link/route.h"
#include "proto/link/send_queue.h"
#include "proto/link/tcp_punch.h"
#include "proto/link/tcp_transport.h"

namespace hearth {

namespace asio = boost::asio;
using asio::ip::tcp;
using SocketError = boost::system::error_code;

// Bound for one link before the other links and the heartbeat timers run: where each frame is
// computed on arrival, the next one is always waiting.
inline constexpr std::size_t kReadTurnBytes = 1 * limits::kMiB;
inline constexpr Duration kLinger = std::chrono::seconds(1);

inline TimePoint link_now() {
  return std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now().time_since_epoch());
}
inline Error io_error(std::string what, const SocketError& error) {
  return Error::of(ErrorCode::kIo, std::move(what), ": ", error.message());
}
inline Error unavailable(std::string message) {
  return {ErrorCode::kUnavailable, std::move(message)};
}

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
  std::optional<Redial> redial = {};     // until the other side speaks
  std::shared_ptr<TcpPunch> punch = {};  // until it has connected
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
  Status punch(const std::shared_ptr<Link>& link, const Route& route, TlsStream::Side side);
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
  TimePoint swept_at = link_now();
  std::uint64_t last_link = 0;
  std::unordered_map<LinkId, std::shared_ptr<Link>> links;
  Redials redials;
  bool stopped = false;
};

}  // namespace hearth
