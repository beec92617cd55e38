// The coordinator's side of the control plane, at one address: the control links of the roster's
// workers, whose frames carry a serialised CoordinatorMessage out and a WorkerMessage in, and a
// gRPC server of proto/control.proto over TLS 1.3, whose calls a Membership answers.
//
// Threads: everything on the thread of the io_context.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "coordinator/control/acceptor.h"
#include "proto/control.pb.h"
#include "proto/link/tcp_transport.h"
#include "proto/link/tls.h"
#include "proto/roster.h"

namespace hearth::coordinator {

class Membership;

struct ControlOptions {
  std::string address;  // host:port, port 0 for any free one
  TlsIdentity identity;
  std::shared_ptr<const RosterBook> roster;
  Membership* admissions = nullptr;  // outlives the service; null: only roster nodes connect
  // Whether a node outside the roster may complete the handshake; an error ends it and is for the
  // log. Any thread. Null: all may, if there are admissions.
  std::function<Status(const PublicKey& key)> door{};
  // Describes the model to workers of the roster, on the main thread; null: no description.
  std::function<Result<control::v1::Description>()> describe{};
  // Takes over the socket of a member for the API, before its handshake; null: such a socket is
  // closed.
  std::function<void(int socket)> on_member{};
  // Takes over a socket that begins with kTicketByte; null: such a socket is closed.
  std::function<void(int socket)> on_ticket{};
  // For the log: why a control link was refused before it opened, or which peer sent bytes that it
  // may not send.
  std::function<void(const std::string& why)> on_refused{};
  ControlLimits limits{};
};

class ControlService final {
 public:
  // kIo when the address is taken. `io` outlives the service.
  static Result<std::unique_ptr<ControlService>> open(boost::asio::io_context& io,
                                                      const ControlOptions& options);
  ~ControlService();  // ends every session without events
  ControlService(const ControlService&) = delete;
  ControlService& operator=(const ControlService&) = delete;

  // The control links. It lives as long as the service.
  Transport& sessions() { return *sessions_; }
  std::string address() const;
  // After a newer roster: closes the sessions of workers that it no longer names.
  void recheck_peers() { sessions_->recheck_peers(); }

 private:
  class UnknownCalls;
  class Stranger;
  class Service;
  struct Core;
  explicit ControlService(std::shared_ptr<Core> core);
  std::shared_ptr<Core> core_;
  std::unique_ptr<TcpTransport> sessions_;
  std::unique_ptr<Service> service_;
};

}  // namespace hearth::coordinator
