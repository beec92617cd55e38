// WorkerSessions: the control links of workers, from the first message to the loss of the session.
// It keeps the figures that workers report, sends workers the roster and measuring orders, and
// reports them to the ledger. Messages about pipelines and sequences go to their lifecycles as the
// last action on a message.
//
// Sending may lose any worker and so end pipelines and sequences. A Node stays valid until the end
// of the timer's work (Registry::forget()), but its state may change.
#pragma once

#include <map>
#include <string>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/ids.h"
#include "coordinator/machine/machine_parts.h"
#include "coordinator/workers/registry.h"
#include "proto/control.pb.h"
#include "proto/link/transport.h"

namespace hearth::coordinator {

class WorkerSessions final : public TransportEvents, MachineParts {
 public:
  explicit WorkerSessions(const MachineParts& parts) : MachineParts(parts) {}

  // Closes links that did not register in time, and loses silent workers.
  void on_timer();
  // Asks one worker to measure its link to another, when layers are placed by measurements.
  void measure_ways();
  // Loses the worker at this link when the message cannot be sent.
  void send(LinkId link, const control::v1::CoordinatorMessage& message);
  // Ends every session, after the pipelines have ended.
  void close_all();
  // Whether a worker with another of the server's models came in the last minute.
  bool has_other_workers() const;
  // Sends the roster to every worker, now or when it registers.
  void publish_roster(Bytes roster);
  // Coordinator::order().
  Status order(const std::string& name, const std::optional<Away>& away);

  void on_link_open(LinkId link, bool incoming) override;
  void on_frame(LinkId link, Frame frame) override;
  void on_link_closed(LinkId link, const Error& why) override;

 private:
  struct Stranger {
    TimePoint deadline{};  // the link closes at this time
    bool refused = false;
  };

  void on_first_message(LinkId link, const control::v1::WorkerMessage& message);
  void welcome(LinkId link, const Node& node);
  void meet(Node& node);
  void on_message(Node& node, const control::v1::WorkerMessage& message);
  void on_heartbeat(Node& node, const control::v1::Heartbeat& heartbeat);
  void on_receipts(Node& node, const control::v1::WorkerMessage& message, int windows);
  void on_measured(Node& node, const control::v1::Measured& measured);
  void take_holding(Node& node, const control::v1::Holding& holding);
  Status take_rank(Node& node, const std::string& address);
  Status take_outside_port(Node& node, std::uint32_t port);
  void send_roster(LinkId link);
  enum class Refusal : std::uint8_t { kForGood, kMayPass, kOtherModel };
  void refuse(LinkId link, const std::string& why, Refusal kind = Refusal::kForGood);
  void lose(const std::string& name, const std::string& why);

  Bytes roster_;                          // empty before the first one
  TimePoint ways_at_{};                   // then the next link to measure is looked for
  std::string probed_from_;               // the node that measures, or that did last
  std::string probed_relay_;              // of the link that is measured; empty: none
  std::map<LinkId, Stranger> strangers_;  // links without a name, or refused
  std::optional<TimePoint> other_at_;     // the latest worker of another of the server's models
};

}  // namespace hearth::coordinator
