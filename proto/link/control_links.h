// Control links: the links of the control plane, one a worker, which dials the coordinator and
// keeps it open for its life. They carry kControl frames alone, beside signs of life.
//
// The coordinator has one address for them, for gRPC and for requests of members to the API, so one
// byte in clear goes before the handshake of a control link, kControlByte, and of a member that
// speaks HTTP, kMemberByte.
#pragma once

#include <cstddef>
#include <memory>

#include "proto/link/tcp_transport.h"

namespace hearth {

// No record of TLS begins with them, and no text protocol that scanners try.
inline constexpr std::byte kControlByte{0x01};
inline constexpr std::byte kMemberByte{0x02};

// Of a worker: it dials coordinators of the roster, and does not listen.
TcpOptions worker_control_options(const TlsIdentity& identity,
                                  std::shared_ptr<const RosterBook> roster);
// Of the coordinator: links of the roster's workers, two a key, because a worker that was started
// again may be here before its old link has ended. It does not listen: connections are handed to it
// (TcpTransport::adopt).
TcpOptions coordinator_control_options(const TlsIdentity& identity,
                                       std::shared_ptr<const RosterBook> roster);

}  // namespace hearth
