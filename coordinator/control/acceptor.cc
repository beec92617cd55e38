#include "coordinator/control/acceptor.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>

namespace hearth::coordinator {
namespace {

// Between two looks at all connections, for how long each has been here; at what one says it is
// looked at as soon as that has come.
constexpr Duration kLook = std::chrono::milliseconds(50);
constexpr double kMessageBytes = 1.02;              // on the wire, of each byte of a long message
constexpr Duration kSay = std::chrono::seconds(1);  // between two lines about refusals
constexpr Duration kBackoff = std::chrono::milliseconds(100);  // out of descriptors, most likely
constexpr int kAcceptsATurn = 64;
constexpr int kSpeakersATurn = 64;

// Which socket a descriptor is. gRPC owns it and may have closed it, and the number is soon
// another's; this pair is nobody else's while the machine runs.
struct SocketId {
  dev_t device = 0;
  ino_t inode = 0;
  friend bool operator==(const SocketId&, const SocketId&) = default;
};

std::optional<SocketId> socket_id(int descriptor) {
  struct stat info {};
  if (::fstat(descriptor, &info) != 0) return std::nullopt;
  return SocketId{info.st_dev, info.st_ino};
}

// Ends the connection at both ends, so that gRPC reads the end of it; never that of another.
void cut(int descriptor, const SocketId& id) {
  const int held = ::fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
  if (held < 0) return;
  if (socket_id(held) == id) ::shutdown(held, SHUT_RDWR);
  ::close(held);
}

std::uint64_t received(int descriptor) {
  tcp_info info{};
  socklen_t size = sizeof(info);
  if (::getsockopt(descriptor, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return 0;
  return info.tcpi_bytes_received;
}

// As gRPC writes it of the same peer.
Address address_of(const sockaddr_storage& from) {
  char text[INET6_ADDRSTRLEN] = "";
  if (from.ss_family == AF_INET) {
    const auto& four = reinterpret_cast<const sockaddr_in&>(from);
    ::inet_ntop(AF_INET, &four.sin_addr, text, sizeof(text));
    return {text, ntohs(four.sin_port)};
  }
  const auto& six = reinterpret_cast<const sockaddr_in6&>(from);
  const std::uint16_t port = ntohs(six.sin6_port);
  if (IN6_IS_ADDR_V4MAPPED(&six.sin6_addr)) {
    ::inet_ntop(AF_INET, &six.sin6_addr.s6_addr[12], text, sizeof(text));
    return {text, port};
  }
  ::inet_ntop(AF_INET6, &six.sin6_addr, text, sizeof(text));
  const std::string scope = six.sin6_scope_id == 0 ? "" : "%" + std::to_string(six.sin6_scope_id);
  return {text + scope, port};
}

Result<int> listen_on(const Address& address) {
  sockaddr_storage at{};
  socklen_t size = sizeof(sockaddr_in);
  auto& four = reinterpret_cast<sockaddr_in&>(at);
  if (::inet_pton(AF_INET, address.host.c_str(), &four.sin_addr) == 1) {
    four.sin_family = AF_INET;
    four.sin_port = htons(address.port);
  } else {
    at = {};
    auto& six = reinterpret_cast<sockaddr_in6&>(at);
    size = sizeof(six);
    REQUIRE(::inet_pton(AF_INET6, address.host.c_str(), &six.sin6_addr) == 1,
            address.host + " is no numeric address");
    six.sin6_family = AF_INET6;
    six.sin6_port = htons(address.port);
  }
  const int listener = ::socket(at.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  const int on = 1;
  const bool listens = listener >= 0 &&
                       ::setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0 &&
                       ::bind(listener, reinterpret_cast<const sockaddr*>(&at), size) == 0 &&
                       ::listen(listener, SOMAXCONN) == 0;
  if (listens) return listener;
  const int why = errno;
  if (listener >= 0) ::close(listener);
  return Error{ErrorCode::kIo, "the control plane cannot listen on " + address.text() + ": " +
                                   std::strerror(why) + "; another process may hold the port"};
}

}  // namespace

struct ControlAcceptor::Core {
  explicit Core(const ControlLimits& given) : limits(given), strangers(given.strangers) {}
  ~Core() {
    for (const int descriptor : {listener, wake, speakers}) {
      if (descriptor >= 0) ::close(descriptor);
    }
  }

  struct Held {
    int socket = -1;  // gRPC's
    SocketId id;
    std::string counted;  // as whom among the strangers; empty: not, or no longer
    bool stranger = true;
    bool cut = false;            // by us; gRPC closes it next
    TimePoint since{};           // it is a stranger's
    TimePoint looked{};          // and then there were so many
    std::uint64_t bytes = 0;     // received,
    std::uint64_t messages = 0;  // brought in messages,
    double said = 0.0;           // and beside these, as far as it counts
    std::shared_ptr<ControlConnection> shared = std::make_shared<ControlConnection>();
  };
  using Connections = std::map<std::pair<std::string, std::uint16_t>, Held>;

  void run();
  void accept_all();
  void adopt(int socket, const sockaddr_storage& from);
  bool may_begin(const std::string& peer);
  void make_room();
  void hear_speakers();
  void look();
  void look_at(const std::string& host, Held& held);
  bool may_stay(const std::string& host, Held& held);
  void count(Held& held, TimePoint now) const;
  Connections::iterator forget(Connections::iterator held);
  void say_refusals();

  const ControlLimits limits;
  const SystemClock clock{};
  int listener = -1;
  int wake = -1;
  int speakers = -1;  // epoll: sockets to which something came
  Address address;
  Hand hand;
  std::thread thread;
  std::atomic<bool> stopping{false};

  // The acceptor's thread only.
  Handshakes strangers;
  TimePoint looked{};
  TimePoint said{};
  TimePoint rests_until{};
  std::uint64_t refused = 0;  // and not yet said
  std::string refused_last;

  mutable std::mutex mutex;  // guards connections where others than the acceptor read them
  Connections connections;
};

void ControlAcceptor::Core::run() {
  while (!stopping) {
    const bool rests = clock.now() < rests_until;
    pollfd wanted[3] = {
        {wake, POLLIN, 0}, {rests ? -1 : listener, POLLIN, 0}, {speakers, POLLIN, 0}};
    const bool idle = connections.empty() && refused == 0 && !rests;
    const auto most = std::chrono::duration_cast<std::chrono::milliseconds>(kLook);
    (void)::poll(wanted, 3, idle ? -1 : static_cast<int>(most.count()));
    if (stopping) return;
    if (wanted[2].revents != 0) hear_speakers();
    if (wanted[1].revents != 0) accept_all();
    if (clock.now() - looked >= kLook) look();
    say_refusals();
  }
}

void ControlAcceptor::Core::accept_all() {
  for (int i = 0; i < kAcceptsATurn; ++i) {
    sockaddr_storage from{};
    socklen_t size = sizeof(from);
    const int socket = ::accept4(listener, reinterpret_cast<sockaddr*>(&from), &size,
                                 SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (socket >= 0) {
      adopt(socket, from);
      continue;
    }
    if (errno == ECONNABORTED || errno == EINTR) continue;
    if (errno != EAGAIN && errno != EWOULDBLOCK) rests_until = clock.now() + kBackoff;
    return;
  }
}

void ControlAcceptor::Core::adopt(int socket, const sockaddr_storage& from) {
  const Address peer = address_of(from);
  const auto id = socket_id(socket);
  const auto key = std::pair(peer.host, peer.port);
  // The same two ports again: the connection before is over, whether it was noticed or not.
  if (const auto before = connections.find(key); before != connections.end()) forget(before);
  const std::string as = peer_of_host(peer.host);
  if (!id || !may_begin(as)) {
    ++refused;
    refused_last = peer.host;
    ::close(socket);
    return;
  }
  epoll_event speaks{EPOLLIN | EPOLLET, {}};
  speaks.data.fd = socket;
  (void)::epoll_ctl(speakers, EPOLL_CTL_ADD, socket, &speaks);  // else the next look() sees it
  const int on = 1;
  (void)::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  Held held;
  held.socket = socket;
  held.id = *id;
  held.counted = as;
  held.since = held.looked = clock.now();
  {
    const std::lock_guard lock(mutex);
    connections.emplace(key, std::move(held));
  }
  hand(socket);
}

bool ControlAcceptor::Core::may_begin(const std::string& peer) {
  if (strangers.waits_for_room(peer, clock.now())) make_room();
  return strangers.begin(peer, clock.now());
}

// Strangers that fill the table must not keep members out: of the address that has most, the oldest
// gives way, so that whoever comes alone and goes on quickly is let be.
void ControlAcceptor::Core::make_room() {
  auto chosen = connections.end();
  std::uint32_t most = 0;
  for (auto it = connections.begin(); it != connections.end(); ++it) {
    if (it->second.counted.empty()) continue;
    const std::uint32_t neighbours = strangers.under_way(it->second.counted);
    const bool older = chosen == connections.end() || it->second.since < chosen->second.since;
    if (neighbours < most || (neighbours == most && !older)) continue;
    chosen = it;
    most = neighbours;
  }
  if (chosen == connections.end()) return;
  Held& held = chosen->second;
  strangers.end(std::exchange(held.counted, {}));
  if (!held.cut) cut(held.socket, held.id);
  held.cut = true;
  ++refused;
  refused_last = chosen->first.first;
}

void ControlAcceptor::Core::hear_speakers() {
  epoll_event came[kSpeakersATurn];
  const int count = ::epoll_wait(speakers, came, kSpeakersATurn, 0);
  for (int i = 0; i < count; ++i) {
    const auto held = std::find_if(connections.begin(), connections.end(), [&](const auto& one) {
      return one.second.socket == came[i].data.fd && socket_id(one.second.socket) == one.second.id;
    });
    if (held != connections.end()) look_at(held->first.first, held->second);
  }
}

void ControlAcceptor::Core::look() {
  looked = clock.now();
  for (auto it = connections.begin(); it != connections.end();) {
    Held& held = it->second;
    if (socket_id(held.socket) != held.id) {
      it = forget(it);
      continue;
    }
    look_at(it->first.first, held);
    ++it;
  }
}

void ControlAcceptor::Core::look_at(const std::string& host, Held& held) {
  if (held.cut || may_stay(host, held)) return;
  cut(held.socket, held.id);
  held.cut = true;
}

bool ControlAcceptor::Core::may_stay(const std::string& host, Held& held) {
  const bool stranger = held.shared->sessions == 0;
  const TimePoint now = clock.now();
  if (stranger && !held.stranger) held.since = now;
  if (!stranger && !held.counted.empty()) strangers.end(std::exchange(held.counted, {}));
  held.stranger = stranger;
  count(held, now);
  const std::uint64_t most = stranger ? limits.stranger_bytes : limits.session_bytes;
  if (held.said > static_cast<double>(most)) {
    spdlog::warn(
        "a control connection of {} is closed: {:.0f} bytes beside messages; {} are allowed", host,
        held.said, most);
    return false;
  }
  if (!stranger || now - held.since <= limits.stranger_time) return true;
  spdlog::debug("a control connection of {} is closed: it holds no session", host);
  return false;
}

void ControlAcceptor::Core::count(Held& held, TimePoint now) const {
  // In this order: what a message brings has been received before.
  const std::uint64_t messages = held.shared->messages;
  const std::uint64_t bytes = std::max(held.bytes, received(held.socket));
  held.said += static_cast<double>(bytes - held.bytes);
  held.said -= kMessageBytes * static_cast<double>(messages - held.messages);
  if (!held.stranger) {
    const double seconds = std::chrono::duration<double>(now - held.looked).count();
    held.said -= seconds * static_cast<double>(limits.session_bytes_per_second);
  }
  held.said = std::max(held.said, 0.0);
  held.bytes = bytes;
  held.messages = messages;
  held.looked = now;
}

ControlAcceptor::Core::Connections::iterator ControlAcceptor::Core::forget(
    Connections::iterator held) {
  if (!held->second.counted.empty()) strangers.end(held->second.counted);
  const std::lock_guard lock(mutex);
  return connections.erase(held);
}

void ControlAcceptor::Core::say_refusals() {
  if (refused == 0 || clock.now() - said < kSay) return;
  spdlog::warn("{} control connections were refused: too many at once, the last of {}", refused,
               refused_last);
  refused = 0;
  said = clock.now();
}

ControlAcceptor::ControlAcceptor(std::unique_ptr<Core> core) : core_(std::move(core)) {}

ControlAcceptor::~ControlAcceptor() { stop(); }

Result<std::unique_ptr<ControlAcceptor>> ControlAcceptor::open(const Address& address,
                                                               const ControlLimits& limits) {
  auto core = std::make_unique<Core>(limits);
  TRY(core->listener, listen_on(address));
  core->wake = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  core->speakers = ::epoll_create1(EPOLL_CLOEXEC);
  sockaddr_storage at{};
  socklen_t size = sizeof(at);
  const int got = ::getsockname(core->listener, reinterpret_cast<sockaddr*>(&at), &size);
  if (core->wake < 0 || core->speakers < 0 || got != 0) {
    return Error{ErrorCode::kIo, std::string("listening for control: ") + std::strerror(errno)};
  }
  core->address = address;
  core->address.port = address_of(at).port;
  return std::unique_ptr<ControlAcceptor>(new ControlAcceptor(std::move(core)));
}

void ControlAcceptor::start(Hand hand) {
  core_->hand = std::move(hand);
  core_->thread = std::thread([core = core_.get()] { core->run(); });
}

void ControlAcceptor::stop() {
  core_->stopping = true;
  const std::uint64_t one = 1;
  (void)!::write(core_->wake, &one, sizeof(one));
  if (core_->thread.joinable()) core_->thread.join();
  if (core_->listener >= 0) ::close(std::exchange(core_->listener, -1));
}

const Address& ControlAcceptor::address() const { return core_->address; }

std::shared_ptr<ControlConnection> ControlAcceptor::find(const Address& from) const {
  const std::lock_guard lock(core_->mutex);
  const auto found = core_->connections.find({from.host, from.port});
  return found == core_->connections.end() ? nullptr : found->second.shared;
}

}  // namespace hearth::coordinator
