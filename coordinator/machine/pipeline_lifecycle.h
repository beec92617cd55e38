// PipelineLifecycle: what a pipeline goes through, from the nodes it is formed of to its end, and
// what follows for its nodes, links, receipts and sequences. Pipelines decides which nodes stand
// where. This class carries that out, finds the stage to blame for a loss, and ends a pipeline
// without blame where an owner wants a machine or a pipeline is out of date.
//
// State is brought in order before anything is sent, since sending may lose a worker and an owner's
// event may submit or cancel: a Pipeline pointer of the caller is not valid after a call.
//
// One thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "coordinator/coordinator.h"
#include "coordinator/machine/sequence_lifecycle.h"
#include "coordinator/machine/standing_view.h"
#include "coordinator/machine/worker_holdings.h"
#include "coordinator/machine/worker_sessions.h"
#include "coordinator/pipelines/pipeline_links.h"
#include "coordinator/pipelines/pipelines.h"
#include "coordinator/scheduling/scheduler.h"
#include "coordinator/workers/registry.h"
#include "proto/control.pb.h"
#include "proto/link/transport.h"

namespace hearth::coordinator {

// The parts that a pipeline's life touches. All outlive the PipelineLifecycle.
struct PipelineParts {
  const Transport& control;  // knows the key at the other end of a link
  const Transport& data;     // names the address that the last stage dials
  Registry& registry;
  Pipelines& pipelines;
  PipelineLinks& links;
  Scheduler& scheduler;
  const WorkerHoldings& holdings;
  StandingView& standings;
  WorkerSessions& sessions;
  SequenceLifecycle& sequences;
};

class PipelineLifecycle {
 public:
  PipelineLifecycle(const CoordinatorOptions& options, const Clock& clock, PipelineParts parts);

  // Forms every pipeline that the free nodes allow, and tells its workers.
  void form();
  // A worker's stage is loaded and linked; its pipeline serves if it was the last one.
  void stage_ready(Node& node, const control::v1::StageReady& ready);
  // A worker's stage failed, or lost its link to a neighbour.
  void stage_failed(Node& node, const control::v1::StageFailed& failed);
  // Serves with the pipeline if every stage is ready and both data links are open.
  void serve_if_complete(Epoch epoch);

  // Ends the pipeline by the fault of one stage. Its sequences go on elsewhere. Unknown epochs are
  // ignored.
  void lose(Epoch epoch, std::uint32_t stage, const std::string& why);
  // The data link to this stage is lost; another stage is to blame where that one is silent.
  void lose_link(Epoch epoch, std::uint32_t stage, const std::string& why);
  // Those that did not form in time.
  void lose_overdue();
  // Ends a pipeline that exists. No `culprits`: nothing failed.
  void end(Epoch epoch, const std::string& sentence, const std::vector<std::string>& culprits);
  // The checking pipelines that are not wanted as they are.
  void end_outdated();

  // An owner wants a machine, or has given it back.
  void take_away(Node& node, std::optional<Away> away);
  // Ends the pipelines of drained machines whose sequences have another place.
  void drain();

  // The timer's call is over; it began at `now`.
  void timer_ended(TimePoint now) { timer_at_ = now; }
  // Why no pipeline serves: a sentence for people.
  std::string missing() const;

 private:
  void tell_assigned(Pipeline& pipeline);
  Hash256 model_of_receipts() const;
  void begin_receipts(Pipeline& pipeline);
  // Ends the pipeline without blame: the owner of a stage's machine wants it.
  void withdraw(Epoch epoch, std::uint32_t stage);
  bool may_end_now(const Pipeline& pipeline) const;
  Duration silence_of(const std::vector<std::string>& names) const;
  std::optional<std::uint32_t> silent_stage(Epoch epoch) const;

  const CoordinatorOptions& options_;
  const Clock& clock_;
  const Transport& control_;
  const Transport& data_;
  Registry& registry_;
  Pipelines& pipelines_;
  PipelineLinks& links_;
  Scheduler& scheduler_;
  const WorkerHoldings& holdings_;
  StandingView& standings_;
  WorkerSessions& sessions_;
  SequenceLifecycle& sequences_;
  std::string last_loss_;  // why the last pipeline ended, until one serves again
  TimePoint timer_at_{};   // its last call
};

}  // namespace hearth::coordinator
