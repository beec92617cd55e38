// Coordinator: manages the workers, their pipelines and the running sequences. A state machine over
// the seams; the HTTP server and the gRPC service are adapters around it.
//
// Pipelines: with CoordinatorOptions::placement they are placed by measurements
// (coordinator/pipelines/placing.h); with by_hand there is exactly the named one. Else every
// `stages` free workers form a pipeline with evenly split layers and a new epoch; a worker with a
// loaded stage gets that stage again. Several pipelines run side by side; a sequence goes to the
// one that should be the quickest.
//
// With CoordinatorOptions::ranks above 1 every stage is a group of so many workers
// (coordinator/pipelines/groups.h); with 0 the search for a placement decides which stages are
// groups (placement/groups.h). The loss of a rank is the loss of its stage.
//
// A lost worker or link ends its pipeline but no sequence. The other members become free and form
// the next pipeline with the spare nodes. The interrupted sequences continue there, or on another
// serving pipeline, from their prompt and the tokens sent so far. Tokens are a function of those
// and the seed, so the answer stays the same. A node that failed or fell silent has 20 s to return,
// because it may be restarted or only have lost its network. If no node holds or loads the lost
// layers for 2 s after that, the sequences end with one typed error.
//
// A paused node counts as lost without blame: its pipeline ends at once. A drained node gets no new
// sequences; its pipeline ends when another pipeline that serves, or one that would form at once,
// can take its sequences, or when none runs.
//
// Admission: owners take turns (coordinator/scheduling/scheduler.h). A sequence starts when every
// stage of its pipeline has pages for prompt + max_tokens; the reservation ends when the last stage
// reports the release, or with the pipeline.
//
// Threads: everything on the main thread. Other threads use CoordinatorPort.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/crypto.h"
#include "base/ids.h"
#include "base/random.h"
#include "base/result.h"
#include "coordinator/audit_outcome.h"
#include "coordinator/request.h"
#include "placement/problem.h"
#include "proto/away.h"
#include "proto/card_reading.h"
#include "proto/link/route.h"
#include "proto/link/transport.h"
#include "proto/step.h"

namespace hearth::coordinator {

class LedgerService;

struct NodeStatus {
  std::string name;
  std::uint32_t model = 0;  // index of its model, on a server with several
  // free, loading, serving, lost; paused: free but away; checking: in a pipeline that computes only
  // audits.
  std::string state;
  std::optional<Away> away;  // its owner uses it, or will when its sequences have ended
  std::string data_address;
  // The host from which its session comes, where a router translates its address: data_address is
  // then good behind that router alone. Empty: the node is at data_address.
  std::string seen_host;
  // Of its router, which forwards it to the port of data_address; 0: none.
  std::uint16_t outside_port = 0;
  // Whether a node with the seen_host `behind` may dial this one, and where; empty: nowhere.
  bool may_be_dialled_from(const std::string& behind) const {
    return seen_host.empty() || seen_host == behind || outside_port > 0;
  }
  std::string address_for(const std::string& behind) const;
  // The machine as far as the addresses tell: nodes of one machine have the same. Machines in two
  // networks may have the same private address.
  std::string machine() const;
  std::uint32_t protocol = 0;  // the version that both sides use
  std::string isa;
  std::uint32_t threads = 0;
  std::uint64_t process_id = 0;
  std::string device;                // the card; empty: the processor
  std::optional<CardReading> card;   // absent without sensors
  std::string build;                 // as receipts name it; empty: it makes no receipts
  std::uint32_t relay_megabits = 0;  // a second, that it forwards for others; 0: it is no relay
  std::uint32_t layers_most = 0;     // that fit its memory; 0: unknown
  bool partial = false;              // it holds only these layers on its disk
  LayerRange held;
  std::uint64_t held_bytes = 0;  // of these layers
  std::uint64_t held_total = 0;  // held_bytes == held_total: all are stored and verified
  Epoch epoch;                   // 0: in no pipeline
  std::uint32_t stage = 0;
  std::string rank_address;  // empty: it computes no stage in a group
  std::uint32_t rank = 0;    // in the group of its stage,
  std::uint32_t ranks = 1;   // which has so many; 1: it computes the stage alone
  LayerRange layers;
  std::uint32_t kv_pages = 0;
  std::uint64_t weight_bytes = 0;
  std::uint64_t draft_bytes = 0;  // memory that it keeps for a draft model; 0: it has none
  double weight_bytes_per_second = 0.0;
  std::uint64_t steps_total = 0;
  std::uint64_t rows_total = 0;
  double busy_seconds_total = 0.0;
  std::uint64_t kv_tokens_used = 0;           // positions with KV on this stage
  std::uint64_t kv_pages_kept = 0;            // of the prefix cache
  std::uint64_t ring_steps_total = 0;         // first stage: steps that came back round the ring,
  double ring_seconds_total = 0.0;            // and the time that they took together
  std::uint64_t late_frames_total = 0;        // of ended epochs; dropped
  std::uint64_t replayed_rows_total = 0;      // sent again after a loss and not recomputed
  double rows_per_second = 0.0;               // positions computed, over the last seconds
  double busy_ratio = 0.0;                    // share of these seconds in which it computed, 0 to 1
  std::optional<double> energy_joules_total;  // as in Heartbeat
  double watts = 0.0;                         // average over the last seconds
  double heartbeat_age_seconds = 0.0;
  std::optional<placement::Node> measured;  // where layers are placed by what was measured
  std::string spare;                        // likewise, for a free node: why no pipeline has it
  // Where the search forms groups: nodes with the same text may form one; empty: none with it.
  std::string island;
  std::optional<NodeStanding> standing;   // with audits; nothing before the log names it
  std::string slow;                       // how slow it is; empty: not slow
  std::string barred;                     // why the ledger bars it; empty: not barred
  std::string unreceipted;                // why its work has no receipts; empty: it has some
  std::uint64_t unreceipted_windows = 0;  // since the server started
  std::string owner;                      // of the machine; empty: unknown
  // A newcomer checks others' results and serves no requests. The text says what it does or why it
  // waits.
  bool newcomer = false;
  std::string checking;
};

// The measured link from one node to another.
struct LinkStatus {
  std::string from;
  std::string to;
  placement::Link link;
  RouteKind route = RouteKind::kDirect;  // which it was measured over
};

// A node that others accuse of sending wrong bytes of the model.
struct AccusedStatus {
  std::string node;
  std::uint32_t accusers = 0;  // nodes that accuse it; each may lie
  std::string item;            // named by the first accuser: "tensor NAME", "the header"
  bool out = false;            // no node may fetch from it
};

enum class AuditMode : std::uint8_t {
  kOff,   // nothing is drawn
  kSpot,  // at the rates of ledger/policy.h
  kFull,  // every window
};

// Windows of stages that were computed and have no receipt (coordinator/proof/unreceipted.h), since
// this process began.
struct UnreceiptedStatus {
  std::uint64_t total = 0;
  std::map<std::string, std::uint64_t> by_node = {};  // node that gave no receipt
  std::map<std::string, std::uint64_t> by_key = {};   // id of the API key, "no key", "others"
  std::set<std::string> silent = {};                  // nodes without recent receipts
};

// Windows that other nodes recompute (coordinator/proof/auditor.h), since this process started.
struct AuditStatus {
  AuditMode mode = AuditMode::kOff;
  std::uint64_t selected_total = 0;  // that were to be audited
  std::uint64_t agreed_total = 0;
  std::uint64_t disputed_total = 0;
  std::uint64_t missed_total = 0;    // not audited in time, or refused by an auditor
  std::uint64_t waiting = 0;         // windows of requests whose audit has not begun
  std::uint32_t running = 0;         // requests under audit
  std::string why_waiting;           // a sentence, or empty
  std::uint64_t checked_total = 0;   // windows that newcomers audited, of those above
  std::uint64_t canaries_total = 0;  // requests that were made for them
  // Of those, the windows that draws gave to the coordinator's own referee.
  std::uint64_t referee_selected_total = 0;
  std::uint64_t referee_missed_total = 0;  // not computed, or not in time
  std::uint32_t referee_waiting = 0;       // requests
  std::string why_referee_missed;          // the latest of them; a sentence, or empty
  // From the log, including those of earlier processes.
  std::uint64_t open_disputes = 0;      // windows
  std::uint64_t ended_disputes = 0;     // verdicts
  std::uint64_t unjudged_disputes = 0;  // ended without a verdict
  UnreceiptedStatus unreceipted = {};
};

// How a stage of a pipeline sends to the next one.
struct LinkRoute {
  RouteKind kind = RouteKind::kDirect;
  std::string relay = {};  // the node that forwards; empty: the coordinator, or no relay
};

struct PipelineStatus {
  std::uint32_t model = 0;  // index of its model, on a server with several
  Epoch epoch;
  std::string state;               // forming, serving; checking: it computes only audits
  std::vector<std::string> nodes;  // by stage
  std::vector<LinkRoute> routes;   // of each stage's link to the next; empty: one stage
  std::uint32_t running = 0;
  std::uint32_t kv_pages = 0;  // the smallest stage's
  std::uint32_t kv_pages_reserved = 0;
  std::uint32_t kv_page_tokens = 0;
  std::uint32_t sequences = 0;  // most that run at once, as each keeps a state; 0: none keeps one
  ledger::Level level = ledger::Level::kNewcomer;  // its lowest node's; newcomer: or unknown
  std::vector<Epoch> twins;                        // serving, of the same layer split: may audit it
};

// A model of a server that has several.
struct ModelStatus {
  std::string name;
  // ready; loading; waiting: requests wait for room, or while another model has its turn; unloaded;
  // failed: a load failed less than ModelSwitch::kFailedFor ago, and requests for the model are
  // refused.
  std::string state;
  std::string why;            // of `failed`; of `loading` beside the current model: what is missing
  std::uint32_t waiting = 0;  // requests that wait for it to be loaded
};

struct SwarmStatus {
  bool ready = false;   // a prompt sent now would be answered
  std::string missing;  // if not: the missing workers and layers, as a sentence
  // The stages without a worker, unless a pipeline serves or forms: workers keep their loaded
  // layers, and each other worker gets the first remaining stage.
  std::vector<LayerRange> uncovered;
  std::uint32_t stages_wanted = 0;
  std::optional<placement::Objective> objective;  // where layers are placed by what was measured
  std::vector<NodeStatus> nodes;
  std::vector<LinkStatus> links;
  std::vector<AccusedStatus> accused;
  std::vector<PipelineStatus> pipelines;
  std::optional<AuditStatus> audits;  // with receipts
  std::uint32_t running = 0;          // requests without audits' runs
  std::uint32_t running_audits = 0;   // requests that audits and disputes recompute
  std::uint32_t waiting = 0;
  std::uint64_t admitted_total = 0;
  std::uint64_t resumed_total = 0;  // resumed on another pipeline or in another process
  std::uint64_t finished_stop_total = 0;
  std::uint64_t finished_length_total = 0;
  std::uint64_t finished_error_total = 0;  // without audits
  std::uint64_t cancelled_total = 0;
  std::uint64_t prompt_tokens_total = 0;
  std::uint64_t generation_tokens_total = 0;
  // Of clients' prompts with a scope: all tokens, and the cached ones.
  std::uint64_t prefix_queries_total = 0;
  std::uint64_t prefix_hits_total = 0;
  std::array<std::uint64_t, kDraftKinds> drafted_total{};  // by DraftKind
  std::array<std::uint64_t, kDraftKinds> accepted_total{};
  std::uint64_t late_frames_total = 0;    // that came to the coordinator itself
  double tokens_per_second = 0.0;         // generated, over the last seconds
  double prompt_tokens_per_second = 0.0;  // of admitted sequences, likewise
  // While no pipeline serves: one may form without help, and submissions wait for it.
  bool may_come = false;
  std::vector<ModelStatus> models;  // with several models; else empty
  std::uint32_t model = 0;          // index of the model that joined workers have or load
  // A worker with another of the server's models came recently.
  bool has_other_workers = false;
};

// Places layers by the measured figures of nodes and links.
struct MeasuredPlacement {
  placement::Model model;
  placement::Objective objective = placement::Objective::kLatency;
  std::uint64_t kv_tokens = 0;  // positions for which every stage must have room
  // Runs work of seconds on another thread; null: at once.
  std::function<void(std::function<void()> work)> elsewhere = {};
};

// The owner of a node's machine.
struct NodeOwner {
  std::string name;
  Hash256 id;  // its hash in the log
};

// Material for the coordinator's own requests.
struct CanaryWords {
  // The chat prompt for a user's message with this text; null: the text itself.
  std::function<std::vector<TokenId>(const std::vector<TokenId>& text)> prompt_of = {};
  std::vector<TokenId> end_tokens = {};  // that end an answer
};

struct HandStage {
  std::string node;
  LayerRange layers;
};

// The next ids of pipelines and sequences.
struct Numbers {
  std::uint64_t epoch = 1;  // at least CoordinatorOptions::first_epoch once a coordinator has them
  std::uint64_t sequence = 1;
};

struct CoordinatorOptions {
  std::string node = "coordinator";
  std::uint32_t stages = 1;  // workers of one pipeline; 0, with `placement`: the best number
  // Workers that compute each stage together, as ranks of a group; 1: each stage has one worker; 0,
  // with `placement`: as many as are best.
  std::uint32_t ranks = 1;
  std::optional<MeasuredPlacement> placement;
  std::vector<HandStage> by_hand;  // if not empty: the only pipeline, with `stages` stages
  std::string model_fingerprint;   // hex
  std::uint32_t layers = 0;
  StepShape shape;  // with_activations = false
  std::uint32_t canonical_version = 0;
  std::uint32_t batch_rows = 512;
  // Target between two tokens of an answer while prompts are computed; 0: the batcher's default. At
  // most limits::kItlTargetMilliseconds.
  std::chrono::milliseconds itl_target{};
  LedgerService* receipts = nullptr;  // null: no receipts. Outlives the coordinator
  // Whether a node joined without being vouched for; null: all are vouched for.
  std::function<bool(const PublicKey& key)> is_newcomer = {};
  CanaryWords canary_words = {};
  // Greater than any epoch of an earlier process, unless its clock was ahead. Then epochs continue
  // above those that workers register (limits::kEpochLead).
  std::uint64_t first_epoch = 1;
  // Not null. The coordinators of one server share them, so that no id is given twice.
  std::shared_ptr<Numbers> numbers = std::make_shared<Numbers>();
  // Keys the scopes of the prefix cache, so that workers learn no API key's id. Nothing: requests
  // share no KV.
  std::optional<Hash256> cache_secret = {};
  // Fingerprints of the server's other models: a worker with one of them may return later.
  std::set<std::string> other_models = {};
  // Called when a worker sends its own roster because it contradicts ours. False: it is not of this
  // cluster, and the worker is lost. Null: rosters are not checked.
  std::function<bool(const std::string& node, ByteSpan roster)> on_held_roster = {};
  // The owner of a node; nothing: unknown, so the node counts as its own owner. Null: likewise.
  std::function<std::optional<NodeOwner>(const PublicKey& key)> owner_of = {};
  // Makes a relay at the address of the data transport expect two connections with these tickets
  // (Relay::expect). Null: all links are direct.
  std::function<Status(const Ticket& dialler, const Ticket& acceptor, const std::string& account,
                       bool brief)>
      relay = {};
  // Expects the connections with which the two ends of a punched link show their outside addresses
  // (Rendezvous::expect), at the data port and at the control port that it returns. Null: no link
  // is punched.
  std::function<Result<std::uint16_t>(const Ticket& dialler, const Ticket& acceptor,
                                      const std::string& account)>
      punch = {};
  // Whether a TCP port answers; nothing: not known yet, so it is asked again. Null: every port
  // does.
  std::function<std::optional<bool>(const std::string& address)> answers = {};
  Duration heartbeat = std::chrono::milliseconds(250);
  Duration heartbeat_timeout = std::chrono::milliseconds(1500);
  Duration forming_timeout = std::chrono::seconds(120);
};

class Coordinator {
 public:
  // `control` delivers workers' protobufs as kControl frames; `data` listens and dials.
  static std::unique_ptr<Coordinator> start(CoordinatorOptions options, const Clock& clock,
                                            Random& random, Transport& control, Transport& data);
  virtual ~Coordinator() = default;
  virtual void on_timer() = 0;  // at least every 50 ms

  // Takes all of the sequences or none. While no pipeline serves, clients' sequences wait as long
  // as one may form, at most forming_timeout, and then end with kUnavailable. kUnavailable: no
  // pipeline serves, and none may form soon. kInvalidInput: a field breaks its range, or prompt +
  // max_tokens exceeds the context. kNoCapacity: a sequence needs more KV than any pipeline has (it
  // never fits), or the queue holds limits::kWaitingSequences (the message says which). kRefused:
  // every serving pipeline has a stage outside policy.trust or below policy.min_level. The first
  // sequence's policy applies to all.
  virtual SubmitAnswer submit(std::vector<Submission> sequences) = 0;
  Result<SequenceId> submit(GenerateRequest request, std::shared_ptr<SequenceEvents> events);
  // Ends a sequence without further events. Unknown ids are ignored.
  virtual void cancel(SequenceId sequence) = 0;
  // Ends a sequence at `position`, because its text has ended there. A sequence that reports hashes
  // gets one more event: on_hashes with the hashes of earlier positions that arrive in time.
  // Unknown ids are ignored.
  virtual void stop(SequenceId sequence, Position position) = 0;
  virtual SwarmStatus status() const = 0;
  // Sends a signed roster (proto/roster.h) to every connected worker and to later ones.
  virtual void publish_roster(Bytes roster) = 0;
  // The id of the model's manifest, likewise.
  virtual void publish_model(const Hash256& model) = 0;

  // Orders a worker to be away, as its owner could (hearth pause, drain, resume), or ends that
  // order. The worker keeps the order until its process ends or it serves another model. kNotFound:
  // no such worker is connected. kVersion: its program is too old for orders.
  virtual Status order(const std::string& node, const std::optional<Away>& away) = 0;

  // A route for one link from `from`, a worker or the coordinator's machine, to the worker `to`,
  // which is told to meet it. Direct when the direct way was not found closed. kNotFound: no such
  // worker is connected. kNoCapacity: it needs a relay, and none has room.
  virtual Result<std::string> route(const std::string& from, const std::string& to) = 0;

  // Prepares the change to another model. While `wanted`, no canary begins, and no audit except
  // while clients wait for audits of their answers, at most a minute. True: nothing waits or runs,
  // and no receipt is outstanding, or the wait for receipts has timed out.
  virtual bool wind_down(bool wanted) = 0;
  // Ends all pipelines and sessions for good. The next coordinator may then use the transports.
  virtual void retire() = 0;
};

}  // namespace hearth::coordinator
