// The coordinator's side of the control plane: a gRPC server of proto/control.proto over TLS 1.3,
// every session of a worker of the roster an incoming link. Frames are of type kControl and carry a
// serialised CoordinatorMessage out, a WorkerMessage in. Strangers are answered by an Admissions
// and by nothing else.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "coordinator/control/acceptor.h"
#include "proto/control.pb.h"
#include "proto/link/tls.h"
#include "proto/link/transport.h"
#include "proto/roster.h"

namespace hearth::coordinator {

// The way into a cluster, on the owner's thread.
class Admissions {
 public:
  virtual ~Admissions() = default;
  virtual control::v1::Proof prove() = 0;
  // The error is for the log: the peer hears kNotAdmitted.
  virtual Result<control::v1::Enrolled> enrol(const PublicKey& key,
                                              const control::v1::Enrolment& request) = 0;
  // As above, of one without a token that dials from that host. An answer without a roster to
  // whoever is not in it.
  virtual Result<control::v1::Enrolled> knock(const PublicKey& key, const std::string& from,
                                              const control::v1::Knocking& request) = 0;
  // The node with this key wants out. The error is for the log.
  virtual Status leave(const PublicKey& key) = 0;
  virtual Result<control::v1::Located> locate(const PublicKey& key, const std::string& node) = 0;
  virtual Result<control::v1::Reached> reach(const PublicKey& key) = 0;
};

struct ControlOptions {
  std::string address;  // host:port, port 0 for any free one
  TlsIdentity identity;
  std::shared_ptr<const RosterBook> roster;
  Admissions* admissions = nullptr;  // outlives the service; null: strangers get no connection
  // Whether somebody who is not in the roster gets past the handshake; an error ends it, and is for
  // the log. Any thread. Null: everybody where there are admissions.
  std::function<Status(const PublicKey& key)> door{};
  // The model, for workers of the roster, on the owner's thread; null: none is described.
  std::function<Result<control::v1::Description>()> describe{};
  ControlLimits limits{};
};

class ControlService final : public Transport {
 public:
  // Runs a function on the owner's thread, later, in the order of the calls. Called from any
  // thread; never after the destructor has returned.
  using Post = std::function<void(std::function<void()>)>;

  // kIo when the address is taken.
  static Result<std::unique_ptr<ControlService>> open(const ControlOptions& options, Post post);
  ~ControlService() override;  // ends every session without events
  ControlService(const ControlService&) = delete;
  ControlService& operator=(const ControlService&) = delete;

  void set_events(TransportEvents* events) override;
  LinkId connect(std::string_view address) override;  // always closes: workers dial, we do not
  // kInvalidInput when the frame is not kControl or passes limits::kControlMessageBytes,
  // kNoCapacity when the queue would pass limits::kControlQueueBytes.
  Status send(LinkId link, Frame frame) override;
  void close(LinkId link) override;  // what is queued is sent first
  std::string address() const override;
  std::optional<RosterEntry> peer(LinkId link) const override;
  // After a newer roster: sessions of whom it names no longer are closed.
  void recheck_peers();

 private:
  class Session;
  class Stranger;
  class Service;
  struct Core;
  ControlService();
  std::shared_ptr<Core> core_;
  std::unique_ptr<Service> service_;
};

}  // namespace hearth::coordinator
