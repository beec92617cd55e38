#include "proto/link/relay.h"

#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <map>
#include <set>
#include <thread>
#include <utility>

#include "base/check.h"
#include "base/thread_annotations.h"
#include "proto/link/relay_shares.h"
#include "proto/link/socket_options.h"

namespace hearth {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using Failure = boost::system::error_code;

TimePoint relay_now() {
  return std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now().time_since_epoch());
}

}  // namespace

struct Relay::Core : std::enable_shared_from_this<Core> {
  explicit Core(const RelayOptions& given) : options(given), shares(given.bytes_per_second) {}

  Status enter(const std::string& account);
  void leave(const std::string& account);
  void start(std::array<int, 2> sockets, std::string account);

  struct Link;
  const RelayOptions options;
  asio::io_context io;
  asio::executor_work_guard<asio::io_context::executor_type> work{io.get_executor()};
  std::jthread thread;
  // Of the relay's thread.
  RelayShares shares;
  std::set<std::shared_ptr<Link>> open;

  mutable Mutex mutex;
  std::map<std::string, std::uint32_t> of_account GUARDED_BY(mutex);  // expected and forwarded
  std::uint32_t all GUARDED_BY(mutex) = 0;
  Figures figures GUARDED_BY(mutex);
};

namespace {

// The two ends of a link until both are here.
template <typename Core>
struct Pair {
  Pair(std::shared_ptr<Core> owner, std::string counted)
      : core(std::move(owner)), account(std::move(counted)) {}
  ~Pair() {
    for (const int socket : sockets) {
      if (socket >= 0) ::close(socket);
    }
    if (!started) core->leave(account);
  }
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;

  void take(std::size_t end, int socket) {
    INVARIANT(sockets[end] < 0, "a ticket brings one connection");
    sockets[end] = socket;
    if (sockets[1 - end] < 0) return;
    started = true;
    core->start(std::exchange(sockets, {-1, -1}), account);
  }

  const std::shared_ptr<Core> core;
  const std::string account;
  std::array<int, 2> sockets{-1, -1};
  bool started = false;
};

}  // namespace

// A link with both ends. On the relay's thread.
struct Relay::Core::Link : std::enable_shared_from_this<Link> {
  // One direction: from ends[from] to the other end.
  struct Flow {
    std::size_t from = 0;
    Bytes buffer;
    std::size_t begin = 0;  // of the bytes that wait to be sent
    std::size_t end = 0;
    bool ended = false;  // the sender has closed its side, and the receiver was told
  };

  Link(std::shared_ptr<Core> owner, std::string counted)
      : core(std::move(owner)),
        account(std::move(counted)),
        ends{tcp::socket(core->io), tcp::socket(core->io)},
        timer{asio::steady_timer(core->io), asio::steady_timer(core->io)},
        idle(core->io) {
    flows[1].from = 1;
  }

  void receive(Flow& flow);
  void read(Flow& flow);
  void send(Flow& flow);
  void finish(Flow& flow);
  void watch();
  void end();

  const std::shared_ptr<Core> core;
  const std::string account;
  std::array<tcp::socket, 2> ends;
  std::array<asio::steady_timer, 2> timer;  // of a flow that waits for its node's share
  asio::steady_timer idle;
  std::array<Flow, 2> flows;
  TimePoint moved_at = relay_now();
  bool over = false;
};

void Relay::Core::Link::receive(Flow& flow) {
  if (over) return;
  const Duration wait = core->shares.wait(account, relay_now());
  if (wait > Duration{0}) {
    timer[flow.from].expires_after(wait);
    timer[flow.from].async_wait([self = shared_from_this(), &flow](const Failure& error) {
      if (!error) self->receive(flow);
    });
    return;
  }
  ends[flow.from].async_wait(tcp::socket::wait_read,
                             [self = shared_from_this(), &flow](const Failure& error) {
                               if (self->over) return;
                               error ? self->end() : self->read(flow);
                             });
}

void Relay::Core::Link::read(Flow& flow) {
  INVARIANT(flow.begin == flow.end, "a flow reads when all that it has read is sent");
  if (flow.buffer.empty()) flow.buffer.resize(limits::kRelayBufferBytes);
  const ssize_t got =
      ::recv(ends[flow.from].native_handle(), flow.buffer.data(), flow.buffer.size(), MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return receive(flow);
  if (got < 0) return end();
  if (got == 0) return finish(flow);
  moved_at = relay_now();
  flow.begin = 0;
  flow.end = static_cast<std::size_t>(got);
  core->shares.spend(account, flow.end, moved_at);
  {
    const MutexLock lock(core->mutex);
    core->figures.bytes_total += flow.end;
  }
  send(flow);
}

void Relay::Core::Link::send(Flow& flow) {
  tcp::socket& to = ends[1 - flow.from];
  while (flow.begin < flow.end) {
    const ssize_t sent = ::send(to.native_handle(), flow.buffer.data() + flow.begin,
                                flow.end - flow.begin, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno == EAGAIN) {
      to.async_wait(tcp::socket::wait_write,
                    [self = shared_from_this(), &flow](const Failure& error) {
                      if (self->over) return;
                      error ? self->end() : self->send(flow);
                    });
      return;
    }
    if (sent < 0) return end();
    moved_at = relay_now();
    flow.begin += static_cast<std::size_t>(sent);
  }
  // Other links get their turn before this one reads again.
  asio::post(core->io, [self = shared_from_this(), &flow] { self->receive(flow); });
}

// The last bytes of the other direction, perhaps a refusal, still pass.
void Relay::Core::Link::finish(Flow& flow) {
  flow.ended = true;
  if (flows[1 - flow.from].ended) return end();
  ::shutdown(ends[1 - flow.from].native_handle(), SHUT_WR);
}

void Relay::Core::Link::watch() {
  idle.expires_after(core->options.idle);
  idle.async_wait([self = shared_from_this()](const Failure& error) {
    if (error || self->over) return;
    relay_now() - self->moved_at >= self->core->options.idle ? self->end() : self->watch();
  });
}

void Relay::Core::Link::end() {
  if (std::exchange(over, true)) return;
  const auto self = shared_from_this();
  Failure ignored;
  for (tcp::socket& socket : ends) socket.close(ignored);
  for (asio::steady_timer& one : timer) one.cancel();
  idle.cancel();
  core->open.erase(self);
  {
    const MutexLock lock(core->mutex);
    INVARIANT(core->figures.links > 0, "a link that ends was counted");
    --core->figures.links;
  }
  core->leave(account);
}

Status Relay::Core::enter(const std::string& account) {
  const MutexLock lock(mutex);
  std::uint32_t& own = of_account[account];
  const bool full = all >= options.links;
  if (full || own >= options.links_of_node) {
    const std::uint32_t limit = full ? options.links : options.links_of_node;
    if (own == 0) of_account.erase(account);
    return Error::of(ErrorCode::kNoCapacity, "the relay forwards ", limit, " links",
                     full ? "" : " of " + account, ", which is its limit");
  }
  ++all;
  ++own;
  return ok_status();
}

void Relay::Core::leave(const std::string& account) {
  bool last = false;
  {
    const MutexLock lock(mutex);
    const auto own = of_account.find(account);
    INVARIANT(all > 0 && own != of_account.end() && own->second > 0,
              "a link that leaves has entered");
    --all;
    last = --own->second == 0;
    if (last) of_account.erase(own);
  }
  if (!last) return;
  asio::post(io, [self = shared_from_this(), account] { self->shares.forget(account); });
}

void Relay::Core::start(std::array<int, 2> sockets, std::string account) {
  for (const int socket : sockets) tune_link_socket(socket);
  {
    const MutexLock lock(mutex);
    ++figures.links;
  }
  asio::post(io, [self = shared_from_this(), sockets, account = std::move(account)] {
    const auto link = std::make_shared<Link>(self, account);
    self->open.insert(link);
    bool whole = true;
    for (std::size_t i = 0; i < sockets.size(); ++i) {
      Failure error;
      link->ends[i].assign(is_ipv6_socket(sockets[i]) ? tcp::v6() : tcp::v4(), sockets[i], error);
      if (error) ::close(sockets[i]);
      whole = whole && !error;
    }
    if (!whole) return link->end();
    link->watch();
    for (Link::Flow& flow : link->flows) link->receive(flow);
  });
}

Relay::Relay(std::shared_ptr<TicketBook> tickets, const RelayOptions& options)
    : tickets_(std::move(tickets)), core_(std::make_shared<Core>(options)) {
  core_->thread = std::jthread([core = core_.get()] { core->io.run(); });
}

Relay::~Relay() {
  core_->work.reset();
  asio::post(core_->io, [core = core_.get()] {
    const auto all = core->open;
    for (const auto& link : all) link->end();
  });
  core_->thread.join();
}

Status Relay::expect(const Ticket& dialler, const Ticket& acceptor, const std::string& account,
                     TimePoint now) {
  TRY_VOID(core_->enter(account));
  const auto pair = std::make_shared<Pair<Core>>(core_, account);
  TRY_VOID(tickets_->expect(
      dialler, [pair](int socket) { pair->take(0, socket); }, now));
  const Status second = tickets_->expect(
      acceptor, [pair](int socket) { pair->take(1, socket); }, now);
  if (!second.ok()) tickets_->forget(dialler);
  return second;
}

Relay::Figures Relay::figures() const {
  const MutexLock lock(core_->mutex);
  return core_->figures;
}

}  // namespace hearth
