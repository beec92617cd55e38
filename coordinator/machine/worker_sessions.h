// WorkerSessions: the control links of workers, from the first message to the loss of the session.
// It keeps the figures that workers report, and tells workers the roster and what to measure. What
// concerns pipelines and sequences goes on to WorkerSessionEvents.
//
// One thread. Sending may lose any worker, and with it end pipelines and sequences; a Node stays
// valid until the timer's end (Registry::forget()), but its state may have changed.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/ids.h"
#include "base/result.h"
#include "coordinator/coordinator.h"
#include "coordinator/machine/worker_holdings.h"
#include "coordinator/pipelines/pipelines.h"
#include "coordinator/workers/registry.h"
#include "proto/control.pb.h"
#include "proto/link/transport.h"

namespace hearth::coordinator {

// What follows from the messages of workers. Each call is the last thing that a session does with
// its message, so each may lose workers.
class WorkerSessionEvents {
 public:
  virtual ~WorkerSessionEvents() = default;
  // The worker at this link has registered and was told so. It may be lost again already.
  virtual void on_worker_registered(LinkId link) = 0;
  // The worker's session is over. `epoch` and `stage`: where it stood, if it stood anywhere.
  virtual void on_worker_lost(Epoch epoch, std::uint32_t stage, const std::string& why) = 0;
  // A heartbeat said whether the worker's owner wants the machine.
  virtual void on_worker_away(Node& node, std::optional<Away> away) = 0;
  virtual void on_stage_ready(Node& node, const control::v1::StageReady& ready) = 0;
  virtual void on_stage_failed(Node& node, const control::v1::StageFailed& failed) = 0;
  // An error names the field: the worker is lost for it.
  virtual Status on_step_hashes(const Node& node, const control::v1::StepHashes& hashes) = 0;
};

class WorkerSessions final : public TransportEvents {
 public:
  // All outlive this object. `control` carries the links; the owner makes this object its events.
  WorkerSessions(const CoordinatorOptions& options, const Clock& clock, Transport& control,
                 Registry& registry, Pipelines& pipelines, WorkerHoldings& holdings,
                 WorkerSessionEvents& events);

  // Closes the links that did not register in time, and loses the workers that are silent.
  void on_timer();
  // Asks one worker to measure its way to another one, where layers are placed by measurements.
  void measure_ways();
  // Loses the worker at this link where the message cannot be sent.
  void send(LinkId link, const control::v1::CoordinatorMessage& message);
  // Tells every worker, now and when it registers.
  void publish_roster(Bytes roster);

  void on_link_open(LinkId link, bool incoming) override;
  void on_frame(LinkId link, Frame frame) override;
  void on_link_closed(LinkId link, const Error& why) override;

 private:
  struct Stranger {
    TimePoint deadline{};  // then the link is closed
    bool refused = false;
  };

  void on_first_message(LinkId link, const control::v1::WorkerMessage& message);
  void welcome(LinkId link, const Node& node);
  void on_message(Node& node, const control::v1::WorkerMessage& message);
  void on_heartbeat(Node& node, const control::v1::Heartbeat& heartbeat);
  template <typename Windows>
  void on_receipts(Node& node, const Windows& windows, int count);
  void on_measured(Node& node, const control::v1::Measured& measured);
  void take_holding(Node& node, const control::v1::Holding& holding);
  void send_roster(LinkId link);
  void refuse(LinkId link, const std::string& why, bool may_pass = false);
  void lose(const std::string& name, const std::string& why);

  const CoordinatorOptions& options_;
  const Clock& clock_;
  Transport& control_;
  Registry& registry_;
  Pipelines& pipelines_;
  WorkerHoldings& holdings_;
  WorkerSessionEvents& events_;
  Bytes roster_;                          // empty before the first one
  std::map<LinkId, Stranger> strangers_;  // links without a name, or refused
};

}  // namespace hearth::coordinator
