// A request for tokens: what it asks for, what happens to it, and how the coordinator answers its
// submission. The contract between those who ask (the HTTP server, audits) and the coordinator.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
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

// Where a request comes from.
enum class Origin : std::uint8_t {
  kClient,
  kAudit,   // recomputes a window of another request
  kCanary,  // the coordinator's own, for newcomers to check (coordinator/machine/canaries.h)
};

// Which earlier answers a request may share KV pages with (node/engine/prefix_cache.h).
enum class CacheScope : std::uint8_t {
  kKey,     // those of its API key
  kShared,  // those that asked for this too, of any key
  kOff,     // none; and it leaves nothing for later ones
};

// Who asks, which nodes may see the request, and how its answer is verified. It is carried whole
// from the API key to the audits of the answer.
struct RequestPolicy {
  // Names of the only nodes that may see it, audits included; empty: any node.
  std::vector<std::string> trust = {};
  // The lowest level of a node that may see it, audits included.
  ledger::Level min_level = ledger::Level::kNewcomer;
  Verify verify = Verify::kNone;
  bool share = false;      // newcomers may recompute it
  std::string owner = {};  // id of the API key, by which turns are taken; empty: none
  PublicKey account = {};  // pays for it, where the cluster has credits
  CacheScope cache = CacheScope::kKey;
  friend bool operator==(const RequestPolicy&, const RequestPolicy&) = default;
};

struct GenerateRequest {
  std::vector<TokenId> prompt;
  SamplingParams sampling;
  bool report_hashes = false;
  RequestPolicy policy = {};
  bool background = false;  // queues behind requests of the same owner that are not
  // sampling.max_tokens is a default: it is lowered to what RequestBounds::positions leaves.
  bool may_shorten = false;
  // The first tokens of the answer, when an earlier process generated them: fewer than max_tokens,
  // without an end. Events begin with the token after them.
  std::vector<TokenId> answer = {};
  std::optional<ReceiptOrder> receipt = {};  // used where CoordinatorOptions::receipts is set
  Origin origin = Origin::kClient;
  bool for_newcomers = false;  // an audit that a checking pipeline is to compute
  // Its events tell the log probability of each token of the prompt but the first, with
  // sampling.top_logprobs alternatives. A prompt of at most limits::kScoredTokens.
  bool score_prompt = false;
  // Its events tell the prompt's embedding, of so many values; 0: they tell none.
  std::uint32_t embedding = 0;
  std::uint32_t model = 0;  // of the server's models, by its number
  bool drafts = true;       // its tokens may be drafted; they are the same either way
};

// What a request waits for whose model is not loaded (coordinator/machine/model_switch.h).
struct LoadProgress {
  std::string model;
  bool loading = false;           // else another model finishes its requests first
  std::uint32_t workers = 0;      // that have come for the model
  std::uint64_t bytes = 0;        // of its layers that these workers have fetched
  std::uint64_t bytes_total = 0;  // that they fetch; 0: they have the file
  friend bool operator==(const LoadProgress&, const LoadProgress&) = default;
};

// What happens to one sequence, in order, on the owner's thread; machine/passed_events.h passes all
// of it on. After on_token with a `finish`
// other than kNone, or after on_error, nothing follows but on_audit. kError inside a token becomes
// on_error.
class SequenceEvents {
 public:
  virtual ~SequenceEvents() = default;
  virtual void on_admitted() = 0;
  // So many positions of the prompt, from the first on, were not computed: earlier answers left
  // their KV. Before the first token; not called where there are none.
  virtual void on_cached(std::uint32_t /*positions*/) {}
  // Of a prompt that is scored, in pieces, before the first token. A pipeline that takes over from
  // a lost one says them again, the same.
  virtual void on_scores(std::vector<SampledToken> /*scores*/) {}
  // Of a prompt that is embedded, before the first token. Said again as scores are.
  virtual void on_embedding(std::vector<float> /*values*/) {}
  virtual void on_token(const SampledToken& token) = 0;
  // What became of drafts of the tokens that follow, by a step that had some.
  virtual void on_drafts(const DraftCounts& /*counts*/) {}
  // All hashes of the sequence, sorted by position then stage, before its last token.
  virtual void on_hashes(std::vector<RowHash> hashes) = 0;
  virtual void on_error(const Error& error) = 0;
  // The audit of an answer with Verify::kFull, some time after its end. It may never come: a caller
  // that waits for it sets a deadline.
  virtual void on_audit(const AuditOutcome& /*outcome*/) {}
  // Before on_admitted, while the model is not loaded; not more than once a second.
  virtual void on_loading(const LoadProgress& /*progress*/) {}
};

struct Submission {
  GenerateRequest request;
  std::shared_ptr<SequenceEvents> events;
};

// What a request may have at the time of its submission, and how busy the swarm is.
struct RequestBounds {
  // Prompt and answer of one sequence together: the model's context, or the KV memory of the
  // largest pipeline that serves and that the request's policy allows, where that is less. While
  // none serves, of the last one that did.
  std::uint32_t positions = 0;
  bool serves = true;        // a pipeline serves; else what is taken waits for one
  std::string unverifiable;  // why its answer cannot be verified; empty: it can, or need not
  std::uint32_t running = 0;
  std::uint32_t waiting = 0;
  double tokens_per_second = 0.0;  // generated by the swarm, over the last seconds
};

// The answer to a submission of one or more sequences: all of them are taken, or none.
struct SubmitAnswer {
  Result<std::vector<SequenceId>> sequences = std::vector<SequenceId>{};  // in their order
  std::vector<std::uint32_t> max_tokens = {};  // by sequence: as submitted, or lowered
  RequestBounds bounds = {};                   // with a refusal, too
};

// Access to a Coordinator from other threads. Callbacks come on the owner's thread and must not
// block. Events that arrive after cancel() returns are dropped by the receiver.
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
