// Control links: the links of the control plane. Each worker dials the coordinator and keeps one
// link open for its life. A control link carries only kControl frames and heartbeats.
//
// The coordinator has one address for control links, for gRPC and for members' requests to the API.
// So one byte in clear precedes the handshake: kControlByte for a control link, kMemberByte for a
// member that speaks HTTP.
#pragma once

#include <cstddef>
#include <memory>

#include "proto/link/tcp_transport.h"

namespace hearth {

// No TLS record begins with these bytes, and no text protocol that scanners try.
inline constexpr std::byte kControlByte{0x01};
inline constexpr std::byte kMemberByte{0x02};

// For a worker: it dials coordinators of the roster and does not listen.
TcpOptions worker_control_options(const TlsIdentity& identity,
                                  std::shared_ptr<const RosterBook> roster);
// For the coordinator: links of the roster's workers, two a key, because a restarted worker may
// connect before its old link ends. It does not listen: TcpTransport::adopt() hands it connections.
TcpOptions coordinator_control_options(const TlsIdentity& identity,
                                       std::shared_ptr<const RosterBook> roster);

}  // namespace hearth
