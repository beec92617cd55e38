// Stage: a worker's part in one pipeline after another, as a state machine over the seams and over
// its parts: a control session, data links, a StageCompute and, on the first stage, a Batcher.
//
//   control link  Register, Heartbeat, StageReady, StageFailed, StepHashes,
//                 WindowClaims, Receipts, Seals, Openings                 ->  coordinator
//                 Registered, Assign, Unassign, Countersign, SealOrder, OpenOrder, Refused  <-
//   data links    previous stage -> us -> next stage; the last stage also answers the first and
//                 the coordinator (proto/step.h)
//
//   idle -> Assign -> forming (loading and linking at once) -> StageReady -> serving
//   any of them -> Unassign, a failure, or a lost coordinator -> idle
//
// Threads: everything on the main thread. Loading and computing are handed to a StageCompute,
// which may run elsewhere and reports back on the main thread.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <unordered_map>

#include "base/clock.h"
#include "base/ids.h"
#include "base/random.h"
#include "base/result.h"
#include "node/assignment.h"
#include "node/control/session.h"
#include "node/engine/engine.h"
#include "node/pipeline/data_links.h"
#include "node/pipeline/stage_figures.h"
#include "node/pipeline/stage_proof.h"
#include "node/runner/batcher.h"
#include "node/stage_options.h"
#include "proto/away.h"
#include "proto/link/transport.h"
#include "proto/step.h"

namespace hearth::node {

// Answers of a StageCompute, on the main thread, in the order of the requests.
class StageComputeEvents {
 public:
  virtual ~StageComputeEvents() = default;
  struct Loaded {
    StepShape shape;  // of the batches that this stage receives
    std::uint32_t kv_pages = 0;
    std::size_t weight_bytes = 0;
    std::uint32_t sequences = 0;  // as Engine::sequences()
  };
  virtual void on_loaded(Epoch epoch, Result<Loaded> loaded) = 0;
  virtual void on_computed(StepBatch batch, StepResult result, Status status) = 0;
  virtual void on_weights_checked(Status status) = 0;
  virtual void on_unloaded() = 0;
  // A rank that does not lead has computed a step of rank 0.
  virtual void on_followed(const StepBatch& /*batch*/, const StepResult& /*result*/,
                           Duration /*took*/) {}
  // The group has ended, by the fault of `peer` if that is known. Steps under way are answered with
  // an error.
  virtual void on_group_lost(Epoch /*epoch*/, const std::string& /*why*/,
                             const std::string& /*peer*/) {}
};

class StageCompute {
 public:
  virtual ~StageCompute() = default;
  virtual void set_events(StageComputeEvents* events) = 0;
  // Loads the range, or keeps it if it is loaded, and ends every sequence as Engine::keep() does.
  // Also called with the range of an ended epoch, to end its sequences.
  virtual void load(Epoch epoch, LayerRange layers, std::uint32_t stage,
                    std::uint32_t batch_rows) = 0;
  // The same as one rank of a group: on_loaded follows when this rank has loaded its share. A rank
  // that does not lead then computes what rank 0 sends, until leave().
  virtual void load_rank(const Assignment& assignment);
  // Ends the group, and every sequence as load() does. Waiting steps are answered with kCancelled.
  virtual void leave();
  virtual void compute(StepBatch batch) = 0;
  // Drops the kept pages of ended sequences: another coordinator uses other ids.
  virtual void forget() = 0;
  // The kept pages may be wrong: the next load drops them. Until then open sequences may use them.
  virtual void distrust() = 0;
  // Engine::verify_weights(), after the waiting steps.
  virtual void check_weights() = 0;
  // Frees weights and KV at the next step boundary and cancels a load under way. Waiting steps are
  // answered with kCancelled.
  virtual void unload() = 0;
};

// Dials the coordinator at once and again after each loss, with jittered back-off of 0.1 to 2 s.
// Weights stay loaded across reconnections. It ends when destroyed, or when the coordinator refuses
// it permanently.
class Stage final : public StageComputeEvents, private ControlEvents, private DataLinkEvents {
 public:
  // All but `options` outlive it.
  Stage(StageOptions options, const Clock& clock, Random& random, Transport& control,
        Transport& data, StageCompute& compute);

  // Heartbeats, dialling again, deadlines. The owner calls it at least every 50 ms.
  void on_timer();
  // Checks, between two steps, that the loaded stage's weights are unchanged. The log gets the
  // result; a difference ends the assignment.
  void check_weights();
  // Sets whether the owner uses the machine, and tells the coordinator at once. Paused: the
  // pipeline's work ends at the next step boundary and its memory is freed. The neighbours keep
  // their links until the coordinator has ended the pipeline, for at most 1 s. Drained: the
  // coordinator decides when the work ends.
  void set_away(std::optional<Away> away);
  // Away, with no part of a model in memory; drained: and with no assignment.
  bool rests() const { return away_ && unloading_ == 0 && !(away_->drain && serving_); }
  // Set when the coordinator refused this worker; the owner of this object ends the process with
  // this sentence.
  const std::string& refused() const { return control_.refused(); }
  // Set when this machine has no room for its assignment; a repetition would fail too, and the
  // coordinator knows. The owner of this object ends the process with this error.
  const std::optional<Error>& no_room() const { return no_room_; }

  // Dropped frames and answers of ended epochs.
  std::uint64_t late_frames() const { return figures_.late_frames() + links_.late_frames(); }

  // Rows that were in kept pages and not computed: of cached prompts, and of sequences that were
  // resumed after a loss; see Engine::keep().
  std::uint64_t replayed_rows() const { return figures_.replayed_rows(); }

  void on_loaded(Epoch epoch, Result<Loaded> loaded) override;
  void on_computed(StepBatch batch, StepResult result, Status status) override;
  void on_weights_checked(Status status) override;
  void on_unloaded() override { --unloading_; }
  void on_followed(const StepBatch& batch, const StepResult& result, Duration took) override;
  void on_group_lost(Epoch epoch, const std::string& why, const std::string& peer) override;

 private:
  // The state of one assignment.
  struct Serving {
    Assignment assignment;
    std::optional<Loaded> loaded;
    bool ready = false;
    std::optional<Batcher> batcher;   // first stage
    std::uint32_t computing = 0;      // steps that the StageCompute has not answered
    std::optional<StepId> last_step;  // the last step that a peer sent
    std::unordered_map<SequenceId, std::uint64_t> kv_tokens;
    std::uint32_t kv_pages_kept = 0;  // after the latest step
    std::deque<TimePoint> started;    // of the batcher's steps that are not answered, oldest first
    TimePoint answered{};             // when the latest answer came
    std::optional<TimePoint> waits_since;  // since then a sequence has waited for drafts
    // Set while paused, with the memory freed: no step is made and no frame taken. At this time the
    // assignment ends, if the coordinator has not ended it.
    std::optional<TimePoint> leave_by;

    // Steps of a peer follow each other without a gap.
    Status check_step(StepId step);
    std::uint64_t kv_tokens_used() const;
    // How long the wait for drafts took, which ends now.
    Duration end_wait(TimePoint now);
    void stop_waiting(TimePoint now) { batcher->stop_waiting(end_wait(now)); }
    bool waits_too_long(TimePoint now) const;
    // A group's receipts are those of rank 0, which has the stage's input and output whole.
    bool has_receipts() const { return assignment.model && assignment.leads(); }
  };

  void on_assign(const control::v1::Assign& assign) override;
  void on_unassign(Epoch epoch) override;
  void on_control_lost() override;
  void on_proof(const control::v1::CoordinatorMessage& order) override { proof_.take(order); }
  void fill_heartbeat(control::v1::Heartbeat& heartbeat) override;
  void on_linked() override { become_ready(); }
  void on_peer_frame(Peer from, Frame frame) override;
  void on_links_failed(const std::string& why, const std::string& peer, bool unreached) override {
    fail(why, peer, unreached);
  }

  bool serves(Epoch epoch) const {
    return serving_ && serving_->assignment.epoch == epoch && !serving_->leave_by;
  }
  void become_ready();
  void unload();
  // Ends the assignment without a report.
  void stop();
  // Ends it and tells the coordinator why. `peer` by value: ending the links destroys their copy of
  // the name.
  void fail(const std::string& why, std::string peer = "", bool unreached = false);
  void report_failure(Epoch epoch, const std::string& why, const std::string& peer = "",
                      bool unreached = false);

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
  std::uint32_t unloading_ = 0;  // unloads without an answer, of layers and of the draft model
  bool starting_steps_ = false;  // a StageCompute may answer inside compute()
  TimePoint weights_checked_{};  // the last check, or the last load
};

}  // namespace hearth::node
