// Coordinator: which workers there are, which pipelines they form, and which sequences run. A
// state machine over the seams; the HTTP server and the gRPC service are adapters around it.
//
// Pipelines: with CoordinatorOptions::placement, as measured (coordinator/pipelines/placing.h);
// with by_hand, the one that is named. Else, whenever `stages` free workers are registered, they
// become one, layers split evenly, under a new epoch; a worker that has loaded the layers of a
// stage gets that stage again. Several pipelines run side by side; a sequence goes to the one that
// is expected to be the quickest.
//
// A lost worker, or a lost link, ends its pipeline and no sequence. The other members become free;
// with the spare nodes they form the next one, and the interrupted sequences go on there, or on
// another pipeline that serves, from their prompt and the tokens that their owners have: tokens are
// a function of those and the seed, so the next one is the one that would have come. A node that
// failed or fell silent has 20 s to return: it may be started again, or have lost its network.
// Where no node holds the lost layers for 2 s after that, and none is loading them, they end with
// one typed error.
//
// A node whose owner pauses it is like a lost one, but no node is blamed: its pipeline ends
// at once. One that is drained gets nothing new; its pipeline ends when others can take over what
// it runs, or when nothing runs.
//
// Admission: owners take turns (coordinator/scheduling/scheduler.h). A sequence starts when every
// stage of its pipeline has pages for prompt + max_tokens; the reservation ends when the last stage
// reports the release, or with the pipeline.
//
// Threads: everything on the owner's thread. CoordinatorPort is the way in from other threads.
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
#include "proto/link/transport.h"
#include "proto/step.h"

namespace hearth::coordinator {

class LedgerService;

struct NodeStatus {
  std::string name;
  // free, loading, serving, lost; paused: it would be free and is away; checking: in a pipeline
  // that computes nothing but audits.
  std::string state;
  std::optional<Away> away;  // its owner has it, or will when what it serves is over
  std::string data_address;
  std::uint32_t protocol = 0;  // that it and the coordinator speak with each other
  std::string isa;
  std::uint32_t threads = 0;
  std::uint64_t process_id = 0;
  std::string device;               // the card; empty: the processor
  std::optional<CardReading> card;  // where its sensors can be asked
  std::string build;                // its program's name in receipts; empty: it makes none
  std::uint32_t layers_most = 0;    // that fit its memory; 0: it cannot say
  bool partial = false;             // it has no more of the model than this on its disk
  LayerRange held;
  std::uint64_t held_bytes = 0;  // of these layers
  std::uint64_t held_total = 0;  // held_bytes is held_total: all of them, and right
  Epoch epoch;                   // 0: in no pipeline
  std::uint32_t stage = 0;
  LayerRange layers;
  std::uint32_t kv_pages = 0;
  std::uint64_t weight_bytes = 0;
  std::uint64_t draft_bytes = 0;  // of memory that it keeps for a draft model; 0: it has none
  double weight_bytes_per_second = 0.0;
  std::uint64_t steps_total = 0;
  std::uint64_t rows_total = 0;
  double busy_seconds_total = 0.0;
  std::uint64_t kv_tokens_used = 0;       // positions with KV on this stage
  std::uint64_t kv_pages_kept = 0;        // of ended sequences, for requests that begin as they did
  std::uint64_t ring_steps_total = 0;     // first stage: steps that came back round the ring,
  double ring_seconds_total = 0.0;        // and the time that they took together
  std::uint64_t late_frames_total = 0;    // of epochs that were over when they came; dropped
  std::uint64_t replayed_rows_total = 0;  // came again after a loss, and were not computed again
  double rows_per_second = 0.0;           // positions computed, over the last seconds
  double busy_ratio = 0.0;                // share of these seconds in which it computed, 0 to 1
  std::optional<double> energy_joules_total;  // that it drew, as Heartbeat has it
  double watts = 0.0;                         // of these joules, over the last seconds
  double heartbeat_age_seconds = 0.0;
  std::optional<placement::Node> measured;  // where layers are placed by what was measured
  std::string spare;                        // then, of a free one: why no pipeline has it
  std::optional<NodeStanding> standing;     // where audits are; nothing before the log names it
  std::string slow;                         // how slow it was found lately; empty: it was not
  std::string barred;                       // why the ledger lets it have no work; empty: it may
  std::string unreceipted;                  // why its work has no receipts; empty: it has some
  std::uint64_t unreceipted_windows = 0;    // of its, since the server began
  std::string owner;                        // of the machine; empty: unknown
  // It checks what others computed and serves no requests; then what it does, or why it waits.
  bool newcomer = false;
  std::string checking;
};

// The way from a node to another, as measured.
struct LinkStatus {
  std::string from;
  std::string to;
  placement::Link link;
};

// A node that others accuse of sending wrong bytes of the model.
struct AccusedStatus {
  std::string node;
  std::uint32_t accusers = 0;  // nodes that say so; each may lie
  std::string item;            // that the first of them named: "tensor NAME", "the header"
  bool out = false;            // no node is told to fetch from it
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
  std::map<std::string, std::uint64_t> by_node = {};  // that gave none
  std::map<std::string, std::uint64_t> by_key = {};   // id of the API key, "no key", "others"
  std::set<std::string> silent = {};                  // nodes that give none lately
};

// Windows of requests that others compute again (coordinator/proof/auditor.h), since this
// process began.
struct AuditStatus {
  AuditMode mode = AuditMode::kOff;
  std::uint64_t selected_total = 0;  // that were to be audited
  std::uint64_t agreed_total = 0;
  std::uint64_t disputed_total = 0;
  std::uint64_t missed_total = 0;    // not audited in time, or refused by an auditor
  std::uint64_t waiting = 0;         // of requests that are not being audited yet
  std::uint32_t running = 0;         // requests that are
  std::string why_waiting;           // a sentence, or empty
  std::uint64_t checked_total = 0;   // windows that newcomers audited, of those above
  std::uint64_t canaries_total = 0;  // requests that were made for them
  // Of those, what draws gave to the coordinator's own referee.
  std::uint64_t referee_selected_total = 0;
  std::uint64_t referee_missed_total = 0;  // that it did not compute, or not in time
  std::uint32_t referee_waiting = 0;       // requests
  std::string why_referee_missed;          // the latest of them; a sentence, or empty
  // Of the log, those of earlier processes too.
  std::uint64_t open_disputes = 0;      // windows
  std::uint64_t ended_disputes = 0;     // verdicts
  std::uint64_t unjudged_disputes = 0;  // that ended without one
  UnreceiptedStatus unreceipted = {};
};

struct PipelineStatus {
  Epoch epoch;
  std::string state;               // forming, serving; checking: it computes nothing but audits
  std::vector<std::string> nodes;  // by stage
  std::uint32_t running = 0;
  std::uint32_t kv_pages = 0;  // the smallest stage's
  std::uint32_t kv_pages_reserved = 0;
  std::uint32_t kv_page_tokens = 0;
  ledger::Level level = ledger::Level::kNewcomer;  // the lowest of its nodes; newcomer: or unknown
  std::vector<Epoch> twins;  // that serve with the same cut, so that each can audit the other
};

// A model of a server that has several.
struct ModelStatus {
  std::string name;
  // ready; loading; waiting: requests wait for it, and another model has its turn; unloaded;
  // failed: it could not be loaded lately.
  std::string state;
  std::string why;            // of failed
  std::uint32_t waiting = 0;  // requests that wait for it to be loaded
};

struct SwarmStatus {
  bool ready = false;   // a prompt sent now would be answered
  std::string missing;  // else why not: which workers and layers, as a sentence
  // The stages of a pipeline for which no worker is here, unless one serves or forms: who has
  // loaded layers keeps them, and each other one gets the first that are left.
  std::vector<LayerRange> uncovered;
  std::uint32_t stages_wanted = 0;
  std::optional<placement::Objective> objective;  // where layers are placed by what was measured
  std::vector<NodeStatus> nodes;
  std::vector<LinkStatus> links;
  std::vector<AccusedStatus> accused;
  std::vector<PipelineStatus> pipelines;
  std::optional<AuditStatus> audits;  // where receipts are made
  std::uint32_t running = 0;          // requests; audits' runs are counted by themselves
  std::uint32_t running_audits = 0;   // requests that audits and disputes have computed again
  std::uint32_t waiting = 0;
  std::uint64_t admitted_total = 0;
  std::uint64_t resumed_total = 0;  // that went on from tokens, on another pipeline or process
  std::uint64_t finished_stop_total = 0;
  std::uint64_t finished_length_total = 0;
  std::uint64_t finished_error_total = 0;  // without audits
  std::uint64_t cancelled_total = 0;
  std::uint64_t prompt_tokens_total = 0;
  std::uint64_t generation_tokens_total = 0;
  // Of prompts that may share KV: their tokens, and those of them that were not computed.
  std::uint64_t prefix_queries_total = 0;
  std::uint64_t prefix_hits_total = 0;
  std::array<std::uint64_t, kDraftKinds> drafted_total{};  // by DraftKind
  std::array<std::uint64_t, kDraftKinds> accepted_total{};
  std::uint64_t late_frames_total = 0;    // that came to the coordinator itself
  double tokens_per_second = 0.0;         // generated, over the last seconds
  double prompt_tokens_per_second = 0.0;  // of admitted sequences, likewise
  // While no pipeline serves: one may come by itself, and what is submitted waits for it.
  bool may_come = false;
  std::vector<ModelStatus> models;  // of a server that has several; else empty
  std::uint32_t model = 0;          // of them, that the workers have or load
  // A worker of another of the server's models came lately, of which nothing else is known.
  bool has_other_workers = false;
};

// Layers are placed by what nodes and links were measured to do.
struct MeasuredPlacement {
  placement::Model model;
  placement::Objective objective = placement::Objective::kLatency;
  std::uint64_t kv_tokens = 0;  // that every stage must have room for
  // Runs what may take seconds on another thread; null: at once.
  std::function<void(std::function<void()> work)> elsewhere = {};
};

// Whose machine a node is.
struct NodeOwner {
  std::string name;
  Hash256 id;  // as the log names it
};

// Of which the coordinator makes requests of its own.
struct CanaryWords {
  // The prompt that clients' messages would come to if they said this; null: the text as it is.
  std::function<std::vector<TokenId>(const std::vector<TokenId>& text)> prompt_of = {};
  std::vector<TokenId> end_tokens = {};  // that end an answer
};

struct HandStage {
  std::string node;
  LayerRange layers;
};

struct CoordinatorOptions {
  std::string node = "coordinator";
  std::uint32_t stages = 1;  // workers of one pipeline; 0, with `placement`: as many as are best
  std::optional<MeasuredPlacement> placement;
  std::vector<HandStage> by_hand;  // then this is the only pipeline; `stages` is its size
  std::string model_fingerprint;   // hex
  std::uint32_t layers = 0;
  StepShape shape;  // with_activations = false
  std::uint32_t canonical_version = 0;
  std::uint32_t batch_rows = 512;
  // Between two tokens of an answer while prompts are computed; 0: the batcher's default. At most
  // limits::kItlTargetMilliseconds.
  std::chrono::milliseconds itl_target{};
  LedgerService* receipts = nullptr;  // null: none are made. Outlives the coordinator
  // Whether a node came in without being vouched for; null: all were.
  std::function<bool(const PublicKey& key)> is_newcomer = {};
  CanaryWords canary_words = {};
  // Greater than any epoch of an earlier process, unless its clock was ahead: then pipelines go on
  // above what workers say when they register (limits::kEpochLead).
  std::uint64_t first_epoch = 1;
  std::uint64_t first_sequence = 1;  // likewise, of the ids that this process gives
  // Names the scopes of the prefix cache to workers, who learn no API key's id from them. Nothing:
  // no request shares KV with another.
  std::optional<Hash256> cache_secret = {};
  // Fingerprints of the server's other models: a worker that holds one of them may come again.
  std::set<std::string> other_models = {};
  // A worker shows the roster that it holds, against the one that it was sent. False when it
  // is not of this cluster: then the worker is lost. Null: rosters are not checked.
  std::function<bool(const std::string& node, ByteSpan roster)> on_held_roster = {};
  // Who answers for a node; nothing: unknown, and it answers for itself. Null: likewise.
  std::function<std::optional<NodeOwner>(const PublicKey& key)> owner_of = {};
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

  // Takes all of the sequences or none. While no pipeline serves, those of clients wait for one for
  // as long as one may come, at most forming_timeout, and end with kUnavailable when none may.
  // kUnavailable: no pipeline serves, and none may come soon. kInvalidInput: a field
  // breaks its range, or prompt + max_tokens exceeds the context. kNoCapacity: a sequence needs
  // more KV than any pipeline has in all (it never fits), or the queue holds
  // limits::kWaitingSequences (the message says which). kRefused: every pipeline that serves has a
  // stage outside policy.trust or below policy.min_level. The policy of the first sequence is that
  // of all.
  virtual SubmitAnswer submit(std::vector<Submission> sequences) = 0;
  Result<SequenceId> submit(GenerateRequest request, std::shared_ptr<SequenceEvents> events);
  // Ends a sequence without further events. Unknown ids are ignored.
  virtual void cancel(SequenceId sequence) = 0;
  // Ends a sequence that its owner wants no token of from `position` on, for its text has ended.
  // One that reports hashes has one more event, on_hashes with those of the positions before that
  // have come in time. Unknown ids are ignored.
  virtual void stop(SequenceId sequence, Position position) = 0;
  virtual SwarmStatus status() const = 0;
  // Signed bytes (proto/roster.h) for every worker that is connected, and for those to come.
  virtual void publish_roster(Bytes roster) = 0;
  // The id of the model's manifest, likewise.
  virtual void publish_model(const Hash256& model) = 0;

  // Tells a worker to be away, as its owner would (hearth pause, drain, resume), or that this ends;
  // the worker keeps it until its process ends or it serves another model. kNotFound: no such
  // worker is connected. kVersion: its program is too old for orders.
  virtual Status order(const std::string& node, const std::optional<Away>& away) = 0;

  // Where another model is to take this one's place. While it is wanted no audit and no canary
  // begins. True: nothing waits or runs, and no receipt of what ran is still to come, or none came
  // for so long that none will.
  virtual bool wind_down(bool wanted) = 0;
  // Ends all pipelines and sessions, and forms no pipeline any more. Then the next one may have its
  // transports.
  virtual void retire() = 0;
  struct Next {
    std::uint64_t epoch = 0;
    std::uint64_t sequence = 0;
  };
  virtual Next next() const = 0;  // that it has not given
};

}  // namespace hearth::coordinator
