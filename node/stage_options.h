// StageOptions: what a worker process reports to the coordinator and provides to its Stage: the
// model on its disk, its memory, its measurements and its receipts.
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
#include "proto/link/route.h"
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
  // Called before each dial for the coordinator's present address. Null, or an empty result:
  // control_address.
  std::function<Result<std::string>()> find_coordinator;
  // Whether find_coordinator() has given all addresses, so that the next dial may wait. Null: yes.
  std::function<bool()> tried_all;
  // Called with every roster from the coordinator, before its later messages. Returns the held
  // roster when the new one contradicts it, else empty bytes.
  std::function<Bytes(ByteSpan roster)> take_roster;
  // Joules used since the worker began; null or nothing: unknown.
  std::function<std::optional<double>()> energy;
  // Gets an admin's order to be away; nothing: the order ended. Null: such orders are ignored.
  std::function<void(const std::optional<Away>& away)> take_order;
  std::string model_fingerprint;  // hex
  std::uint32_t layers = 0;       // of the model
  std::uint32_t canonical_version = 0;
  std::uint64_t kv_budget_bytes = 0;
  std::string isa;
  std::uint32_t threads = 0;
  double weight_bytes_per_second = 0.0;
  std::uint64_t process_id = 0;
  // Called once, when a coordinator forms groups: begins to listen for other ranks, and returns the
  // address; empty, or null: this worker computes no stage in a group.
  std::function<std::string()> rank_address;
  // Called in each session: whether the coordinator sees that a router translates this machine's
  // address. Null: nothing is done about it.
  std::function<void(bool is_behind)> behind_router;
  // Of the router, forwarded to the port of the data links; 0, or null: none.
  std::function<std::uint16_t()> outside_port;
  std::string device;                 // the GPU's name; empty: the processor
  std::uint32_t layers_most = 0;      // layers that fit its memory, wherever they begin; 0: unknown
  std::function<CardReading()> card;  // its last readings; null: no sensors
  Duration check_weights_every{};     // of a loaded stage; 0: only when asked
  std::function<Status()> self_test;  // of the kernels that compute; null: nothing is tested
  // The layers on the disk; null: the whole model.
  std::function<Holding()> holding;
  // The nodes that have sent wrong bytes since the last call; null: nothing is fetched.
  std::function<std::vector<WrongBytes>()> wrong_bytes;
  // BatcherOptions' of the same names.
  std::uint32_t draft_rows = limits::kDraftRows;
  std::function<std::vector<TokenId>(const SequenceOpen& open, Position position)> draft = {};
  // Drafts for the first stage; null: there is no draft model. Outlives the stage.
  DraftSource* draft_model = nullptr;
  std::uint64_t draft_bytes = 0;  // memory that the worker keeps for the draft model
  // Makes the stage's receipts; null: no receipts. Outlives the stage.
  ReceiptMaker* receipts = nullptr;
  // Measures this machine for placement; called in each session that asks for it. `done` is called
  // on the main thread, perhaps at once. Null: it cannot be measured.
  std::function<void(std::function<void(const Measured&)> done)> measure;
  // Measures the link to another node (LinkProbe::start). Null: it cannot be measured.
  std::function<void(std::string node, const std::string& route, ProbeDone done)> probe;
  // A second, that this node forwards for others; 0: it is no relay.
  std::uint32_t relay_megabits = 0;
  // Expects the two connections of a link to forward. Null: this node is no relay.
  std::function<void(const Ticket& dialler, const Ticket& acceptor, const std::string& account,
                     bool brief)>
      forward;
  // Opens an incoming data link over a route (TcpTransport::meet). Null: not possible.
  std::function<void(const std::string& route)> meet;
  // Gets a checkpoint of the ledger to cosign; `done` is called on the main thread, or never. Null:
  // not a witness.
  std::function<void(const control::v1::CheckpointOffer& offer,
                     std::function<void(const control::v1::Cosigned& answer)> done)>
      witness;
  // Called when layers are assigned, and again when they are served. May be null.
  std::function<void(LayerRange layers, bool served)> on_layers;
  // The layers to hold, of the model with this manifest id (zero: the coordinator has none yet).
  std::function<void(HoldPlan plan, const Hash256& model)> take_plan;
  // Called when the coordinator has loaded another model than this worker's. Null: the worker dials
  // again until its model is loaded.
  std::function<void()> on_other_model;
};

}  // namespace hearth::node
