// PipelineLifecycle: what a pipeline goes through, from the nodes it is formed of to its end, and
// what follows for its nodes, links, receipts and sequences. Pipelines decides which nodes stand
// where. This class carries that out, finds the stage to blame for a loss, and ends a pipeline
// without blame where an owner wants a machine or a pipeline is out of date.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "coordinator/machine/machine_parts.h"
#include "coordinator/pipelines/pipeline_links.h"
#include "coordinator/pipelines/pipelines.h"
#include "proto/control.pb.h"

namespace hearth::coordinator {

class PipelineLifecycle final : public PipelineLinkEvents, MachineParts {
 public:
  explicit PipelineLifecycle(const MachineParts& parts) : MachineParts(parts) {}

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
  // Those that did not form in time.
  void lose_overdue();
  // Ends a pipeline that exists. No `culprits`: nothing failed.
  void end(Epoch epoch, const std::string& sentence, const std::vector<std::string>& culprits);
  // The checking pipelines that are not wanted as they are.
  void end_outdated();
  // Ends all, and forms none any more.
  void retire(const std::string& sentence);

  // Ends all pipelines for better ones (Pipelines::better) at a moment when no sequence runs or
  // waits, and every node has its layers; before, free nodes are told to fetch theirs.
  void improve();

  // An owner wants a machine, or has given it back.
  void take_away(Node& node, std::optional<Away> away);
  // Ends the pipelines of drained machines whose sequences have another place.
  void drain();

  // Whether there will be a pipeline, or another one: it forms, or is being measured and searched
  // for, or will form when its nodes have rested, or when one that fell silent or failed lately is
  // back.
  bool may_come() const;
  // Why no pipeline serves, a sentence for people: how many workers are here, which of them are
  // away or barred and why, which stages are not ready, and why the last pipeline ended.
  std::string missing() const;
  // The layers that no worker here could serve, where layers are split evenly.
  std::vector<LayerRange> uncovered() const;

  void on_pipeline_linked(Epoch epoch) override { serve_if_complete(epoch); }
  void on_pipeline_frame(Epoch epoch, Frame frame) override;
  // Another stage is to blame where that one is silent.
  void on_pipeline_link_lost(Epoch epoch, std::uint32_t stage, const std::string& why) override;

 private:
  // end() without forming others.
  void dissolve(Epoch epoch, const std::string& sentence, const std::vector<std::string>& culprits);
  void tell_assigned(Pipeline& pipeline);
  Hash256 model_of_receipts() const;
  void begin_receipts(Pipeline& pipeline);
  // Ends the pipeline without blame: the owner of a stage's machine wants it.
  void withdraw(Epoch epoch, std::uint32_t stage);
  bool may_end_now(const Pipeline& pipeline) const;
  std::optional<std::uint32_t> silent_stage(Epoch epoch) const;

  bool enough_may_return() const;

  bool retired_ = false;
  std::string last_loss_;               // why the last pipeline ended, until one serves again
  std::optional<TimePoint> failed_at_;  // likewise, when the last one failed
};

// "paused" or "drained".
const char* verb_of(const Away& away);
// Who gave the order: "its owner" or kAwayByAdmin.
const char* giver_of(const Away& away);

}  // namespace hearth::coordinator
