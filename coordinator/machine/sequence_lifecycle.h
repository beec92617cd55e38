// SequenceLifecycle: the life of every sequence: it is submitted, admitted, gets its tokens and the
// hashes of its rows, waits for another pipeline when its own is lost, and ends; and what is
// counted of all of them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
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
      : MachineParts(parts),
        unserved_since_(clock_.now()),
        last_largest_(options_.shape.context),
        next_sequence_(options_.first_sequence) {}

  // As of Coordinator.
  SubmitAnswer submit(std::vector<Submission> sequences);
  void cancel(SequenceId sequence);
  void stop(SequenceId sequence, Position position);

  std::uint64_t next_sequence() const { return next_sequence_; }
  // Owners of answers wait for their audits.
  bool awaits_audits() const { return !audited_.empty(); }

  // Computes a request again for an audit.
  void submit_audit(AuditRun run);
  // Tells the owner of an answer what came of an audit of it.
  void take_outcome(const AuditOutcome& outcome);

  // Starts the waiting sequences that can start.
  void admit();
  // What the last stage sent. kInvalidInput: it breaks an order or a bound, and its pipeline is to
  // be ended for it. The caller admits afterwards.
  Status take_tokens(Pipeline& pipeline, const Frame& frame);
  // Hashes of rows that a stage computed. kInvalidInput: its worker is to be lost for it.
  Status take_hashes(const Node& node, const control::v1::StepHashes& hashes);

  // Of a pipeline that is lost, out of the scheduler: those that can go on wait again, the others
  // are given back for end(). `failed`: false when an owner took a machine.
  std::vector<std::shared_ptr<Sequence>> interrupt(std::vector<std::shared_ptr<Sequence>> lost,
                                                   bool failed);
  // Ends each with what it has where that is complete, and with the error otherwise.
  void end(std::vector<std::shared_ptr<Sequence>> sequences, const Error& error);

  // The timer calls both; the first one before anything changes.
  void report_rates(TimePoint now);
  void expire();  // whatever has waited for too long: for hashes, or for a pipeline

  // Only what is counted of sequences: totals, rates, how many run and wait.
  SwarmStatus status() const;

 private:
  // An owner of sequences who takes turns with those who ask for answers. No API key's id has a
  // space.
  static constexpr char kAuditor[] = "the audits";

  RequestBounds bounds(const RequestPolicy& policy);
  Status enqueue(std::vector<Submission>& sequences, SubmitAnswer& answer);
  Result<std::shared_ptr<Sequence>> make_sequence(Submission submission) const;
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

  // Out of the scheduler and not told yet: the owner of one may cancel another.
  std::map<SequenceId, std::shared_ptr<Sequence>> ending_;
  // Owners of answers whose windows are all being audited; the oldest first.
  std::map<ledger::RequestId, std::shared_ptr<SequenceEvents>> audited_;
  TimePoint unserved_since_;    // sequences that never ran wait, and no pipeline serves
  std::uint32_t last_largest_;  // positions of one sequence, when a pipeline served
  std::uint64_t next_sequence_;
  std::uint32_t embedding_ = 0;  // of the latest client's request; likewise
  bool drafts_ = true;
  std::uint64_t late_frames_ = 0;  // of older epochs; dropped
  CounterRate token_rate_;         // reported by the timer
  CounterRate prompt_rate_;
  SwarmStatus totals_;  // only its *_total counters are kept here
};

}  // namespace hearth::coordinator
