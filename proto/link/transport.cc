#include "proto/link/transport.h"

namespace hearth {

Status check_peer(const Transport& transport, LinkId link, std::string_view name, Role role) {
  const std::optional<RosterEntry> peer = transport.peer(link);
  REQUIRE(peer.has_value(), "the node at the far end is not in the roster");
  const std::string who = std::string(role_name(peer->role)) + " " + peer->name;
  REQUIRE(peer->name == name, who, " speaks as ", name.substr(0, 128));
  REQUIRE(peer->role == role, who, " speaks as a ", role_name(role));
  return ok_status();
}

}  // namespace hearth
