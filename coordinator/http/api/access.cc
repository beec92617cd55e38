#include "coordinator/http/api/access.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <boost/algorithm/string/case_conv.hpp>
#include <boost/algorithm/string/predicate.hpp>
#include <cctype>
#include <charconv>

namespace hearth::coordinator::http {
namespace {

bool is_digits(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(),
                                      [](unsigned char c) { return std::isdigit(c) != 0; });
}

// The name without its port and brackets; empty when malformed.
std::string host_name(std::string_view host) {
  std::string_view name = host;
  std::string_view rest;
  if (host.starts_with('[')) {
    const std::size_t end = host.find(']');
    if (end == std::string_view::npos) return {};
    name = host.substr(1, end - 1);
    rest = host.substr(end + 1);
  } else if (const std::size_t colon = host.find(':'); colon != std::string_view::npos) {
    name = host.substr(0, colon);
    rest = host.substr(colon);
  }
  constexpr std::size_t kPortDigits = 5;
  if (!rest.empty() &&
      (rest[0] != ':' || rest.size() > 1 + kPortDigits || !is_digits(rest.substr(1)))) {
    return {};
  }
  return boost::to_lower_copy(std::string(name));
}

// 127.a.b.c, four decimal parts: "127.0.0.1.evil.example" is a name, not an address.
bool is_loopback_v4(const std::string& name) {
  constexpr std::uint32_t kNetwork = 127;
  in_addr address{};
  return inet_pton(AF_INET, name.c_str(), &address) == 1 && ntohl(address.s_addr) >> 24 == kNetwork;
}

bool is_address(const std::string& name) {
  in6_addr bytes{};
  return inet_pton(AF_INET, name.c_str(), &bytes) == 1 ||
         inet_pton(AF_INET6, name.c_str(), &bytes) == 1;
}

}  // namespace

bool host_allowed(std::string_view host, const HostNames& names) {
  const std::string name = host_name(host);
  if (name.empty()) return false;
  if (name == "localhost" || name.ends_with(".localhost") || name == "::1" ||
      is_loopback_v4(name) || (names.any_address && is_address(name))) {
    return true;
  }
  return std::any_of(names.names.begin(), names.names.end(),
                     [&](const std::string& each) { return boost::iequals(name, each); });
}

bool origin_allowed(std::string_view origin, std::string_view host, const HostNames& names) {
  constexpr std::array<std::string_view, 5> kShells = {"app://", "file://", "tauri://",
                                                       "vscode-webview://", "vscode-file://"};
  for (const std::string_view shell : kShells) {
    if (origin.starts_with(shell)) return true;
  }
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!origin.starts_with(scheme)) continue;
    const std::string_view authority = origin.substr(scheme.size());
    // An Origin may not be any address: pages of other machines are not trusted.
    return (!host.empty() && boost::iequals(authority, host)) ||
           host_allowed(authority, {names.names, false});
  }
  return false;
}

bool decode_path(std::string_view raw, std::string& out) {
  out.clear();
  for (std::size_t i = 0; i < raw.size(); ++i) {
    char c = raw[i];
    if (c == '%') {
      if (i + 2 >= raw.size()) return false;
      unsigned value = 0;
      const char* end = raw.data() + i + 3;
      if (std::from_chars(raw.data() + i + 1, end, value, 16).ptr != end) return false;
      c = static_cast<char>(value);
      i += 2;
    }
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) return false;
    out += c;
  }
  return true;
}

}  // namespace hearth::coordinator::http
