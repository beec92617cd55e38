// StageMachine: the Stage over its parts: a control session, data links, a StageCompute and, on
// the first stage, a Batcher.
//
//   idle -> Assign -> forming (loading and linking at once) -> StageReady -> serving
//   any of them -> Unassign, a failure, or a lost coordinator -> idle
#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <unordered_map>

#include "node/assignment.h"
#include "node/control/session.h"
#include "node/pipeline/data_links.h"
#include "node/pipeline/stage.h"
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
  std::uint64_t late_frames() const { return late_frames_ + links_.late_frames(); }

  // Rows of sequences that came again, which were not computed again; see Engine::keep.
  std::uint64_t replayed_rows() const { return replayed_rows_; }

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
    std::deque<Bytes> inputs;       // with receipts: activations of the steps that are computing
    std::deque<TimePoint> started;  // of the batcher's steps that are not answered, oldest first
    // Its memory is given back: no step is made and no frame taken. Until then, at the latest.
    std::optional<TimePoint> leave_by;
  };

  void on_assign(const control::v1::Assign& assign) override;
  void on_unassign(Epoch epoch) override;
  void on_control_lost() override;
  Bytes on_roster(ByteSpan roster) override {
    return options_.take_roster ? options_.take_roster(roster) : Bytes();
  }
  void on_countersign(const control::v1::Countersign& message) override;
  void on_seal_order(const control::v1::SealOrder& order) override;
  void on_open_order(const control::v1::OpenOrder& order) override;
  void on_accusation(const control::v1::Accusation& accusation) override;
  void on_dispute(const control::v1::DisputeOrder& order) override;
  void on_self_check(const control::v1::SelfCheck& check) override;
  void on_measure() override;
  void on_probe(const control::v1::Probe& probe) override;
  void fill_heartbeat(control::v1::Heartbeat& heartbeat) override;
  void on_linked() override;
  void on_peer_frame(Peer from, Frame frame) override;
  void on_links_failed(const std::string& why, const std::string& peer) override;

  bool makes_receipts() const { return options_.receipts != nullptr && serving_->assignment.model; }
  bool assigned(Epoch epoch) const { return serving_ && serving_->assignment.epoch == epoch; }
  bool serves(Epoch epoch) const { return assigned(epoch) && !serving_->leave_by; }
  using SelfFound = std::function<void(const control::v1::SelfChecked& found)>;
  // `done` when loaded weights are hashed again and the kernels are tested.
  void look_at_self(SelfFound done);
  void tell_self(const Status& weights);
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
  Status check_step(StepId step);
  void count_lateness();
  void start_steps();
  void compute(StepBatch batch);
  void count_step(const StepBatch& batch, const StepResult& result);
  void pass_on(const StepBatch& batch, StepResult result);
  void report_hashes(const StepResult& result);
  Status answer(StepTokens tokens);
  Status take_answer(const StepTokens& tokens);  // on the first stage

  const StageOptions options_;
  const Clock& clock_;
  StageCompute& compute_;
  ControlSession control_;
  DataLinks links_;
  std::optional<Serving> serving_;
  Epoch newest_epoch_;
  std::optional<Error> no_room_;
  std::optional<Away> away_;
  std::uint32_t unloading_ = 0;        // asked of the StageCompute and not yet done
  bool starting_steps_ = false;        // a StageCompute may answer inside compute()
  std::uint32_t outstanding_ = 0;      // steps at the StageCompute, of any epoch
  std::deque<SelfFound> self_checks_;  // that wait for the weights
  TimePoint weights_checked_{};        // when that was last asked for, or done by loading
  TimePoint busy_since_{};
  Duration busy_{};
  std::uint64_t steps_ = 0;
  std::uint64_t rows_ = 0;
  std::uint64_t replayed_rows_ = 0;
  std::uint64_t late_frames_ = 0;
  std::uint64_t ring_steps_ = 0;
  Duration ring_time_{};
  TimePoint timer_;            // when it was called last
  TimePoint beat_;             // of the last heartbeat
  double late_seconds_ = 0.0;  // since then: of every moment, how long it was until the timer came
};

}  // namespace hearth::node
