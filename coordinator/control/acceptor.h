// Accepts the connections of the control plane and hands them to gRPC, which would take as many as
// come, from whomever, for as long as they like, and keep what they say until a request is whole:
// its own limits begin with a request. These begin with the first packet.
//
// A connection is a stranger's until it holds the session of a worker. Strangers are limited as
// handshakes of data links are, in time, and in what they may say altogether; a worker in what it
// may say beside its messages, a little more with every second. Who goes beyond it loses the
// connection, as soon as this thread runs after the bytes came; so what gRPC 1.51 keeps without a
// limit (a header block, streams begun and given up) is bounded by these.
#pragma once

#include <atomic>
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

namespace hearth::coordinator {

struct ControlLimits {
  // Of strangers; in all more than handshakes at a time, since each is here for seconds.
  HandshakeLimits strangers{limits::kConnections, limits::kHandshakesAddress,
                            limits::kHandshakesBurst, limits::kHandshakesPerSecond,
                            limits::kHandshakeAddresses};
  Duration stranger_time =
      std::chrono::seconds(limits::kHandshakeSeconds + limits::kFirstFrameSeconds);
  std::uint64_t stranger_bytes = limits::kControlStrangerBytes;
  std::uint64_t message_bytes = limits::kControlWorkerBytes;
  std::uint64_t session_bytes = limits::kControlSessionBytes;  // what is on its way among them
  std::uint64_t session_bytes_per_second = limits::kControlSessionBytesPerSecond;
};

// What gRPC's side knows of one connection. Any thread.
struct ControlConnection {
  std::atomic<std::uint32_t> sessions{0};  // open ones; above 0 it is no stranger's
  std::atomic<std::uint64_t> messages{0};  // bytes of those that these sessions have brought
};

class ControlAcceptor {
 public:
  // Takes the socket over; called on the acceptor's thread.
  using Hand = std::function<void(int socket)>;

  // Listens, and accepts nobody yet. kIo when the address is taken.
  static Result<std::unique_ptr<ControlAcceptor>> open(const Address& address,
                                                       const ControlLimits& limits);
  ~ControlAcceptor();  // as stop()
  ControlAcceptor(const ControlAcceptor&) = delete;
  ControlAcceptor& operator=(const ControlAcceptor&) = delete;

  void start(Hand hand);
  void stop();  // accepts nobody any more and looks after nobody; connections stay as they are
  const Address& address() const;
  // The connection from there, while it lasts; null: there is none. Any thread.
  std::shared_ptr<ControlConnection> find(const Address& from) const;

 private:
  struct Core;
  explicit ControlAcceptor(std::unique_ptr<Core> core);
  const std::unique_ptr<Core> core_;
};

}  // namespace hearth::coordinator
