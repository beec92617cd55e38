// Stage: a worker's part in one pipeline after another, as a state machine over the seams.
//
//   control link  Register, Heartbeat, StageReady, StageFailed, StepHashes,
//                 WindowClaims, Receipts, Seals, Openings, DisputeMove    ->  coordinator
//                 Registered, Assign, Unassign, Countersign, SealOrder, OpenOrder, DisputeOrder,
//                 Refused  <-
//   data links    previous stage -> us -> next stage; the last stage also answers the first and
//                 the coordinator (proto/step.h)
//
// Threads: everything on the owner's thread. Loading and computing are handed to a StageCompute,
// which may run elsewhere and reports back on the owner's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/crypto.h"
#include "base/ids.h"
#include "base/random.h"
#include "base/result.h"
#include "node/engine/engine.h"
#include "node/engine/stage_rate.h"
#include "node/holding.h"
#include "node/pipeline/link_probe.h"
#include "proto/away.h"
#include "proto/card_reading.h"
#include "proto/control.pb.h"
#include "proto/link/transport.h"
#include "proto/step.h"
#include "proto/wrong_bytes.h"

namespace hearth::node {

class ReceiptMaker;

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

struct Measured {
  StageRate rate;
  std::uint64_t memory_bytes = 0;  // for weights and KV
};

struct StageOptions {
  std::string node;             // unique name
  std::string control_address;  // the coordinator's control address
  // Asked before each dial: where the coordinator is now. Empty, or giving nothing: as above.
  std::function<std::string()> find_coordinator;
  // Told of every roster that the coordinator sends, before anything that it sends afterwards. What
  // contradicts one that is held is answered with the latter; else the answer is empty.
  std::function<Bytes(ByteSpan roster)> take_roster;
  std::string model_fingerprint;  // hex
  std::uint32_t layers = 0;       // of the model
  std::uint32_t canonical_version = 0;
  std::uint64_t kv_budget_bytes = 0;
  std::string isa;
  std::uint32_t threads = 0;
  double weight_bytes_per_second = 0.0;
  std::uint64_t process_id = 0;
  std::string device;                 // the card's name; empty: the processor
  std::uint32_t layers_most = 0;      // that fit its memory, wherever they begin; 0: not known
  std::function<CardReading()> card;  // what it said last; null: its sensors cannot be asked
  Duration check_weights_every{};     // of a loaded stage; 0: only when asked
  std::function<Status()> self_test;  // of the kernels that compute; null: nothing is tested
  // What of the model is on the disk; null: all of it.
  std::function<Holding()> holding;
  // Which nodes have sent wrong bytes of it since the last call; null: nothing is fetched.
  std::function<std::vector<WrongBytes>()> wrong_bytes;
  // Makes the receipts of what is computed; null: none are made. Outlives the stage.
  ReceiptMaker* receipts = nullptr;
  // Where the coordinator places by what was measured: asked for in each session; `done` comes on
  // the owner's thread, perhaps at once. Null: it cannot be measured.
  std::function<void(std::function<void(const Measured&)> done)> measure;
  // The way to another node; as LinkProbe::start. Null: it cannot be measured.
  std::function<void(std::string node, const std::string& address, LinkProbe::Done done)> probe;
  // A checkpoint of the ledger that this node shall cosign; `done` comes on the owner's thread, or
  // never. Null: it is no witness.
  std::function<void(const control::v1::CheckpointOffer& offer,
                     std::function<void(const control::v1::Cosigned& answer)> done)>
      witness;
  // What shall be, of the model with this manifest id (zero: the coordinator has none yet).
  std::function<void(HoldPlan plan, const Hash256& model)> take_plan;
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
