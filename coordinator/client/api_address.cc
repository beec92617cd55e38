#include "coordinator/client/api_address.h"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <string_view>

#include "base/number.h"
#include "proto/address.h"

namespace hearth::client {
namespace {

constexpr std::size_t kNameBytes = 253;  // RFC 1035
constexpr std::size_t kZoneBytes = 15;   // of an interface's name

// An address, with the zone of a link if it has one, as "fe80::1%eth0".
bool is_v6_to_dial(const std::string& host) {
  const std::size_t mark = host.find('%');
  if (mark == std::string::npos) return is_ipv6(host);
  const std::string zone = host.substr(mark + 1);
  const bool named = std::all_of(zone.begin(), zone.end(), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' || c == '.';
  });
  return is_ipv6(host.substr(0, mark)) && named && !zone.empty() && zone.size() <= kZoneBytes;
}

// Excludes "127.1", which some programs read as an address: a name's last part is not all digits.
bool is_name(std::string_view host) {
  const auto good = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '.' || c == '_';
  };
  if (host.empty() || host.size() > kNameBytes || !std::all_of(host.begin(), host.end(), good)) {
    return false;
  }
  if (host.front() == '-' || host.front() == '.' || host.find("..") != std::string_view::npos) {
    return false;
  }
  const std::string_view last = host.substr(host.rfind('.') + 1);
  return !last.empty() && last.find_first_not_of("0123456789") != std::string_view::npos;
}

struct Split {
  std::string host;
  std::string_view port;  // with its colon, or empty
};

Split split(std::string_view text) {
  if (text.starts_with('[')) {
    const std::size_t end = std::min(text.find(']'), text.size());
    const std::string host(text.substr(1, end - 1));
    if (end == text.size() || !is_v6_to_dial(host)) return {};
    return {host, text.substr(end + 1)};
  }
  const std::size_t colon = std::min(text.find(':'), text.size());
  if (text.find(':', colon + 1) != std::string_view::npos) {
    return {is_v6_to_dial(std::string(text)) ? std::string(text) : std::string(), {}};
  }
  const std::string host(text.substr(0, colon));
  return {is_ipv4(host) || is_name(host) ? host : std::string(), text.substr(colon)};
}

}  // namespace

bool is_ip_address(const std::string& host) { return is_ipv4(host) || is_ipv6(host); }

bool is_own_host(const std::string& host) {
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST;
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* own = nullptr;
  if (::getaddrinfo(host.c_str(), nullptr, &hints, &own) != 0) return false;
  const int probe = ::socket(own->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  const bool bound = probe >= 0 && ::bind(probe, own->ai_addr, own->ai_addrlen) == 0;
  if (probe >= 0) ::close(probe);
  ::freeaddrinfo(own);
  return bound;
}

bool is_loopback_address(const std::string& host) {
  return (is_ipv4(host) && host.starts_with("127.")) || host == "::1";
}

std::string dialled_host(const std::string& listened) {
  if (listened == "0.0.0.0") return "127.0.0.1";
  return listened == "::" ? "::1" : listened;
}

Result<ApiAddress> parse_api_address(const std::string& text) {
  std::string_view rest = text;
  const std::string shown = "'" + text.substr(0, 64) + "'";
  REQUIRE(!rest.starts_with("https://"), shown,
          ": the API is plain http; name host and port, e.g. 127.0.0.1:11500");
  if (rest.starts_with("http://")) rest.remove_prefix(7);
  while (rest.ends_with('/')) rest.remove_suffix(1);
  if (rest.ends_with("/v1")) rest.remove_suffix(3);
  const Split parts = split(rest);
  REQUIRE(!parts.host.empty(), shown,
          " is not a host with or without a port, e.g. 127.0.0.1:11500 or den.local");
  ApiAddress address{parts.host, std::nullopt};
  if (parts.port.empty()) return address;
  address.port = parse_number<std::uint16_t>(parts.port.substr(1));
  REQUIRE(parts.port[0] == ':' && address.port, "the port in ", shown,
          " must be a whole number from 0 to 65535");
  return address;
}

std::string api_base(const ApiAddress& address) {
  std::string host = address.host;
  if (const auto zone = host.find('%'); zone != std::string::npos) host.insert(zone + 1, "25");
  return "http://" + Address{host, address.port.value_or(kDefaultApiPort)}.text();
}

}  // namespace hearth::client
