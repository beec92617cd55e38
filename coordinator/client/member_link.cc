#include "coordinator/client/member_link.h"

#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <utility>

#include "proto/address.h"
#include "proto/link/control_links.h"

namespace hearth::client {
namespace {

constexpr auto kDialTime = std::chrono::seconds(10);
constexpr auto kStagger = std::chrono::milliseconds(250);  // before the next address, too

using Steady = std::chrono::steady_clock;

struct Links {
  std::mutex mutex;
  std::map<std::string, std::unique_ptr<const MemberLink>, std::less<>> by_base;
};

Links& links() {
  static Links all;
  return all;
}

// A socket that connects, or -1.
int begin_dial(const std::string& text) {
  const auto address = parse_address(text);
  if (!address.ok()) return -1;
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  addrinfo* to = nullptr;
  const std::string port = std::to_string(address->port);
  if (::getaddrinfo(address->host.c_str(), port.c_str(), &hints, &to) != 0) return -1;
  int socket = ::socket(to->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP);
  if (socket >= 0 && ::connect(socket, to->ai_addr, to->ai_addrlen) != 0 && errno != EINPROGRESS) {
    ::close(socket);
    socket = -1;
  }
  ::freeaddrinfo(to);
  return socket;
}

bool greets(int socket) {
  int error = 0;
  socklen_t size = sizeof error;
  return ::getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0 &&
         ::send(socket, &kMemberByte, 1, MSG_NOSIGNAL) == 1;
}

// The first of them that is connected until then; those that failed are closed and dropped.
int wait_for_one(std::vector<pollfd>& dialled, Steady::time_point until) {
  while (!dialled.empty()) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Steady::now()).count();
    const int ready =
        ::poll(dialled.data(), dialled.size(), static_cast<int>(std::max<std::int64_t>(left, 0)));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return -1;
    for (auto one = dialled.begin(); one != dialled.end();) {
      if (one->revents == 0) {
        ++one;
        continue;
      }
      const int socket = one->fd;
      one = dialled.erase(one);
      if (greets(socket)) return socket;
      ::close(socket);
    }
  }
  return -1;
}

}  // namespace

Result<std::string> open_member_link(MemberLink link) {
  REQUIRE(!link.addresses.empty(),
          "this machine knows no address of the coordinator; join the cluster again: hearth join "
          "ADDRESS");
  for (std::string& each : link.addresses) {
    TRY(const Address address, parse_address(each));
    each = address.text();
  }
  std::string base = "https://" + link.addresses.front();
  const std::lock_guard lock(links().mutex);
  links().by_base.try_emplace(base, std::make_unique<const MemberLink>(std::move(link)));
  return base;
}

const MemberLink* member_link_of(std::string_view url) {
  constexpr std::string_view kScheme = "https://";
  if (!url.starts_with(kScheme)) return nullptr;
  const std::string_view base = url.substr(0, url.find('/', kScheme.size()));
  const std::lock_guard lock(links().mutex);
  const auto found = links().by_base.find(base);
  return found == links().by_base.end() ? nullptr : found->second.get();
}

std::string pinned_key(const PublicKey& key) {
  constexpr std::array<unsigned char, 12> kHead = {0x30, 0x2a, 0x30, 0x05, 0x06, 0x03,
                                                   0x2b, 0x65, 0x70, 0x03, 0x21, 0x00};
  Sha256 hash;
  hash.update(std::as_bytes(std::span(kHead)));
  hash.update(key.bytes());
  return "sha256//" + base64(hash.finish().bytes);
}

int dial_member_link(const MemberLink& link) {
  const auto deadline = Steady::now() + kDialTime;
  std::vector<pollfd> dialled;
  int socket = -1;
  for (auto next = link.addresses.begin(); socket < 0 && next != link.addresses.end(); ++next) {
    const int begun = begin_dial(*next);
    if (begun >= 0) dialled.push_back({begun, POLLOUT, 0});
    const bool last = std::next(next) == link.addresses.end();
    socket = wait_for_one(dialled, last ? deadline : std::min(deadline, Steady::now() + kStagger));
  }
  for (const pollfd& other : dialled) ::close(other.fd);
  return socket;
}

}  // namespace hearth::client
