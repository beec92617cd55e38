// SequenceLifecycle: the life of every sequence, and the counters of all. A sequence is submitted
// and admitted, gets its tokens and the hashes of its rows, waits for another pipeline after a
// loss, and ends.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "base/result.h"
#include "coordinator/machine/machine_parts.h"
#include "coordinator/pipelines/pipelines.h"
#include "coordinator/proof/audit_case.h"
#include "coordinator/scheduling/sequence.h"
#include "coordinator/workers/counter_rate.h"
#include "proto/control.pb.h"

namespace hearth::coordinator {

class SequenceLifecycle : MachineParts {
 public:
  explicit SequenceLifecycle(const MachineParts& parts)
      : MachineParts(parts), unserved_since_(clock_.now()), last_largest_(options_.shape.context) {}

  // As in Coordinator.
  SubmitAnswer submit(std::vector<Submission> sequences);
  void cancel(SequenceId sequence);
  void stop(SequenceId sequence, Position position);

  // Whether clients wait for the audits of their answers.
  bool awaits_audits() const { return !audited_.empty(); }

  // Submits the recomputation of a request for an audit.
  void submit_audit(AuditRun run);
  // Passes the outcome of an audit to the audited answer.
  void take_outcome(const AuditOutcome& outcome);

  // Starts the waiting sequences that can start.
  void admit();
  // Takes the last stage's tokens. kInvalidInput: they break an order or a bound, and the caller
  // must end the pipeline. The caller admits afterwards.
  Status take_tokens(Pipeline& pipeline, const Frame& frame);
  // Takes a stage's row hashes. kInvalidInput: the caller must lose the worker.
  Status take_hashes(const Node& node, const control::v1::StepHashes& hashes);

  // Takes the sequences of a lost pipeline, already out of the scheduler. Those that can continue
  // wait again; the others are returned for end(). `failed`: false when an owner took a machine.
  std::vector<std::shared_ptr<Sequence>> interrupt(std::vector<std::shared_ptr<Sequence>> lost,
                                                   bool failed);
  // Ends each sequence: normally if its answer is complete, else with the error.
  void end(std::vector<std::shared_ptr<Sequence>> sequences, const Error& error);

  // The timer calls both; the first one before anything changes.
  void report_rates(TimePoint now);
  void expire();  // sequences that waited too long for hashes or a pipeline

  // Only the figures of sequences: totals, rates, and how many run and wait.
  SwarmStatus status() const;

 private:
  // The name under which audits take turns with API keys, whose ids never have a space.
  static constexpr char kAuditor[] = "the audits";

  RequestBounds bounds(const RequestPolicy& policy);
  Status enqueue(std::vector<Submission>& sequences, SubmitAnswer& answer);
  Result<std::shared_ptr<Sequence>> make_sequence(Submission submission) const;
  std::vector<std::string> all_ranks(std::vector<std::string> stages) const;
  void match_clients(Sequence& sequence);
  void start_sequence(Sequence& sequence);
  Status take_cached(Epoch epoch, const std::vector<CachedPrefix>& all);
  Status take_scores(Epoch epoch, std::vector<SampledToken> scores);
  void take_drafts(Epoch epoch, const SequenceDrafts& drafts);
  Status take_embedding(Epoch epoch, PromptEmbedding embedding);
  Status take_token(Epoch epoch, const SampledToken& token, std::uint32_t run);
  void deliver(const std::shared_ptr<Sequence>& sequence, const SampledToken& token);
  void release(Sequence& sequence);
  void count_error(const Sequence& sequence);
  void finish(const std::shared_ptr<Sequence>& sequence, const SampledToken& token);
  void finish_stopped(const std::shared_ptr<Sequence>& sequence);
  void finish_held(bool only_overdue);
  void expire_waiting();
  void expire_interrupted();

  // Sequences out of the scheduler whose end event is pending: the receiver of one may cancel
  // another.
  std::map<SequenceId, std::shared_ptr<Sequence>> ending_;
  std::set<SequenceId> held_;  // running ones that wait for hashes, and some that do no longer
  // Receivers of released answers with Verify::kFull and receipts, until their last outcome.
  std::map<ledger::RequestId, std::shared_ptr<SequenceEvents>> audited_;
  TimePoint unserved_since_;     // since when new sequences wait and no pipeline serves
  std::uint32_t last_largest_;   // positions of one sequence, when a pipeline last served
  std::uint32_t embedding_ = 0;  // of the latest client's request; likewise
  bool drafts_ = true;
  std::uint64_t late_frames_ = 0;  // of older epochs; dropped
  CounterRate token_rate_;         // reported by the timer
  CounterRate prompt_rate_;
  SwarmStatus totals_;  // only its *_total counters are kept here
};

}  // namespace hearth::coordinator
