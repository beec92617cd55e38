#include "proto/link/relay.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <map>
#include <optional>
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

  struct Counts {
    std::uint32_t all = 0;  // expected and forwarded
    std::uint32_t brief = 0;
  };
  Status enter(const std::string& account, bool brief);
  void leave(const std::string& account, bool brief);
  void start(const std::shared_ptr<Pair>& pair);
  bool keeps(const std::string& account) const { return !kept || kept->contains(account); }

  struct Link;
  const RelayOptions options;
  asio::io_context io;
  asio::executor_work_guard<asio::io_context::executor_type> work{io.get_executor()};
  std::jthread thread;
  // Of the relay's thread.
  RelayShares shares;
  std::set<std::shared_ptr<Link>> open;
  std::optional<std::set<std::string>> kept;  // accounts; nothing: all

  mutable Mutex mutex;
  std::map<std::string, Counts> of_account GUARDED_BY(mutex);
  Counts all GUARDED_BY(mutex);
  Figures figures GUARDED_BY(mutex);
};

// The two ends of a link until both are here. The book of tickets may outlive the relay.
struct Relay::Pair : std::enable_shared_from_this<Pair> {
  Pair(std::weak_ptr<Core> owner, std::string counted, bool is_brief)
      : core(std::move(owner)), account(std::move(counted)), brief(is_brief) {}
  ~Pair() {
    for (const int socket : sockets) {
      if (socket >= 0) ::close(socket);
    }
    const auto relay = core.lock();
    if (counts && relay != nullptr) relay->leave(account, brief);
  }
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;

  void take(std::size_t end, int socket) {
    INVARIANT(sockets[end] < 0, "a ticket brings one connection");
    sockets[end] = socket;
    const auto relay = core.lock();
    if (sockets[1 - end] >= 0 && relay != nullptr) relay->start(shared_from_this());
  }

  const std::weak_ptr<Core> core;
  const std::string account;
  const bool brief;
  std::array<int, 2> sockets{-1, -1};  // closed with the pair, unless a link has taken them
  bool counts = true;                  // until a link does
};

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

  Link(std::shared_ptr<Core> owner, const Pair& pair)
      : core(std::move(owner)),
        account(pair.account),
        brief(pair.brief),
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
  const bool brief;
  std::array<tcp::socket, 2> ends;
  std::array<asio::steady_timer, 2> timer;  // of a flow that waits for its node's share
  asio::steady_timer idle;
  std::array<Flow, 2> flows;
  const TimePoint began = relay_now();
  TimePoint moved_at = began;
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
  const std::size_t most = std::min(flow.buffer.size(), core->shares.piece(relay_now()));
  const ssize_t got =
      ::recv(ends[flow.from].native_handle(), flow.buffer.data(), most, MSG_DONTWAIT);
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
  const RelayOptions& given = core->options;
  idle.expires_after(brief ? std::min(given.idle, given.brief) : given.idle);
  idle.async_wait([self = shared_from_this()](const Failure& error) {
    if (error || self->over) return;
    const RelayOptions& most = self->core->options;
    const bool late = self->brief && relay_now() - self->began >= most.brief;
    late || relay_now() - self->moved_at >= most.idle ? self->end() : self->watch();
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
  core->leave(account, brief);
}

Status Relay::Core::enter(const std::string& account, bool brief) {
  const MutexLock lock(mutex);
  const auto found = of_account.find(account);
  const Counts own = found == of_account.end() ? Counts() : found->second;
  const auto refuse = [&](std::uint32_t limit, const std::string& whose) {
    return Error::of(ErrorCode::kNoCapacity, "the relay forwards ", limit, " links", whose,
                     ", which is its limit. Try again later, or offer another relay: hearth worker "
                     "--relay");
  };
  if (all.all >= options.links) return refuse(options.links, "");
  if (own.all >= options.links_of_node) return refuse(options.links_of_node, " of " + account);
  if (brief && all.brief >= options.brief_links) {
    return refuse(options.brief_links, " of commands");
  }
  if (brief && own.brief >= options.brief_links_of_node) {
    return refuse(options.brief_links_of_node, " of commands of " + account);
  }
  for (Counts* counts : {&all, &of_account[account]}) {
    ++counts->all;
    if (brief) ++counts->brief;
  }
  return ok_status();
}

void Relay::Core::leave(const std::string& account, bool brief) {
  bool last = false;
  {
    const MutexLock lock(mutex);
    const auto own = of_account.find(account);
    INVARIANT(all.all > 0 && own != of_account.end() && own->second.all > 0,
              "a link that leaves has entered");
    for (Counts* counts : {&all, &own->second}) {
      --counts->all;
      if (brief) --counts->brief;
    }
    last = own->second.all == 0;
    if (last) of_account.erase(own);
  }
  if (!last) return;
  // Weak: what waits in `io` would keep its own owner alive.
  asio::post(io, [weak = weak_from_this(), account] {
    if (const auto self = weak.lock()) self->shares.forget(account, relay_now());
  });
}

void Relay::Core::start(const std::shared_ptr<Pair>& pair) {
  for (const int socket : pair->sockets) tune_link_socket(socket);
  asio::post(io, [weak = weak_from_this(), pair] {
    const auto self = weak.lock();
    if (self == nullptr || !self->keeps(pair->account)) return;
    const auto link = std::make_shared<Link>(self, *pair);
    self->open.insert(link);
    pair->counts = false;
    {
      const MutexLock lock(self->mutex);
      ++self->figures.links;
    }
    bool whole = true;
    for (std::size_t i = 0; i < pair->sockets.size(); ++i) {
      const int socket = pair->sockets[i];
      Failure error;
      link->ends[i].assign(is_ipv6_socket(socket) ? tcp::v6() : tcp::v4(), socket, error);
      if (!error) pair->sockets[i] = -1;
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
                     TimePoint now, bool brief) {
  TRY_VOID(core_->enter(account, brief));
  const auto pair = std::make_shared<Pair>(core_, account, brief);
  TRY_VOID(tickets_->expect(
      dialler, [pair](int socket) { pair->take(0, socket); }, now));
  const Status second = tickets_->expect(
      acceptor, [pair](int socket) { pair->take(1, socket); }, now);
  if (!second.ok()) tickets_->forget(dialler);
  return second;
}

void Relay::keep_only(std::set<std::string> accounts) {
  asio::post(core_->io, [core = core_.get(), accounts = std::move(accounts)]() mutable {
    core->kept = std::move(accounts);
    const auto all = core->open;
    for (const auto& link : all) {
      if (!core->keeps(link->account)) link->end();
    }
  });
}

Relay::Figures Relay::figures() const {
  const MutexLock lock(core_->mutex);
  return core_->figures;
}

}  // namespace hearth
