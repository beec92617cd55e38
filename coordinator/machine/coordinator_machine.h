// CoordinatorMachine: the Coordinator over its parts. WorkerSessions talks with the workers,
// PipelineLifecycle forms and ends pipelines, SequenceLifecycle runs sequences on them. This class
// wires the parts, hands the events of one to another, fixes the order of the timer's work, follows
// the standings of the ledger, and says how the swarm is.
//
// Owners may call submit(), cancel() and stop() from inside their events, so state is brought in
// order before any event is sent, and nothing is held across one but shared pointers.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/coordinator.h"
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

class CoordinatorMachine final : public Coordinator,
                                 private WorkerSessionEvents,
                                 private PipelineLinkEvents {
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

 private:
  // Workers.
  void on_worker_registered(LinkId link) override;
  void on_worker_lost(Epoch epoch, std::uint32_t stage, const std::string& why) override {
    lifecycle_.lose(epoch, stage, why);
  }
  void on_worker_away(Node& node, std::optional<Away> away) override {
    lifecycle_.take_away(node, std::move(away));
  }
  void on_stage_ready(Node& node, const control::v1::StageReady& ready) override {
    lifecycle_.stage_ready(node, ready);
  }
  void on_stage_failed(Node& node, const control::v1::StageFailed& failed) override {
    lifecycle_.stage_failed(node, failed);
  }
  Status on_step_hashes(const Node& node, const control::v1::StepHashes& hashes) override {
    return sequences_.take_hashes(node, hashes);
  }

  // Data links.
  void on_pipeline_linked(Epoch epoch) override { lifecycle_.serve_if_complete(epoch); }
  void on_pipeline_frame(Epoch epoch, Frame frame) override;
  void on_pipeline_link_lost(Epoch epoch, std::uint32_t stage, const std::string& why) override {
    lifecycle_.lose_link(epoch, stage, why);
  }

  // Nodes that a verdict bars from work, or not any more.
  void meet(Node& node);
  void follow_standing();
  void follow_newcomer(Node& node, bool newcomer);

  // Each part is given only those before it; calls the other way go through this object.
  const CoordinatorOptions options_;
  const Clock& clock_;
  Transport& control_;
  Registry registry_;
  Pipelines pipelines_;
  PipelineLinks links_;
  Scheduler scheduler_;
  WorkerHoldings holdings_;
  WorkerSessions sessions_;
  StandingView standings_;
  NewcomerChecks newcomers_;
  SequenceLifecycle sequences_;
  PipelineLifecycle lifecycle_;
  SlowNodes slow_;
};

}  // namespace hearth::coordinator
