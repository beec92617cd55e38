// The worker's side of the control plane: one gRPC stream (proto/control.proto, Session) a link,
// over TLS 1.3 to whoever holds the key of a coordinator of the roster. Frames are of type kControl
// and carry a serialised WorkerMessage out, a CoordinatorMessage in.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "proto/link/tls.h"
#include "proto/link/transport.h"
#include "proto/roster.h"

namespace hearth::node {

class ControlClient final : public Transport {
 public:
  // Runs a function on the owner's thread, later, in the order of the calls. Called from any
  // thread; never after the destructor has returned.
  using Post = std::function<void(std::function<void()>)>;

  ControlClient(TlsIdentity identity, std::shared_ptr<const RosterBook> roster, Post post);
  ~ControlClient() override;  // ends every stream without events
  ControlClient(const ControlClient&) = delete;
  ControlClient& operator=(const ControlClient&) = delete;

  void set_events(TransportEvents* events) override;
  LinkId connect(std::string_view address) override;
  // kInvalidInput when the frame is not kControl or passes limits::kControlMessageBytes,
  // kNoCapacity when the queue would pass limits::kControlQueueBytes.
  Status send(LinkId link, Frame frame) override;
  void close(LinkId link) override;  // what is queued is sent first
  std::string address() const override { return ""; }
  std::optional<RosterEntry> peer(LinkId link) const override;

 private:
  class Call;
  struct Core;
  std::shared_ptr<Core> core_;
};

}  // namespace hearth::node
