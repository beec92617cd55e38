// Data links: frames over TLS 1.3 over TCP, by Boost.Asio and proto/tls. Every link runs on one
// io_context, and the thread that runs it is the owner's thread of transport.h. A link opens when
// both sides have proved the key of a worker or a coordinator of the roster; before that, not one
// byte is read as a frame.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/limits.h"
#include "base/result.h"
#include "proto/link/handshakes.h"
#include "proto/link/tls.h"
#include "proto/link/transport.h"
#include "proto/roster.h"

namespace boost::asio {
class io_context;
}

namespace hearth {

struct TcpOptions {
  std::string listen_address{};  // host:port, port 0: any free one; empty: do not listen
  TlsIdentity identity{};        // ours
  std::shared_ptr<const RosterBook> roster{};  // that names us and our peers
  // For the log: why an incoming link was refused before it opened, where its peer hears an alert,
  // and which peer's bytes were none that it may send.
  std::function<void(const std::string& why)> on_refused{};
  std::uint32_t connections = limits::kConnections;        // links in all; more are closed at once
  std::size_t send_queue_bytes = limits::kSendQueueBytes;  // per link
  // An incoming link that has not sent a whole frame by then is closed; connecting likewise.
  Duration first_frame_deadline = std::chrono::seconds(limits::kFirstFrameSeconds);
  // From the first byte of an incoming link to the end of its handshake; likewise of ours.
  Duration handshake_deadline = std::chrono::seconds(limits::kHandshakeSeconds);
  HandshakeLimits handshakes{};
  // A frame or a send queue that does not move for so long ends its link.
  Duration stall_deadline = std::chrono::seconds(limits::kLinkStallSeconds);
  // An open link that has sent nothing for `beat` sends a ping; one from which no byte came for
  // `silence` ends.
  Duration beat = std::chrono::milliseconds(250);
  Duration silence = std::chrono::milliseconds(1'500);
  // Sent on one link before its key is changed; far below what AES-GCM allows.
  std::size_t key_bytes = limits::kTlsKeyBytes;
};

class TcpTransport final : public Transport {
 public:
  // kInvalidInput for what is no address, kIo when it cannot be listened on.
  // `io` outlives the transport.
  static Result<std::unique_ptr<TcpTransport>> open(boost::asio::io_context& io,
                                                    const TcpOptions& options);
  ~TcpTransport() override;  // closes every link without events
  TcpTransport(const TcpTransport&) = delete;
  TcpTransport& operator=(const TcpTransport&) = delete;

  void set_events(TransportEvents* events) override;
  LinkId connect(std::string_view address) override;
  Status send(LinkId link, Frame frame) override;
  // Frames already queued are still sent, for at most a second.
  void close(LinkId link) override;
  std::string address() const override;
  std::optional<RosterEntry> peer(LinkId link) const override;

  // After a newer roster: links whose peer it names no longer are closed, with kUnavailable.
  void recheck_peers();
  std::size_t links() const;  // sockets held, those being closed included

 private:
  struct Core;
  struct Link;
  explicit TcpTransport(std::shared_ptr<Core> core);
  std::shared_ptr<Core> core_;
};

}  // namespace hearth
