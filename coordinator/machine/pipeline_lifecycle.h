// PipelineLifecycle: the life of pipelines from forming to end, with the effects on nodes, links,
// receipts and sequences. Pipelines decides the placement and this class carries it out. It finds
// the stage to blame for a loss. It ends a pipeline without blame when an owner takes a machine or
// the pipeline is outdated.
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
  // The pipeline begins to serve if every stage is ready and both data links are open.
  void serve_if_complete(Epoch epoch);

  // Ends the pipeline and blames one worker of it. Its sequences continue elsewhere. Unknown epochs
  // are ignored.
  void lose(Epoch epoch, Seat seat, const std::string& why);
  // Ends the pipelines that did not form in time.
  void lose_overdue();
  // Ends an existing pipeline. Empty `culprits`: no node failed.
  void end(Epoch epoch, const std::string& sentence, const std::vector<std::string>& culprits);
  // Ends the outdated checking pipelines.
  void end_outdated();
  // Ends all pipelines and forms no more.
  void retire(const std::string& sentence);

  // Ends all pipelines for better ones (Pipelines::better) once no sequence runs or waits and every
  // node has its layers. Before that, free nodes are told to fetch theirs.
  void improve();

  // An owner takes a machine or returns it.
  void take_away(Node& node, std::optional<Away> away);
  // Ends the pipelines of drained machines once their sequences can continue elsewhere.
  void drain();

  // Whether a new pipeline may come: it forms, or is being measured or searched for. Or it will
  // form when its nodes have rested, or when a node that recently failed or fell silent returns.
  bool may_come() const;
  // Why no pipeline serves, a sentence for people: the number of workers, those away or barred with
  // the reasons, the stages that are not ready, and why the last pipeline ended.
  std::string missing() const;
  // With evenly split layers: the layer ranges without a worker.
  std::vector<LayerRange> uncovered() const;

  void on_pipeline_linked(Epoch epoch) override { serve_if_complete(epoch); }
  void on_pipeline_frame(Epoch epoch, Frame frame) override;
  // Blames the stage whose worker is silent, if there is one, and else `stage`.
  void on_pipeline_link_lost(Epoch epoch, std::uint32_t stage, const std::string& why,
                             bool unreached) override;

 private:
  // end() without forming others.
  void dissolve(Epoch epoch, const std::string& sentence, const std::vector<std::string>& culprits);
  void tell_assigned(Pipeline& pipeline);
  Hash256 model_of_receipts() const;
  void begin_receipts(Pipeline& pipeline);
  // Ends the pipeline without blame: an owner takes the machine of a stage.
  void withdraw(Epoch epoch, Seat seat);
  bool may_end_now(const Pipeline& pipeline) const;
  std::optional<Seat> silent_seat(Epoch epoch) const;
  // What a lost link to a neighbour says about its route and relay.
  void judge_routes(const Pipeline& pipeline, const Node& node,
                    const control::v1::StageFailed& failed);

  bool enough_may_return() const;

  bool retired_ = false;
  bool drains_ = false;                 // a node was away at the last drain()
  std::string last_loss_;               // why the last pipeline ended, until one serves again
  std::optional<TimePoint> failed_at_;  // likewise, when the last one failed
};

// "paused" or "drained".
const char* verb_of(const Away& away);
// The giver of the order: "its owner" or kAwayByAdmin.
const char* giver_of(const Away& away);

}  // namespace hearth::coordinator
