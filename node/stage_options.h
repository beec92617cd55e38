// StageOptions: what a worker process says of itself to the coordinator, and what it gives its
// Stage: the model on its disk, its memory, its measurements and its receipts.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/ids.h"
#include "base/limits.h"
#include "base/result.h"
#include "node/engine/stage_rate.h"
#include "node/holding.h"
#include "proto/away.h"
#include "proto/card_reading.h"
#include "proto/control.pb.h"
#include "proto/step.h"
#include "proto/wrong_bytes.h"

namespace hearth::node {

class DraftSource;
class ReceiptMaker;

struct LinkRate {
  double round_trip_seconds = 0.0;
  double to_bytes_per_second = 0.0;
  double from_bytes_per_second = 0.0;
};

using ProbeDone = std::function<void(Result<LinkRate>)>;

struct Measured {
  StageRate rate;
  std::uint64_t memory_bytes = 0;  // for weights and KV
};

struct StageOptions {
  std::string node;             // unique name
  std::string control_address;  // the coordinator's control address
  // Asked before each dial: where the coordinator is now. Empty, or giving nothing: as above.
  std::function<Result<std::string>()> find_coordinator;
  // Told of every roster that the coordinator sends, before anything that it sends afterwards. What
  // contradicts one that is held is answered with the latter; else the answer is empty.
  std::function<Bytes(ByteSpan roster)> take_roster;
  // Joules that what computes has drawn since it began; null or nothing: not known.
  std::function<std::optional<double>()> energy;
  // An admin of the cluster wants the machine to be away, or nothing: not any more. Null: such
  // orders are ignored.
  std::function<void(const std::optional<Away>& away)> take_order;
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
  // BatcherOptions' of the same names.
  std::uint32_t draft_rows = limits::kDraftRows;
  std::function<std::vector<TokenId>(const SequenceOpen& open, Position position)> draft = {};
  // Asked for drafts where this is the first stage; null: there is no draft model. Outlives the
  // stage. With it, the memory that the worker keeps for the model.
  DraftSource* draft_model = nullptr;
  std::uint64_t draft_bytes = 0;
  // Makes the receipts of what is computed; null: none are made. Outlives the stage.
  ReceiptMaker* receipts = nullptr;
  // Where the coordinator places by what was measured: asked for in each session; `done` comes on
  // the owner's thread, perhaps at once. Null: it cannot be measured.
  std::function<void(std::function<void(const Measured&)> done)> measure;
  // Measures the link to another node (LinkProbe::start). Null: it cannot be measured.
  std::function<void(std::string node, const std::string& address, ProbeDone done)> probe;
  // A checkpoint of the ledger for this node to cosign; `done` comes on the owner's thread, or
  // never. Null: it is no witness.
  std::function<void(const control::v1::CheckpointOffer& offer,
                     std::function<void(const control::v1::Cosigned& answer)> done)>
      witness;
  // Told of layers that are assigned, and once more when they are served. Null: no matter.
  std::function<void(LayerRange layers, bool served)> on_layers;
  // The layers to hold, of the model with this manifest id (zero: the coordinator has none yet).
  std::function<void(HoldPlan plan, const Hash256& model)> take_plan;
  // The coordinator has loaded another one of its models: this worker's is not wanted now. Null: it
  // dials again until it is.
  std::function<void()> on_other_model;
};

}  // namespace hearth::node
