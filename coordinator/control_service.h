// The coordinator's side of the control plane: a gRPC server of proto/control.proto, every session
// an incoming link. Frames are of type kControl and carry a serialised CoordinatorMessage out, a
// WorkerMessage in.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "proto/transport.h"

namespace hearth::coordinator {

class ControlService final : public Transport {
 public:
  // Runs a function on the owner's thread, later, in the order of the calls. Called from any
  // thread; never after the destructor has returned.
  using Post = std::function<void(std::function<void()>)>;

  // `address`: loopback host:port, port 0 for any free one. kIo when it is taken.
  static Result<std::unique_ptr<ControlService>> open(std::string_view address, Post post);
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

 private:
  class Session;
  class Service;
  struct Core;
  ControlService();
  std::shared_ptr<Core> core_;
  std::unique_ptr<Service> service_;
};

}  // namespace hearth::coordinator
