// A request for tokens: its fields, its events, and the coordinator's answer to its submission. The
// interface between the HTTP server or audits and the coordinator.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/crypto.h"
#include "base/ids.h"
#include "base/result.h"
#include "coordinator/audit_outcome.h"
#include "ledger/policy.h"
#include "proto/step.h"

namespace hearth::coordinator {

struct SwarmStatus;

// The origin of a request.
enum class Origin : std::uint8_t {
  kClient,
  kAudit,   // recomputes a window of another request
  kCanary,  // the coordinator's own, for newcomers to check (coordinator/machine/canaries.h)
};

// The earlier answers whose KV pages a request may use (node/engine/prefix_cache.h).
enum class CacheScope : std::uint8_t {
  kKey,     // those of its API key
  kShared,  // all that chose this scope, of any key
  kOff,     // no sharing; its pages are not kept
};

// A request's API key, the nodes that may see it, and how its answer is verified. It is passed
// whole from the API key to the audits of the answer.
struct RequestPolicy {
  // Names of the only nodes that may see it, audits included; empty: any node.
  std::vector<std::string> trust = {};
  // The lowest level of a node that may see it, audits included.
  ledger::Level min_level = ledger::Level::kNewcomer;
  Verify verify = Verify::kNone;
  bool share = false;      // newcomers may recompute it
  std::string owner = {};  // id of the API key, for taking turns; empty: no key
  PublicKey account = {};  // pays for it, where the cluster has credits
  CacheScope cache = CacheScope::kKey;
  // Of an audit: the owner of the audited request, whose pages kKey means. Else unset: `owner`.
  std::optional<std::string> cache_owner = {};
  friend bool operator==(const RequestPolicy&, const RequestPolicy&) = default;
};

struct GenerateRequest {
  std::vector<TokenId> prompt;
  SamplingParams sampling;
  bool report_hashes = false;
  RequestPolicy policy = {};
  bool background = false;  // queues behind the owner's interactive requests
  // sampling.max_tokens is a default and may be lowered to fit RequestBounds::positions.
  bool may_shorten = false;
  // The first tokens of the answer, when an earlier process generated them: fewer than max_tokens,
  // without an end. Events begin with the token after them.
  std::vector<TokenId> answer = {};
  std::optional<ReceiptOrder> receipt = {};  // used when CoordinatorOptions::receipts is set
  Origin origin = Origin::kClient;
  bool for_newcomers = false;  // an audit for a checking pipeline
  // Reports the log probability of each prompt token except the first, with sampling.top_logprobs
  // alternatives. The prompt has at most limits::kScoredTokens.
  bool score_prompt = false;
  // Reports the prompt's embedding with so many values; 0: no embedding.
  std::uint32_t embedding = 0;
  std::uint32_t model = 0;  // number of the server's model
  bool drafts = true;       // allows drafts, which never change the tokens
};

// The progress that a request waits for while its model is not loaded
// (coordinator/machine/model_switch.h).
struct LoadProgress {
  std::string model;
  bool loading = false;           // false: another model finishes its requests first
  std::uint32_t workers = 0;      // workers that have come for the model
  std::uint64_t bytes = 0;        // fetched by these workers
  std::uint64_t bytes_total = 0;  // to fetch; 0: they have the file
  friend bool operator==(const LoadProgress&, const LoadProgress&) = default;
};

// The events of one sequence, in order, on the main thread; machine/passed_events.h forwards all of
// them. After on_token with a `finish` other than kNone, or after on_error, only on_audit follows.
// kError inside a token becomes on_error.
class SequenceEvents {
 public:
  virtual ~SequenceEvents() = default;
  virtual void on_admitted() = 0;
  // The number of cached prompt positions, from the first on. Before the first token, if it is
  // above 0.
  virtual void on_cached(std::uint32_t /*positions*/) {}
  // The scores of a prompt, in pieces, before the first token. A pipeline that takes over repeats
  // the same scores.
  virtual void on_scores(std::vector<SampledToken> /*scores*/) {}
  // The embedding of a prompt, before the first token. Repeated like scores.
  virtual void on_embedding(std::vector<float> /*values*/) {}
  virtual void on_token(const SampledToken& token) = 0;
  // The result of a step's drafts, before its tokens.
  virtual void on_drafts(const DraftCounts& /*counts*/) {}
  // All hashes of the sequence, sorted by position then stage, before its last token.
  virtual void on_hashes(std::vector<RowHash> hashes) = 0;
  virtual void on_error(const Error& error) = 0;
  // The audit of an answer with Verify::kFull, some time after its end. It may never come: a caller
  // that waits for it sets a deadline.
  virtual void on_audit(const AuditOutcome& /*outcome*/) {}
  // Before on_admitted, while the model is not loaded; at most once a second.
  virtual void on_loading(const LoadProgress& /*progress*/) {}
};

struct Submission {
  GenerateRequest request;
  std::shared_ptr<SequenceEvents> events;
};

// The limits of a request at its submission, and the load of the swarm.
struct RequestBounds {
  // Prompt and answer of one sequence together: the model's context, or less if the KV memory of
  // the largest serving pipeline under the request's policy is smaller. While no pipeline serves,
  // the last one's.
  std::uint32_t positions = 0;
  bool serves = true;        // a pipeline serves; else accepted requests wait for one
  std::string unverifiable;  // why its answer cannot be verified; empty: it can, or need not
  std::uint32_t running = 0;
  std::uint32_t waiting = 0;
  double tokens_per_second = 0.0;  // generated by the swarm, over the last seconds
};

// The answer to a submission of one or more sequences: all of them are taken, or none.
struct SubmitAnswer {
  Result<std::vector<SequenceId>> sequences = std::vector<SequenceId>{};  // in their order
  std::vector<std::uint32_t> max_tokens = {};  // by sequence: as submitted, or lowered
  RequestBounds bounds = {};                   // set with a refusal too
};

// Access to a Coordinator from other threads. Callbacks come on the main thread and must not block.
// Events that arrive after cancel() returns are dropped by the receiver.
class CoordinatorPort {
 public:
  virtual ~CoordinatorPort() = default;
  virtual void submit(std::vector<Submission> sequences,
                      std::function<void(SubmitAnswer)> done) = 0;
  virtual void cancel(SequenceId sequence) = 0;
  virtual void stop(SequenceId sequence, Position position) = 0;
  virtual void status(std::function<void(SwarmStatus)> done) = 0;
};

}  // namespace hearth::coordinator
