// CoordinatorMachine: the Coordinator over its parts. Registry, Pipelines and Scheduler decide;
// this class carries messages between them, the workers and the owners of sequences.
//
// Owners may call submit() and cancel() from inside their events, so state is brought in order
// before any event is sent, and nothing is held across one but shared pointers.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/coordinator.h"
#include "coordinator/machine/newcomer_checks.h"
#include "coordinator/machine/sequence_lifecycle.h"
#include "coordinator/machine/slow_nodes.h"
#include "coordinator/machine/standing_view.h"
#include "coordinator/machine/worker_holdings.h"
#include "coordinator/machine/worker_sessions.h"
#include "coordinator/pipelines/pipeline_links.h"
#include "coordinator/pipelines/pipelines.h"
#include "coordinator/proof/audit_case.h"
#include "coordinator/scheduling/scheduler.h"
#include "coordinator/workers/counter_rate.h"
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
  void on_worker_lost(Epoch epoch, std::uint32_t stage, const std::string& why) override;
  void on_worker_away(Node& node, std::optional<Away> away) override;
  void on_stage_ready(Node& node, const control::v1::StageReady& ready) override;
  void on_stage_failed(Node& node, const control::v1::StageFailed& failed) override;
  Status on_step_hashes(const Node& node, const control::v1::StepHashes& hashes) override {
    return sequences_.take_hashes(node, hashes);
  }

  // Nodes that a verdict bars from work, or not any more.
  void meet(Node& node);
  void follow_standing();
  void follow_newcomer(Node& node, bool newcomer);

  // Nodes that their owners want.
  void drain_pipelines();
  bool may_end_now(const Pipeline& pipeline) const;

  // Pipelines.
  void on_pipeline_linked(Epoch epoch) override;
  void on_pipeline_frame(Epoch epoch, Frame frame) override;
  void on_pipeline_link_lost(Epoch epoch, std::uint32_t stage, const std::string& why) override;
  void form_pipelines();
  void tell_assigned(Pipeline& pipeline);
  void end_outdated();
  Hash256 model_of_receipts() const;
  void begin_receipts(Pipeline& pipeline);
  void serve_if_complete(Epoch epoch);
  // Ends the pipeline by the fault of one stage. Its sequences go on elsewhere.
  void lose_pipeline(Epoch epoch, std::uint32_t stage, const std::string& why);
  // The same by nobody's fault: the owner of a stage's machine wants it.
  void withdraw_pipeline(Epoch epoch, std::uint32_t stage);
  void end_pipeline(Epoch epoch, const std::string& sentence,
                    const std::vector<std::string>& culprits);
  Duration silence_of(const std::vector<std::string>& names) const;
  std::optional<std::uint32_t> silent_stage(Epoch epoch) const;
  std::string missing() const;

  const CoordinatorOptions options_;
  const Clock& clock_;
  Transport& control_;
  Transport& data_;
  Registry registry_;
  Pipelines pipelines_;
  PipelineLinks links_;
  Scheduler scheduler_;
  WorkerHoldings holdings_;
  WorkerSessions sessions_;
  StandingView standings_;
  NewcomerChecks newcomers_;
  SequenceLifecycle sequences_;
  SlowNodes slow_;
  std::string last_loss_;  // why the last pipeline ended, until one serves again
  TimePoint timer_at_{};   // its last call
};

}  // namespace hearth::coordinator
