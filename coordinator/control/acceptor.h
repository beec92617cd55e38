// Accepts the connections of the control port. One that begins with kControlByte is a worker's and
// becomes a control link (proto/link/control_links.h); one that begins with kMemberByte asks the
// API. Every other one may be a stranger's that
// asks one of gRPC's calls: its bytes are carried to gRPC and back over a socket pair, within
// bounds that gRPC 1.51 does not have. These count connections as handshakes of links are counted,
// and limit how long one lasts and what it may say altogether; gRPC never sees a byte beyond them.
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
  // Of connections to gRPC; in all more than handshakes at a time, since each is here for seconds.
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
  // Take a socket over.
  struct Hands {
    std::function<void(int socket)> session;  // of a worker, behind its first byte
    std::function<void(int socket)> call;     // gRPC's end of the pair
    std::function<void(int socket)> member;   // of one that asks the API, behind its first byte
  };

  // kIo when the address is taken. `io` outlives the acceptor.
  static Result<std::unique_ptr<ControlAcceptor>> open(boost::asio::io_context& io,
                                                       const Address& address,
                                                       const ControlLimits& limits, Hands hands);
  ~ControlAcceptor();  // ends every connection to gRPC
  ControlAcceptor(const ControlAcceptor&) = delete;
  ControlAcceptor& operator=(const ControlAcceptor&) = delete;

  const Address& address() const;
  // The host at the far end of a connection, by gRPC's name of our end of the pair; empty: there is
  // none. Any thread.
  std::string caller(const std::string& grpc_peer) const;

 private:
  struct Core;
  struct Connection;
  explicit ControlAcceptor(std::shared_ptr<Core> core);
  const std::shared_ptr<Core> core_;
};

}  // namespace hearth::coordinator
