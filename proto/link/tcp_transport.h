// Links: frames over TLS 1.3 over TCP, by Boost.Asio and proto/tls. Every link runs on one
// io_context; its thread is the main thread of transport.h. A link opens when both sides have
// proved the key of a node of the roster in a role that the transport admits; before that, no byte
// is read as a frame.
//
// The links of a transport are all data links or all control links (proto/link/control_links.h).
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/limits.h"
#include "base/result.h"
#include "proto/link/handshakes.h"
#include "proto/link/tickets.h"
#include "proto/link/tls.h"
#include "proto/link/transport.h"
#include "proto/roster.h"

namespace boost::asio {
class io_context;
}

namespace hearth {

struct TcpOptions {
  LinkKind kind = LinkKind::kData;
  std::string listen_address{};  // host:port, port 0: any free one; empty: do not listen
  TlsIdentity identity{};        // ours
  std::shared_ptr<const RosterBook> roster{};                  // that names us and our peers
  std::vector<Role> peers{Role::kWorker, Role::kCoordinator};  // that a link may be to
  // For the log: the reason when an incoming link is refused before it opens (the peer gets only an
  // alert), and the name of a peer that sent bytes it may not send.
  std::function<void(const std::string& why)> on_refused{};
  // Incoming connections may show these tickets instead of beginning a handshake, and reverse
  // routes wait here for theirs. Transports of one process may share a book. Null: no tickets.
  std::shared_ptr<TicketBook> tickets{};
  std::uint32_t connections = limits::kConnections;        // links in all; more are closed at once
  std::uint32_t links_of_key = limits::kLinksOfPeer;       // open and incoming, of one peer
  std::size_t frame_bytes = limits::kFrameBytes;           // of a frame that comes in
  std::size_t send_queue_bytes = limits::kSendQueueBytes;  // of one peer, on all its links
  std::size_t all_queue_bytes = limits::kLinksBytes;       // of all peers
  // Closes an incoming link that has not sent a whole frame by then. Also the limit for connecting.
  Duration first_frame_deadline = std::chrono::seconds(limits::kFirstFrameSeconds);
  // From the start of an incoming or outgoing connection to the end of its handshake.
  Duration handshake_deadline = std::chrono::seconds(limits::kHandshakeSeconds);
  HandshakeLimits handshakes{};
  // Whether a new handshake without room replaces the oldest one of the address that has the most.
  bool makes_room = false;
  // A link ends when a frame or its send queue makes no progress for so long.
  Duration stall_deadline = std::chrono::seconds(limits::kLinkStallSeconds);
  // The system ends a link whose bytes the peer's system does not take for so long.
  Duration unread_deadline = std::chrono::seconds(10);
  // An open link that has sent nothing for `beat` sends a heartbeat. It ends when no byte arrives
  // for `silence`.
  Duration beat = std::chrono::milliseconds(250);
  Duration silence = std::chrono::milliseconds(1'500);
  // Bytes sent on one link before its traffic key changes; far below the limit of AES-GCM.
  std::size_t key_bytes = limits::kTlsKeyBytes;
};

class TcpTransport final : public Transport {
 public:
  // kInvalidInput for a malformed address, kIo when listening on it fails. `io` outlives the
  // transport.
  static Result<std::unique_ptr<TcpTransport>> open(boost::asio::io_context& io,
                                                    const TcpOptions& options);
  ~TcpTransport() override;  // closes every link without events
  TcpTransport(const TcpTransport&) = delete;
  TcpTransport& operator=(const TcpTransport&) = delete;

  void set_events(TransportEvents* events) override;
  LinkId connect(std::string_view address) override;
  Status send(LinkId link, Frame&& frame) override;
  // Opens an incoming link to a node that cannot dial this one: over a route with a ticket and an
  // address. Only a link that opens is reported. kInvalidInput for any other route.
  Status meet(std::string_view route);
  // Takes over an incoming connection that another listener has accepted.
  void adopt(int socket);
  // Frames already queued are still sent, for at most a second.
  void close(LinkId link) override;
  std::string address() const override;
  std::optional<RosterEntry> peer(LinkId link) const override;
  std::string host(LinkId link) const override;
  // Whether the system has taken every byte that was sent; true for a link that is lost.
  bool is_sent(LinkId link) const;
  // Reads what the link has received, with the events of its frames, as the io_context does later
  // and at a higher cost: for a thread that waits for this link. Call it before each sleep: the
  // io_context does not see what a poll has left, which is only where much has come.
  void poll(LinkId link);

  // After a newer roster: closes the links whose peers it no longer names, with kUnavailable.
  void recheck_peers();
  std::size_t links() const;  // sockets held, those being closed included

 private:
  struct Core;
  struct Link;
  explicit TcpTransport(std::shared_ptr<Core> core);
  std::shared_ptr<Core> core_;
};

}  // namespace hearth
