// StageMachine: the Stage over its parts: a control session, data links, a StageCompute and, on
// the first stage, a Batcher.
//
//   idle -> Assign -> forming (loading and linking at once) -> StageReady -> serving
//   any of them -> Unassign, a failure, or a lost coordinator -> idle
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <unordered_map>

#include "node/assignment.h"
#include "node/control/session.h"
#include "node/pipeline/data_links.h"
#include "node/pipeline/stage.h"
#include "node/pipeline/stage_figures.h"
#include "node/pipeline/stage_proof.h"
#include "node/runner/batcher.h"

namespace hearth::node {

class StageMachine final : public Stage,
                           public StageComputeEvents,
                           private ControlEvents,
                           private DataLinkEvents {
 public:
  StageMachine(StageOptions options, const Clock& clock, Random& random, Transport& control,
               Transport& data, StageCompute& compute);
  ~StageMachine() override;

  void on_timer() override;
  void check_weights() override;
  void set_away(std::optional<Away> away) override;
  bool rests() const override;
  const std::string& refused() const override { return control_.refused(); }
  const std::optional<Error>& no_room() const override { return no_room_; }

  // Frames and answers of epochs that were over when they came; dropped.
  std::uint64_t late_frames() const { return figures_.late_frames() + links_.late_frames(); }

  // Rows of sequences that came again, which were not computed again; see Engine::keep.
  std::uint64_t replayed_rows() const { return figures_.replayed_rows(); }

  void on_loaded(Epoch epoch, Result<Loaded> loaded) override;
  void on_computed(StepBatch batch, StepResult result, Status status) override;
  void on_weights_checked(Status status) override;
  void on_unloaded() override { --unloading_; }

 private:
  // What lives as long as one assignment.
  struct Serving {
    Assignment assignment;
    std::optional<Loaded> loaded;
    bool ready = false;
    std::optional<Batcher> batcher;   // first stage
    std::uint32_t computing = 0;      // steps given to the StageCompute and not yet back
    std::optional<StepId> last_step;  // that a peer sent
    std::unordered_map<SequenceId, std::uint64_t> kv_tokens;
    std::deque<TimePoint> started;  // of the batcher's steps that are not answered, oldest first
    // Its memory is given back: no step is made and no frame taken. Until then, at the latest.
    std::optional<TimePoint> leave_by;

    // Steps of a peer follow each other without a gap.
    Status check_step(StepId step);
    std::uint64_t kv_tokens_used() const;
  };

  void on_assign(const control::v1::Assign& assign) override;
  void on_unassign(Epoch epoch) override;
  void on_control_lost() override;
  void fill_heartbeat(control::v1::Heartbeat& heartbeat) override;
  void on_linked() override;
  void on_peer_frame(Peer from, Frame frame) override;
  void on_links_failed(const std::string& why, const std::string& peer) override;

  bool makes_receipts() const { return options_.receipts != nullptr && serving_->assignment.model; }
  bool assigned(Epoch epoch) const { return serving_ && serving_->assignment.epoch == epoch; }
  bool serves(Epoch epoch) const { return assigned(epoch) && !serving_->leave_by; }
  void become_ready();
  void unload();
  // Ends the assignment without a word.
  void stop();
  // Ends it and tells the coordinator why.
  // `peer` by value: ending the links ends what they call it.
  void fail(const std::string& why, std::string peer = "");
  void report_failure(Epoch epoch, const std::string& why, const std::string& peer = "");

  // A frame of an older epoch is dropped and counted; true when this one is.
  bool is_late(Epoch epoch);
  Status take_frame(Peer from, const Frame& frame);
  Status take_batch(const Frame& frame);
  Status take_tokens(const Frame& frame);
  Status take_submit(const Frame& frame);
  Status take_cancel(const Frame& frame);
  void start_steps();
  void compute(StepBatch batch);
  void count_step(const StepBatch& batch, const StepResult& result);
  void pass_on(const StepBatch& batch, StepResult result);
  Status answer(StepTokens tokens);
  Status take_answer(const StepTokens& tokens);  // on the first stage

  const StageOptions options_;
  const Clock& clock_;
  StageCompute& compute_;
  StageProof proof_;
  ControlSession control_;
  DataLinks links_;
  StageFigures figures_;
  std::optional<Serving> serving_;
  Epoch newest_epoch_;
  std::optional<Error> no_room_;
  std::optional<Away> away_;
  std::uint32_t unloading_ = 0;  // asked of the StageCompute and not yet done
  bool starting_steps_ = false;  // a StageCompute may answer inside compute()
  TimePoint weights_checked_{};  // when that was last asked for, or done by loading
};

}  // namespace hearth::node
