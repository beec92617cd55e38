#include "base/peer_host.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include "base/bytes.h"
#include "base/hex.h"

namespace hearth {

std::string peer_of_host(const std::string& host) {
  const std::string literal = host.substr(0, host.find('%'));  // without the name of an interface
  in6_addr six{};
  if (inet_pton(AF_INET6, literal.c_str(), &six) != 1) return host;
  const ByteSpan bytes(reinterpret_cast<const std::byte*>(&six), sizeof(six));
  if (!IN6_IS_ADDR_V4MAPPED(&six)) return "v6 " + to_hex(bytes.first(8));
  char four[INET_ADDRSTRLEN] = {};
  return inet_ntop(AF_INET, bytes.last(4).data(), four, sizeof(four));
}

}  // namespace hearth
