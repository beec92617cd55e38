// Accepts the connections of the control port. One that begins with kControlByte is a worker's and
// becomes a control link (proto/link/control_links.h). One that begins with kMemberByte is for the
// API. One that begins with kTicketByte is for the data links (proto/link/rendezvous.h). All others
// are for gRPC and may be unauthenticated: their bytes go to gRPC and back over a
// socket pair, within bounds that gRPC 1.51 does not have. The bounds limit the connections as
// those on handshakes of links do, and the duration and bytes of each. gRPC never gets a byte
// beyond them.
//
// Threads: everything on the thread of the io_context, except caller().
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/limits.h"
#include "base/result.h"
#include "proto/address.h"
#include "proto/link/handshakes.h"

namespace boost::asio {
class io_context;
}

namespace hearth::coordinator {

struct ControlLimits {
  // Limits connections to gRPC. The total is larger than for handshakes, because each connection
  // lasts for seconds.
  HandshakeLimits strangers{limits::kConnections, limits::kHandshakesAddress,
                            limits::kHandshakesBurst, limits::kHandshakesPerSecond,
                            limits::kHandshakeAddresses};
  Duration stranger_time =
      std::chrono::seconds(limits::kHandshakeSeconds + limits::kFirstFrameSeconds);
  std::uint64_t stranger_bytes = limits::kControlStrangerBytes;
  std::uint64_t message_bytes = limits::kControlWorkerBytes;  // of a worker's message
};

class ControlAcceptor {
 public:
  // Each takes over a socket.
  struct Hands {
    std::function<void(int socket)> session;  // a worker's, after its first byte
    std::function<void(int socket)> call;     // gRPC's end of the pair
    std::function<void(int socket)> member;   // for the API, after its first byte
    std::function<void(int socket)> ticket;   // for the data links, with its first byte unread
  };

  // kIo when the address is taken. `io` outlives the acceptor.
  static Result<std::unique_ptr<ControlAcceptor>> open(boost::asio::io_context& io,
                                                       const Address& address,
                                                       const ControlLimits& limits, Hands hands);
  ~ControlAcceptor();  // stops
  ControlAcceptor(const ControlAcceptor&) = delete;
  ControlAcceptor& operator=(const ControlAcceptor&) = delete;

  // Accepts no more, and ends every connection to gRPC. Calls under way may still ask for caller().
  // Idempotent.
  void stop();
  const Address& address() const;
  // The host at the far end of a connection, by gRPC's name of our end of the socket pair; empty:
  // unknown. Any thread.
  std::string caller(const std::string& grpc_peer) const;

 private:
  struct Core;
  struct Connection;
  explicit ControlAcceptor(std::shared_ptr<Core> core);
  const std::shared_ptr<Core> core_;
};

}  // namespace hearth::coordinator
