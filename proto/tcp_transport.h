// Data links: frames over TCP, by Boost.Asio. Every link runs on one io_context, and the thread
// that runs it is the owner's thread of transport.h.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/limits.h"
#include "base/result.h"
#include "proto/transport.h"

namespace boost::asio {
class io_context;
}

namespace hearth {

struct TcpOptions {
  std::string listen_address{};  // loopback host:port, port 0: any free one; empty: do not listen
  std::uint32_t connections = limits::kConnections;        // links in all; more are closed at once
  std::size_t send_queue_bytes = limits::kSendQueueBytes;  // per link
  // An incoming link that has not sent a whole frame by then is closed; connecting likewise.
  Duration first_frame_deadline = std::chrono::seconds(limits::kFirstFrameSeconds);
  // A frame or a send queue that does not move for so long ends its link.
  Duration stall_deadline = std::chrono::seconds(limits::kLinkStallSeconds);
};

class TcpTransport final : public Transport {
 public:
  // kInvalidInput for an address that is not loopback, kIo when it cannot be listened on.
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

  std::size_t links() const;  // sockets held, those being closed included

 private:
  struct Core;
  struct Link;
  explicit TcpTransport(std::shared_ptr<Core> core);
  std::shared_ptr<Core> core_;
};

}  // namespace hearth
