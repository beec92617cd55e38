// CoordinatorMachine: the Coordinator over its parts. WorkerSessions talks with the workers,
// PipelineLifecycle forms and ends pipelines, SequenceLifecycle runs sequences on them. This class
// owns the parts, fixes the order of the timer's work, follows the standings of the ledger, and
// says how the swarm is.
//
// Owners may call submit(), cancel() and stop() from inside their events, so state is brought in
// order before any event is sent, and nothing is held across one but shared pointers.
#pragma once

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "coordinator/coordinator.h"
#include "coordinator/machine/machine_parts.h"
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
  bool wind_down(bool wanted) override;
  void retire() override;
  Next next() const override { return {pipelines_.next_epoch(), sequences_.next_sequence()}; }

 private:
  // What the ledger's thread says of the receipts that are still to come; it may say so later.
  struct Settling {
    bool is_asked = false;
    bool is_settled = false;
  };
  // An owner who waits for the audits of an answer gets them first, unless they take too long.
  bool puts_off_audits() const;
  bool is_settled();
  // Nodes that a verdict bars from work, or not any more.
  void follow_standing();
  void follow_newcomer(Node& node, bool newcomer);
  static void add_unreceipted(SwarmStatus& status);

  const CoordinatorOptions options_;
  const MachineParts parts_;
  Registry registry_;
  Pipelines pipelines_;
  Scheduler scheduler_;
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
};

}  // namespace hearth::coordinator
