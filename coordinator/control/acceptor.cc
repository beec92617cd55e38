#include "coordinator/control/acceptor.h"

#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <cstddef>
#include <map>
#include <mutex>
#include <utility>

#include "base/check.h"
#include "base/peer_host.h"
#include "proto/link/control_links.h"
#include "proto/link/tickets.h"

namespace hearth::coordinator {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using asio::local::stream_protocol;
using ErrorCondition = boost::system::error_code;

constexpr std::size_t kReadBytes = 4 * limits::kKiB;
constexpr std::size_t kAnswerBytes = 16 * limits::kKiB;
constexpr Duration kLogInterval = std::chrono::seconds(1);  // between two lines about refusals
constexpr Duration kAcceptBackoff = std::chrono::milliseconds(100);  // out of descriptors, likely
constexpr Duration kLinger = std::chrono::seconds(1);  // for a peer to read the last bytes

TimePoint now() {
  return std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now().time_since_epoch());
}

Error listen_error(const Address& address, const ErrorCondition& why) {
  return Error::of(ErrorCode::kIo, "the control plane cannot listen on ", address.text(), ": ",
                   why.message(), "; another process may hold the port");
}

// The kernel gives our end of a pair a name that no other socket of this machine has, and gRPC
// tells it with every call, as "unix-abstract:NAME".
std::string name_socket(int socket) {
  sockaddr_un at{};
  at.sun_family = AF_UNIX;
  if (::bind(socket, reinterpret_cast<const sockaddr*>(&at), sizeof(at.sun_family)) != 0) return "";
  socklen_t size = sizeof(at);
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&at), &size) != 0) return "";
  const std::size_t before = offsetof(sockaddr_un, sun_path) + 1;
  return size <= before ? "" : "unix-abstract:" + std::string(at.sun_path + 1, size - before);
}

}  // namespace

struct ControlAcceptor::Core : std::enable_shared_from_this<Core> {
  Core(asio::io_context& context, const ControlLimits& given, Hands given_hands)
      : io(context),
        limits(given),
        hands(std::move(given_hands)),
        acceptor(context),
        accept_timer(context),
        log_timer(context),
        strangers(given.strangers) {}

  Result<Address> listen(const Address& address);
  void accept();
  void adopt(tcp::socket socket);
  void make_room();
  void refused_one(const std::string& host);
  void log_refusals();
  void stop();

  asio::io_context& io;
  const ControlLimits limits;
  const Hands hands;
  tcp::acceptor acceptor;
  asio::steady_timer accept_timer;
  asio::steady_timer log_timer;
  Address address;
  bool stopped = false;

  Handshakes strangers;
  std::uint64_t last_id = 0;
  std::map<std::uint64_t, std::shared_ptr<Connection>> connections;  // from the oldest
  std::uint64_t refused = 0;                                         // and not yet logged
  std::string refused_last;
  TimePoint logged_at{};
  bool log_planned = false;

  mutable std::mutex mutex;                    // for callers
  std::map<std::string, std::string> callers;  // hosts by the names of our ends of the pairs
};

// One connection that is not yet, or never, a worker's.
struct ControlAcceptor::Connection : std::enable_shared_from_this<Connection> {
  Connection(std::shared_ptr<Core> owner, std::uint64_t number, tcp::socket socket,
             std::string from)
      : core(std::move(owner)),
        id(number),
        peer(std::move(socket)),
        grpc(core->io),
        timer(core->io),
        host(std::move(from)),
        counted(peer_of_host(host)) {}

  void wait_for_first_byte();
  void end_in(Duration time);
  void see_first_byte();
  bool open_pair();
  void carry_in();
  void carry_out();
  void linger();
  void end();

  const std::shared_ptr<Core> core;
  const std::uint64_t id;
  tcp::socket peer;
  stream_protocol::socket grpc;  // our end of the pair, while there is one
  asio::steady_timer timer;
  const std::string host;
  const std::string counted;  // as whom among the strangers
  std::string name;           // of our end of the pair
  bool ended = false;
  bool heard_all = false;  // the peer has ended its side
  bool lingering = false;  // gRPC has ended it
  std::uint64_t received = 0;
  std::array<std::byte, kAnswerBytes> answer{};
};

void ControlAcceptor::Connection::wait_for_first_byte() {
  peer.async_wait(tcp::socket::wait_read, [self = shared_from_this()](const ErrorCondition& error) {
    if (self->ended) return;
    error ? self->end() : self->see_first_byte();
  });
}

void ControlAcceptor::Connection::end_in(Duration time) {
  timer.expires_after(time);
  timer.async_wait([self = shared_from_this()](const ErrorCondition& error) {
    if (!error) self->end();
  });
}

void ControlAcceptor::Connection::see_first_byte() {
  std::byte first{};
  const ssize_t got = ::recv(peer.native_handle(), &first, 1, MSG_PEEK | MSG_DONTWAIT);
  if (got < 0 && errno == EAGAIN) return wait_for_first_byte();
  if (got != 1) return end();
  if (first != kControlByte && first != kMemberByte && first != kTicketByte) {
    if (!open_pair()) return end();
    carry_in();
    return carry_out();
  }
  if (first != kTicketByte) (void)::recv(peer.native_handle(), &first, 1, MSG_DONTWAIT);
  ErrorCondition error;
  const int socket = peer.release(error);
  end();
  if (error) return;
  if (first == kTicketByte) return core->hands.ticket(socket);
  first == kMemberByte ? core->hands.member(socket) : core->hands.session(socket);
}

bool ControlAcceptor::Connection::open_pair() {
  int ends[2] = {-1, -1};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) != 0) return false;
  name = name_socket(ends[0]);
  ErrorCondition error;
  grpc.assign(stream_protocol(), ends[0], error);
  INVARIANT(!error, "a socket of a new pair is a socket");
  {
    const std::lock_guard lock(core->mutex);
    core->callers[name] = host;
  }
  core->hands.call(ends[1]);
  return true;
}

// The byte limit of a connection fits the socket pair's buffer, so writing there never blocks.
void ControlAcceptor::Connection::carry_in() {
  peer.async_wait(tcp::socket::wait_read, [self = shared_from_this()](const ErrorCondition& error) {
    if (self->ended) return;
    if (error) return self->end();
    std::array<std::byte, kReadBytes> bytes;
    const ssize_t got =
        ::recv(self->peer.native_handle(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (got < 0 && errno == EAGAIN) return self->carry_in();
    if (got < 0) return self->end();
    if (got == 0 && self->lingering) return self->end();
    if (got == 0) {
      self->heard_all = true;
      ErrorCondition ignored;
      self->grpc.shutdown(stream_protocol::socket::shutdown_send, ignored);
      return;
    }
    if (self->lingering) return self->carry_in();  // read, so that its last answer is not lost
    self->received += static_cast<std::uint64_t>(got);
    if (self->received > self->core->limits.stranger_bytes) {
      spdlog::warn("a control connection of {} is closed: it sent {} bytes; the limit is {}",
                   self->host, self->received, self->core->limits.stranger_bytes);
      return self->end();
    }
    const auto size = static_cast<std::size_t>(got);
    if (::send(self->grpc.native_handle(), bytes.data(), size, MSG_NOSIGNAL) != got) {
      return self->linger();
    }
    self->carry_in();
  });
}

void ControlAcceptor::Connection::carry_out() {
  grpc.async_read_some(asio::buffer(answer), [self = shared_from_this()](
                                                 const ErrorCondition& error, std::size_t bytes) {
    if (self->ended) return;
    if (error) return self->linger();
    asio::async_write(self->peer, asio::buffer(self->answer, bytes),
                      [self](const ErrorCondition& failed, std::size_t /*written*/) {
                        if (self->ended) return;
                        failed ? self->end() : self->carry_out();
                      });
  });
}

void ControlAcceptor::Connection::linger() {
  if (heard_all) return end();
  if (std::exchange(lingering, true)) return;
  ErrorCondition ignored;
  peer.shutdown(tcp::socket::shutdown_send, ignored);
  end_in(kLinger);
}

void ControlAcceptor::Connection::end() {
  if (std::exchange(ended, true)) return;
  const auto self = shared_from_this();
  ErrorCondition ignored;
  peer.close(ignored);
  grpc.close(ignored);
  timer.cancel();
  core->strangers.end(counted);
  core->connections.erase(id);
  const std::lock_guard lock(core->mutex);
  core->callers.erase(name);
}

Result<Address> ControlAcceptor::Core::listen(const Address& at) {
  ErrorCondition error;
  const asio::ip::address host = asio::ip::make_address(at.host, error);
  if (error) return listen_error(at, error);
  const tcp::endpoint endpoint(host, at.port);
  acceptor.open(endpoint.protocol(), error);
  if (error) return listen_error(at, error);
  acceptor.set_option(asio::socket_base::reuse_address(true), error);
  acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
  if (error) return listen_error(at, error);
  const tcp::endpoint local = acceptor.local_endpoint(error);
  if (error) return listen_error(at, error);
  return Address{at.host, local.port()};
}

void ControlAcceptor::Core::accept() {
  acceptor.async_accept(
      [self = shared_from_this()](const ErrorCondition& error, tcp::socket socket) {
        if (self->stopped) return;
        if (!error) {
          self->adopt(std::move(socket));
          return self->accept();
        }
        if (error == asio::error::no_descriptors) self->make_room();
        self->accept_timer.expires_after(kAcceptBackoff);
        self->accept_timer.async_wait([self](const ErrorCondition&) {
          if (!self->stopped) self->accept();
        });
      });
}

void ControlAcceptor::Core::adopt(tcp::socket socket) {
  ErrorCondition error;
  const tcp::endpoint from = socket.remote_endpoint(error);
  if (error) return;
  asio::ip::address host = from.address();
  if (host.is_v6() && host.to_v6().is_v4_mapped()) {
    host = asio::ip::make_address_v4(asio::ip::v4_mapped, host.to_v6());
  }
  const std::string peer = peer_of_host(host.to_string());
  if (strangers.waits_for_room(peer, now())) make_room();
  if (!strangers.begin(peer, now())) return refused_one(host.to_string());
  socket.non_blocking(true, error);
  socket.set_option(tcp::no_delay(true), error);
  const auto connection = std::make_shared<Connection>(shared_from_this(), ++last_id,
                                                       std::move(socket), host.to_string());
  connections.emplace(last_id, connection);
  connection->end_in(limits.stranger_time);
  connection->wait_for_first_byte();
}

// Unauthenticated connections that fill the table must not keep members out. The oldest connection
// of the address with the most ends, so a peer with a single, quick connection keeps it.
void ControlAcceptor::Core::make_room() {
  std::shared_ptr<Connection> chosen;
  std::uint32_t most = 0;
  for (const auto& [id, one] : connections) {
    const std::uint32_t neighbours = strangers.under_way(one->counted);
    if (neighbours <= most) continue;
    chosen = one;
    most = neighbours;
  }
  if (chosen == nullptr) return;
  refused_one(chosen->host);
  chosen->end();
}

void ControlAcceptor::Core::refused_one(const std::string& host) {
  ++refused;
  refused_last = host;
  if (std::exchange(log_planned, true)) return;
  log_timer.expires_after(std::max(Duration{0}, logged_at + kLogInterval - now()));
  log_timer.async_wait([self = shared_from_this()](const ErrorCondition& error) {
    if (!error) self->log_refusals();
  });
}

void ControlAcceptor::Core::log_refusals() {
  spdlog::warn("{} control connections were refused: too many at once, the last of {}", refused,
               refused_last);
  log_planned = false;
  refused = 0;
  logged_at = now();
}

void ControlAcceptor::Core::stop() {
  stopped = true;
  ErrorCondition ignored;
  acceptor.close(ignored);
  accept_timer.cancel();
  log_timer.cancel();
  const auto all = connections;
  for (const auto& [id, connection] : all) connection->end();
}

ControlAcceptor::ControlAcceptor(std::shared_ptr<Core> core) : core_(std::move(core)) {}

ControlAcceptor::~ControlAcceptor() { stop(); }

void ControlAcceptor::stop() { core_->stop(); }

Result<std::unique_ptr<ControlAcceptor>> ControlAcceptor::open(asio::io_context& io,
                                                               const Address& address,
                                                               const ControlLimits& limits,
                                                               Hands hands) {
  auto core = std::make_shared<Core>(io, limits, std::move(hands));
  TRY(core->address, core->listen(address));
  core->accept();
  return std::unique_ptr<ControlAcceptor>(new ControlAcceptor(std::move(core)));
}

const Address& ControlAcceptor::address() const { return core_->address; }

std::string ControlAcceptor::caller(const std::string& grpc_peer) const {
  const std::lock_guard lock(core_->mutex);
  const auto found = core_->callers.find(grpc_peer);
  return found == core_->callers.end() ? "" : found->second;
}

}  // namespace hearth::coordinator
