// CoordinatorMachine: the Coordinator over its parts. WorkerSessions handles the workers' links,
// PipelineLifecycle forms and ends pipelines, SequenceLifecycle runs sequences on them. This class
// owns the parts, fixes the order of the timer's work, follows the ledger's standings and reports
// the swarm's status.
//
// Receivers may call submit(), cancel() and stop() inside their events. So state is consistent
// before any event is sent, and only shared pointers are held across an event.
#pragma once

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "coordinator/coordinator.h"
#include "coordinator/machine/machine_parts.h"
#include "coordinator/machine/meetings.h"
#include "coordinator/machine/newcomer_checks.h"
#include "coordinator/machine/pipeline_lifecycle.h"
#include "coordinator/machine/sequence_lifecycle.h"
#include "coordinator/machine/slow_nodes.h"
#include "coordinator/machine/standing_view.h"
#include "coordinator/machine/worker_holdings.h"
#include "coordinator/machine/worker_sessions.h"
#include "coordinator/pipelines/pipeline_links.h"
#include "coordinator/pipelines/pipelines.h"
#include "coordinator/scheduling/scheduler.h"
#include "coordinator/workers/registry.h"

namespace hearth::coordinator {

class CoordinatorMachine final : public Coordinator {
 public:
  CoordinatorMachine(CoordinatorOptions options, const Clock& clock, Random& random,
                     Transport& control, Transport& data);
  ~CoordinatorMachine() override;

  void on_timer() override;
  using Coordinator::submit;
  SubmitAnswer submit(std::vector<Submission> sequences) override {
    return sequences_.submit(std::move(sequences));
  }
  void cancel(SequenceId sequence) override { sequences_.cancel(sequence); }
  void stop(SequenceId sequence, Position position) override {
    sequences_.stop(sequence, position);
  }
  SwarmStatus status() const override;
  void publish_roster(Bytes roster) override { sessions_.publish_roster(std::move(roster)); }
  void publish_model(const Hash256& model) override { holdings_.publish_model(model); }
  Status order(const std::string& node, const std::optional<Away>& away) override {
    return sessions_.order(node, away);
  }
  Result<std::string> route(const std::string& from, const std::string& to) override;
  bool wind_down(bool wanted) override;
  void retire() override;

 private:
  // The ledger thread's report on outstanding receipts, which may come later.
  struct Settling {
    bool is_asked = false;
    bool is_settled = false;
  };
  // Whether audits are put off for another model. Audits that a client waits for come first, up to
  // kAuditPatience.
  bool puts_off_audits() const;
  bool is_settled();
  // Follows the ledger: ends the pipelines of newly barred nodes, and those that serve with a node
  // that is a newcomer again. Nodes that are no longer barred may be placed again.
  void follow_standing();
  void follow_newcomer(Node& node, bool newcomer);
  static void add_unreceipted(SwarmStatus& status);
  void add_islands(std::vector<NodeStatus>& nodes) const;

  const CoordinatorOptions options_;
  const MachineParts parts_;
  Registry registry_;
  Pipelines pipelines_;
  Scheduler scheduler_;
  Meetings meetings_;
  WorkerHoldings holdings_;
  WorkerSessions sessions_;
  StandingView standings_;
  NewcomerChecks newcomers_;
  SequenceLifecycle sequences_;
  PipelineLifecycle lifecycle_;
  PipelineLinks links_;
  SlowNodes slow_;
  std::optional<TimePoint> winds_down_since_;
  std::optional<TimePoint> quiet_since_;  // then, nothing waits or runs
  std::shared_ptr<Settling> settling_;    // since then
  std::shared_ptr<const void> listens_;   // to the ledger; null: no receipts
};

}  // namespace hearth::coordinator
