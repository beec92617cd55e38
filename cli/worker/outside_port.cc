#include "cli/worker/outside_port.h"

#include <arpa/inet.h>
#include <miniupnpc/miniupnpc.h>
#include <miniupnpc/upnpcommands.h>
#include <miniupnpc/upnperrors.h>
#include <natpmp.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/check.h"
#include "cli/terminal/exit_codes.h"

namespace hearth::cli {
namespace {

using SteadyClock = std::chrono::steady_clock;

// That the router is asked for. Short, because the port may go to another program when the worker
// has ended.
constexpr std::uint32_t kSeconds = 1200;
constexpr long kWaitMicroseconds = 250'000;
constexpr unsigned kMostWallSeconds = 20;
constexpr auto kNatPmpPatience = std::chrono::seconds(3);
constexpr int kDiscoverMilliseconds = 2000;
constexpr int kOwnPortsTried = 3;
constexpr rlim_t kMostMemory = rlim_t{512} << 20;
constexpr rlim_t kMostSeconds = 5;  // of processor time

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kIsSanitized = true;  // whose shadow takes terabytes of addresses
#else
constexpr bool kIsSanitized = false;
#endif

class NatPmp {
 public:
  NatPmp() = default;
  ~NatPmp() {
    if (open_) closenatpmp(&state_);
  }
  NatPmp(const NatPmp&) = delete;
  NatPmp& operator=(const NatPmp&) = delete;

  Status open(const std::string& gateway) {
    in_addr_t address = 0;
    if (!gateway.empty()) {
      REQUIRE(inet_pton(AF_INET, gateway.c_str(), &address) == 1, "--gateway is '", gateway,
              "'; it must be an IPv4 address");
    }
    open_ = initnatpmp(&state_, gateway.empty() ? 0 : 1, address) == 0;
    if (open_) return ok_status();
    return Error{ErrorCode::kUnavailable, "this machine has no default route"};
  }

  Result<OutsidePort> map(std::uint16_t port) {
    if (sendnewportmappingrequest(&state_, NATPMP_PROTOCOL_TCP, port, port, kSeconds) < 0) {
      return none();
    }
    const auto deadline = SteadyClock::now() + kNatPmpPatience;
    while (SteadyClock::now() < deadline) {
      timeval wait{};
      getnatpmprequesttimeout(&state_, &wait);
      // By the wall clock, which may be set.
      if (wait.tv_sec != 0 || wait.tv_usec > kWaitMicroseconds) wait = {0, kWaitMicroseconds};
      fd_set sockets;
      FD_ZERO(&sockets);
      FD_SET(state_.s, &sockets);
      select(state_.s + 1, &sockets, nullptr, nullptr, &wait);
      natpmpresp_t answer{};
      const int taken = readnatpmpresponseorretry(&state_, &answer);
      if (taken == NATPMP_TRYAGAIN) continue;
      const bool mapped = taken == 0 && answer.type == NATPMP_RESPTYPE_TCPPORTMAPPING &&
                          answer.pnu.newportmapping.privateport == port &&
                          answer.pnu.newportmapping.mappedpublicport != 0 &&
                          answer.pnu.newportmapping.lifetime != 0;
      if (!mapped) return none();
      return OutsidePort{"NAT-PMP", answer.pnu.newportmapping.mappedpublicport,
                         std::min(answer.pnu.newportmapping.lifetime, kSeconds)};
    }
    return none();
  }

  // Of the router, which is known once open() has succeeded.
  std::string address() const {
    char text[INET_ADDRSTRLEN] = {};
    inet_ntop(AF_INET, &state_.gateway, text, sizeof text);
    return text;
  }

 private:
  static Error none() {
    return {ErrorCode::kUnavailable, "the router does not answer NAT-PMP, or refuses a port"};
  }
  natpmp_t state_{};
  bool open_ = false;
};

// What a device of the network sends, until the end of this object.
struct Found {
  UPNPDev* devices = nullptr;
  UPNPUrls urls{};
  IGDdatas data{};
  bool has_urls = false;
  ~Found() {
    forget();
    freeUPNPDevlist(devices);
  }
  void forget() {
    if (std::exchange(has_urls, false)) FreeUPNPUrls(&urls);
  }
};

bool is_plain(const std::string& text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c > ' ' && c < 0x7F; });
}

// Another device could send this machine's requests anywhere, also to services of this machine.
bool is_at(const std::string& url, const std::string& host) {
  const std::string begin = "http://" + host;
  return is_plain(url) && url.starts_with(begin) &&
         (url.size() == begin.size() || url[begin.size()] == ':' || url[begin.size()] == '/');
}

// Never without an end of its own: a mapping that stays behind would be a hole in the router.
Result<OutsidePort> map_by(const Found& found, const char* own, std::uint16_t port) {
  const std::string inside = std::to_string(port);
  const std::string lease = std::to_string(kSeconds);
  int refused = 0;
  for (int i = 0; i < kOwnPortsTried; ++i) {  // another machine may have the port
    const auto wanted = static_cast<std::uint16_t>(port >= 65'000 ? port - i : port + i);
    const std::string outside = std::to_string(wanted);
    refused =
        UPNP_AddPortMapping(found.urls.controlURL, found.data.first.servicetype, outside.c_str(),
                            inside.c_str(), own, "Hearth", "TCP", nullptr, lease.c_str());
    if (refused == 0) return OutsidePort{"UPnP", wanted, kSeconds};
  }
  const char* why = strupnperror(refused);
  return Error::of(ErrorCode::kUnavailable, "the router refuses a port by UPnP: ",
                   why != nullptr ? why : std::to_string(refused).c_str());
}

// Only the router of the default route is asked.
Result<OutsidePort> ask_upnp(std::uint16_t port, const std::string& gateway) {
  Found found;
  int error = 0;
  found.devices =
      upnpDiscover(kDiscoverMilliseconds, nullptr, nullptr, UPNP_LOCAL_PORT_ANY, 0, 2, &error);
  for (const UPNPDev* device = found.devices; device != nullptr; device = device->pNext) {
    if (device->descURL == nullptr || !is_at(device->descURL, gateway)) continue;
    char own[64] = {};
    found.forget();
    found.has_urls =
        UPNP_GetIGDFromUrl(device->descURL, &found.urls, &found.data, own, sizeof own) == 1;
    const bool usable = found.has_urls && found.urls.controlURL != nullptr &&
                        is_at(found.urls.controlURL, gateway) &&
                        is_plain(found.data.first.servicetype);
    if (usable) return map_by(found, own, port);
  }
  return Error::of(ErrorCode::kUnavailable, "the router at ", gateway, " does not answer UPnP");
}

}  // namespace

Result<OutsidePort> ask_router(std::uint16_t port, const std::string& gateway) {
  INVARIANT(port > 0, "a socket that listens has a port");
  NatPmp router;
  TRY_VOID(router.open(gateway));
  auto by_nat_pmp = router.map(port);
  if (by_nat_pmp.ok() || !gateway.empty()) return by_nat_pmp;
  auto by_upnp = ask_upnp(port, router.address());
  if (by_upnp.ok()) return by_upnp;
  return Error::of(ErrorCode::kUnavailable, "no outside port: ", by_nat_pmp.error().message, "; ",
                   by_upnp.error().message);
}

// Whatever a device of the network sends, this process takes no more than these.
Result<int> run_map_port(const MapPortOptions& options) {
  const rlimit memory{kMostMemory, kMostMemory};
  const rlimit seconds{kMostSeconds, kMostSeconds};
  const bool limited =
      (kIsSanitized || setrlimit(RLIMIT_AS, &memory) == 0) && setrlimit(RLIMIT_CPU, &seconds) == 0;
  if (!limited) return Error{ErrorCode::kIo, "cannot limit the memory and time of this process"};
  alarm(kMostWallSeconds);
  TRY(const OutsidePort got, ask_router(options.port, options.gateway));
  if (options.json) {
    const nlohmann::ordered_json json = {
        {"protocol", got.protocol}, {"port", got.port}, {"seconds", got.seconds}};
    std::printf("%s\n", json.dump().c_str());
  } else {
    std::printf("the router forwards its port %u to port %u of this machine, for %u s (%s)\n",
                static_cast<unsigned>(got.port), static_cast<unsigned>(options.port), got.seconds,
                got.protocol.c_str());
  }
  return kExitDone;
}

}  // namespace hearth::cli
