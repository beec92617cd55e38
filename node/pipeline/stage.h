// Stage: a worker's part in one pipeline after another, as a state machine over the seams.
//
//   control link  Register, Heartbeat, StageReady, StageFailed, StepHashes,
//                 WindowClaims, Receipts, Seals, Openings                 ->  coordinator
//                 Registered, Assign, Unassign, Countersign, SealOrder, OpenOrder, Refused  <-
//   data links    previous stage -> us -> next stage; the last stage also answers the first and
//                 the coordinator (proto/step.h)
//
// Threads: everything on the owner's thread. Loading and computing are handed to a StageCompute,
// which may run elsewhere and reports back on the owner's thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/crypto.h"
#include "base/ids.h"
#include "base/random.h"
#include "base/result.h"
#include "node/engine/engine.h"
#include "node/stage_options.h"
#include "proto/away.h"
#include "proto/link/transport.h"
#include "proto/step.h"

namespace hearth::node {

// Answers of a StageCompute, on the owner's thread, in the order of the questions.
class StageComputeEvents {
 public:
  virtual ~StageComputeEvents() = default;
  struct Loaded {
    StepShape shape;  // of the batches that this stage receives
    std::uint32_t kv_pages = 0;
    std::size_t weight_bytes = 0;
  };
  virtual void on_loaded(Epoch epoch, Result<Loaded> loaded) = 0;
  virtual void on_computed(StepBatch batch, StepResult result, Status status) = 0;
  virtual void on_weights_checked(Status status) = 0;
  virtual void on_unloaded() = 0;
};

class StageCompute {
 public:
  virtual ~StageCompute() = default;
  virtual void set_events(StageComputeEvents* events) = 0;
  // Loads the range (or keeps it, when it is the one loaded) and ends every sequence, as
  // Engine::keep does. Also called with the range of an epoch that ended, to end its sequences.
  virtual void load(Epoch epoch, LayerRange layers, std::uint32_t stage,
                    std::uint32_t batch_rows) = 0;
  virtual void compute(StepBatch batch) = 0;
  // Drops what is kept of sequences that ended: another coordinator's have other ids.
  virtual void forget() = 0;
  // Engine::verify_weights, behind the steps that wait.
  virtual void check_weights() = 0;
  // Frees weights and KV at the next step boundary; a loading under way is given up. Steps that
  // wait are answered with kCancelled.
  virtual void unload() = 0;
};

// Dials the coordinator at once and for ever, with jittered back-off of 0.1 to 2 s; keeps weights
// over reconnections. Ends only when destroyed, or when the coordinator refuses it for good.
class Stage {
 public:
  static std::unique_ptr<Stage> start(StageOptions options, const Clock& clock, Random& random,
                                      Transport& control, Transport& data, StageCompute& compute);
  virtual ~Stage() = default;
  // Heartbeats, dialling again, deadlines. The owner calls it at least every 50 ms.
  virtual void on_timer() = 0;
  // Compares the weights of the loaded stage, between two steps, with what was loaded. What is
  // found goes to the log; a difference ends the assignment.
  virtual void check_weights() = 0;
  // That the machine is its owner's for now, or that it is not any more. The coordinator is told at
  // once. Paused, what is served ends at the next step boundary and its memory is given back, and
  // the neighbours keep their links until the coordinator has ended the pipeline, for at most a
  // second. Drained, the coordinator says when what is served ends.
  virtual void set_away(std::optional<Away> away) = 0;
  // Away, with nothing of a model in memory; drained: and with nothing to serve.
  virtual bool rests() const = 0;
  // Set when the coordinator refused this worker; the owner ends the process with this sentence.
  virtual const std::string& refused() const = 0;
  // Set when this machine has no room for what it was assigned, which the same assignment would
  // only show again; the coordinator has been told. The owner ends the process with this error.
  virtual const std::optional<Error>& no_room() const = 0;
};

}  // namespace hearth::node
