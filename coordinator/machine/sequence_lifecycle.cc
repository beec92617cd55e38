#include "coordinator/machine/sequence_lifecycle.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "coordinator/machine/newcomer_checks.h"
#include "coordinator/machine/pipeline_lifecycle.h"
#include "coordinator/machine/standing_view.h"
#include "coordinator/pipelines/pipeline_links.h"
#include "coordinator/proof/ledger_service.h"
#include "coordinator/scheduling/scheduler.h"
#include "coordinator/scheduling/verifiable.h"
#include "proto/fixed_field.h"

namespace hearth::coordinator {
namespace {

// How long sequences of a lost pipeline wait when no pipeline may come: that may be unknown for a
// moment between two pipelines, and an owner may soon resume a machine.
constexpr Duration kResumePatience = std::chrono::milliseconds(1'800);
// Pipelines that a sequence may lose without a token in between. More of them end it, because it
// may cause the losses.
constexpr std::uint32_t kFruitlessLosses = 5;
// How long a last token waits for the hashes of its rows, which come on other links than it. A busy
// machine may send them seconds later.
constexpr Duration kHashPatience = std::chrono::seconds(30);
constexpr std::size_t kAuditedMax = 8'192;  // answers whose owners wait for their audits

class AuditEvents final : public SequenceEvents {
 public:
  AuditEvents(LedgerService& receipts, const ledger::RequestId& run)
      : receipts_(receipts), run_(run) {}
  void on_admitted() override {}
  void on_token(const SampledToken&) override {}
  void on_hashes(std::vector<RowHash>) override {}
  void on_error(const Error& error) override { receipts_.give_up(run_, error.message); }

 private:
  LedgerService& receipts_;
  const ledger::RequestId run_;
};

Status check_tokens(const std::string& what, const std::vector<TokenId>& tokens,
                    const StepShape& shape) {
  REQUIRE(tokens.size() <= shape.context, "the ", what, " has ", tokens.size(),
          " tokens; the context has ", shape.context);
  for (const TokenId token : tokens) {
    REQUIRE(token >= 0 && static_cast<std::uint32_t>(token) < shape.vocabulary, "the ", what,
            " has token ", token, "; the vocabulary has ", shape.vocabulary);
  }
  return ok_status();
}

Status check_tokens(const GenerateRequest& request, const StepShape& shape) {
  TRY_VOID(check_tokens("prompt", request.prompt, shape));
  TRY_VOID(check_tokens("answer", request.answer, shape));
  REQUIRE(request.answer.empty() || request.answer.size() < request.sampling.max_tokens,
          "the answer has ", request.answer.size(), " tokens already; max_tokens is ",
          request.sampling.max_tokens);
  return ok_status();
}

}  // namespace

RequestBounds SequenceLifecycle::bounds(const RequestPolicy& policy) {
  RequestBounds out;
  const std::optional<std::uint32_t> largest = scheduler_.largest_sequence(policy);
  if (largest) last_largest_ = *largest;
  out.positions = std::min(options_.shape.context, largest.value_or(last_largest_));
  out.serves = scheduler_.serves();
  if (policy.verify != Verify::kNone) {
    const AuditMode mode =
        options_.receipts != nullptr ? options_.receipts->audits().mode : AuditMode::kOff;
    const bool is_known = mode == AuditMode::kOff || out.serves;
    if (is_known) out.unverifiable = why_unverifiable(mode, standings_.pipeline_statuses(), policy);
  }
  out.running = scheduler_.running() - scheduler_.running_of(kAuditor);
  out.waiting = scheduler_.waiting() - scheduler_.waiting_of(kAuditor);
  out.tokens_per_second = token_rate_.per_second(clock_.now());
  return out;
}

SubmitAnswer SequenceLifecycle::submit(std::vector<Submission> sequences) {
  INVARIANT(!sequences.empty(), "a submission has a sequence");
  SubmitAnswer answer;
  answer.bounds = bounds(sequences.front().request.policy);
  for (Submission& one : sequences) {
    const std::size_t prompt = one.request.prompt.size();
    const auto positions = answer.bounds.positions;
    const auto left = static_cast<std::uint32_t>(positions > prompt ? positions - prompt : 1);
    std::uint32_t& length = one.request.sampling.max_tokens;
    if (one.request.may_shorten) length = std::min(length, left);
    answer.max_tokens.push_back(length);
  }
  const Status taken = enqueue(sequences, answer);
  if (!taken.ok()) answer.sequences = taken.error();
  admit();
  return answer;
}

Status SequenceLifecycle::enqueue(std::vector<Submission>& sequences, SubmitAnswer& answer) {
  std::vector<std::shared_ptr<Sequence>> made;
  for (Submission& one : sequences) {
    TRY(auto sequence, make_sequence(std::move(one)));
    sequence->id = SequenceId(options_.numbers->sequence + made.size());
    const std::optional<Hash256>& secret = options_.cache_secret;
    if (secret) sequence->scope = cache_scope(*secret, sequence->request.policy);
    match_clients(*sequence);
    made.push_back(std::move(sequence));
  }
  std::vector<SequenceId> ids;
  for (const auto& sequence : made) {
    const Status taken = scheduler_.enqueue(sequence);
    if (!taken.ok()) {
      for (const SequenceId id : ids) scheduler_.remove_waiting(id);
      return taken;
    }
    ids.push_back(sequence->id);
  }
  INVARIANT(ids.size() == made.size(), "a submission is taken whole");
  options_.numbers->sequence += ids.size();
  answer.sequences = std::move(ids);
  return ok_status();
}

Result<std::shared_ptr<Sequence>> SequenceLifecycle::make_sequence(Submission submission) const {
  GenerateRequest& request = submission.request;
  TRY_VOID(check_tokens(request, options_.shape));
  auto sequence = std::make_shared<Sequence>();
  sequence->prompt_tokens = static_cast<std::uint32_t>(request.prompt.size());
  sequence->answer = std::exchange(request.answer, {});
  sequence->request = std::move(request);
  sequence->events = std::move(submission.events);
  TRY_VOID(validate(sequence->open(), options_.shape));
  if (scheduler_.serves()) {
    TRY_VOID(scheduler_.fits_somewhere(*sequence));
    return sequence;
  }
  const bool waits = sequence->request.origin == Origin::kClient && lifecycle_.may_come();
  if (waits) return sequence;  // whether it fits is known when there is a pipeline (pop_unfit)
  return Error::of(ErrorCode::kUnavailable, "no pipeline serves: ", lifecycle_.missing());
}

// Audits and canaries are opened as the latest client's request was, so that no stage can tell
// them.
void SequenceLifecycle::match_clients(Sequence& sequence) {
  GenerateRequest& request = sequence.request;
  if (request.origin == Origin::kClient) {
    embedding_ = request.embedding;
    drafts_ = request.drafts;
    return;
  }
  request.drafts = drafts_;
  if (sequence.answer.empty()) request.embedding = embedding_;
}

// The workers of the pipeline whose stages these nodes are: a group's stage is its rank 0.
std::vector<std::string> SequenceLifecycle::all_ranks(std::vector<std::string> stages) const {
  for (const auto& [epoch, pipeline] : pipelines_.all()) {
    const bool same = std::ranges::equal(pipeline.members, stages, {}, &Member::node);
    if (same) return pipeline.nodes();
  }
  return stages;
}

// The audit gets its tokens with the receipts (release()); its events only report a failure.
void SequenceLifecycle::submit_audit(AuditRun run) {
  const ledger::RequestId name = run.order.request;
  GenerateRequest request{std::move(run.prompt), std::move(run.sampling)};
  request.answer = std::move(run.answer);
  request.policy.trust = all_ranks(std::move(run.nodes));
  request.policy.min_level = run.min_level;
  request.policy.owner = kAuditor;
  request.policy.cache = run.cache;
  request.policy.cache_owner = std::move(run.cache_owner);
  request.background = true;
  request.receipt = run.order;
  request.origin = Origin::kAudit;
  request.for_newcomers = run.for_newcomers;
  std::vector<Submission> one;
  one.push_back({std::move(request), std::make_shared<AuditEvents>(*options_.receipts, name)});
  const auto taken = submit(std::move(one)).sequences;
  if (!taken) options_.receipts->put_off(name, taken.error().message);
}

void SequenceLifecycle::cancel(SequenceId id) {
  if (const auto ending = ending_.find(id); ending != ending_.end()) {
    if (!ending->second->ended) ++totals_.cancelled_total;
    scheduler_.end(*ending->second);
    return;
  }
  const std::shared_ptr<Sequence> sequence = scheduler_.find(id);
  if (!sequence || sequence->ended) return;
  ++totals_.cancelled_total;
  const bool waits = sequence->epoch == Epoch();
  if (waits) {
    sequence->ended = true;
    scheduler_.remove_waiting(id);
    admit();
    return;
  }
  if (!sequence->answered) {
    links_.send(sequence->epoch,
                {FrameType::kCancel, encode(CancelMessage{sequence->epoch, {id}})});
  }
  sequence->held.reset();
  scheduler_.end(*sequence);
}

void SequenceLifecycle::stop(SequenceId id, Position position) {
  const std::shared_ptr<Sequence> sequence = ending_.contains(id) ? nullptr : scheduler_.find(id);
  if (!sequence || sequence->ended || sequence->stopped) return;
  const bool runs = sequence->epoch != Epoch();
  if (!sequence->request.report_hashes || position >= sequence->tokens_known()) return cancel(id);
  ++totals_.finished_stop_total;
  if (!runs) {  // between two pipelines: there will be no more hashes than those of the lost one
    sequence->stopped = position;
    scheduler_.remove_waiting(id);
    return finish_stopped(sequence);
  }
  if (!sequence->answered) {
    links_.send(sequence->epoch,
                {FrameType::kCancel, encode(CancelMessage{sequence->epoch, {id}})});
  }
  sequence->held.reset();
  sequence->stopped = position;
  sequence->held_until = clock_.now() + kHashPatience;
  held_.insert(id);
  finish_held(false);
}

// One at a time: every event may change which sequence is next.
void SequenceLifecycle::admit() {
  for (;;) {
    if (const auto unfit = scheduler_.pop_unfit()) {
      const Status why = scheduler_.fits_somewhere(*unfit);
      end({unfit}, why.error());
      continue;
    }
    const auto sequence = scheduler_.admit();
    if (!sequence) break;
    INVARIANT(sequence->epoch != Epoch() && !sequence->ended,
              "a sequence that starts has a pipeline and has not ended");
    start_sequence(*sequence);
    if (std::exchange(sequence->admitted, true)) {
      ++totals_.resumed_total;
      continue;
    }
    ++totals_.admitted_total;
    if (!sequence->answer.empty()) ++totals_.resumed_total;
    totals_.prompt_tokens_total += sequence->prompt_tokens;
    if (sequence->request.origin == Origin::kClient) {
      if (sequence->scope) totals_.prefix_queries_total += sequence->prompt_tokens;
      newcomers_.saw(sequence->request);
    }
    sequence->events->on_admitted();
  }
}

void SequenceLifecycle::start_sequence(Sequence& sequence) {
  // The next pipeline computes all rows again.
  sequence.hashes.clear();
  const bool hashed = sequence.request.report_hashes;
  sequence.again = hashed ? static_cast<std::uint32_t>(sequence.answer.size()) : 0;
  const Pipeline* pipeline = pipelines_.find(sequence.epoch);
  sequence.receipts = sequence.request.receipt && pipeline != nullptr && pipeline->model;
  if (sequence.receipts) {
    options_.receipts->start(sequence.epoch, sequence.request.receipt->request,
                             sequence.tokens_wanted(), sequence.request.policy.owner);
  }
  SubmitMessage message = sequence.submit();
  message.open.background = sequence.request.background;
  links_.send(sequence.epoch, {FrameType::kSubmit, encode(message)});
}

Status SequenceLifecycle::take_tokens(Pipeline& pipeline, const Frame& frame) {
  REQUIRE(frame.type == FrameType::kTokens, "frame type ", static_cast<int>(frame.type),
          " does not belong on this link");
  REQUIRE(pipeline.serving, "tokens came before the pipeline served");
  TRY(StepTokens tokens, decode_step_tokens(frame.payload, options_.shape));
  const Epoch epoch = pipeline.epoch;
  if (tokens.epoch < epoch) {  // late, of a pipeline that is over
    ++late_frames_;
    return ok_status();
  }
  REQUIRE(tokens.epoch == epoch, "tokens of epoch ", tokens.epoch.value, " on a link of epoch ",
          epoch.value);
  REQUIRE(!pipeline.last_step || tokens.step.value == pipeline.last_step->value + 1,
          "the answer to step ", tokens.step.value, " came after that to step ",
          pipeline.last_step->value, "; expected step ", pipeline.last_step->value + 1);
  pipeline.last_step = tokens.step;
  TRY_VOID(take_cached(epoch, tokens.cached));
  TRY_VOID(take_scores(epoch, std::move(tokens.scores)));
  for (PromptEmbedding& embedding : tokens.embeddings) {
    TRY_VOID(take_embedding(epoch, std::move(embedding)));
  }
  for (const SequenceDrafts& drafts : tokens.drafts) take_drafts(epoch, drafts);
  const std::vector<SampledToken>& all = tokens.tokens;
  for (std::size_t i = 0; i < all.size(); ++i) {
    std::size_t end = i + 1;
    while (end < all.size() && all[end].sequence == all[i].sequence) ++end;
    const bool first = i == 0 || all[i].sequence != all[i - 1].sequence;
    TRY_VOID(take_token(epoch, all[i], first ? static_cast<std::uint32_t>(end - i) : 0));
  }
  for (const SequenceId id : tokens.released) {
    const std::shared_ptr<Sequence> sequence = scheduler_.find(id);
    REQUIRE(sequence && sequence->epoch == epoch && !sequence->released &&
                (sequence->answered || sequence->ended || sequence->stopped),
            "sequence ", id.value, " was released before it ended");
    release(*sequence);
  }
  return ok_status();
}

// Its tokens are complete, also those of a cancelled one: every computed row was answered.
void SequenceLifecycle::release(Sequence& sequence) {
  const RequestPolicy& policy = sequence.request.policy;
  if (sequence.receipts && !sequence.released) {
    std::vector<TokenId> tokens = sequence.request.prompt;
    tokens.insert(tokens.end(), sequence.answer.begin(), sequence.answer.end());
    options_.receipts->over({sequence.epoch, *sequence.request.receipt, sequence.prompt_tokens,
                             std::move(tokens), sequence.request.sampling, policy,
                             sequence.request.origin == Origin::kAudit, sequence.cached});
  }
  const Pipeline* pipeline = pipelines_.find(sequence.epoch);
  const bool is_unreceipted = sequence.request.receipt && !sequence.receipts &&
                              !sequence.released && !sequence.answer.empty() &&
                              sequence.request.origin != Origin::kAudit;
  if (is_unreceipted && pipeline != nullptr && !pipeline->foreign.empty()) {
    options_.receipts->skip(pipeline->foreign, pipeline->members.size(), policy.owner,
                            sequence.tokens_known());
  }
  const bool asked = policy.verify == Verify::kFull && !sequence.released;
  scheduler_.release(sequence);
  if (!asked) return;
  if (sequence.receipts) {
    if (audited_.size() >= kAuditedMax) audited_.erase(audited_.begin());
    audited_[sequence.request.receipt->request] = sequence.events;
    return;
  }
  AuditOutcome none;
  none.kind = AuditOutcome::Kind::kUnaudited;
  none.why = "the pipeline that computed it makes no receipts";
  sequence.events->on_audit(none);
}

void SequenceLifecycle::take_outcome(const AuditOutcome& outcome) {
  const auto found = audited_.find(outcome.request);
  if (found == audited_.end()) return;
  const std::shared_ptr<SequenceEvents> events = found->second;
  if (outcome.is_last()) audited_.erase(found);
  events->on_audit(outcome);
}

Status SequenceLifecycle::take_cached(Epoch epoch, const std::vector<CachedPrefix>& all) {
  for (const CachedPrefix& one : all) {
    const std::shared_ptr<Sequence> sequence = scheduler_.find(one.sequence);
    REQUIRE(sequence && sequence->epoch == epoch && !sequence->released,
            "cached positions of sequence ", one.sequence.value, ", which is not on this pipeline");
    const std::uint32_t most = scheduler_.cached_most(*sequence);
    TRY(const bool told, sequence->take_cached(one.positions, most));
    if (!told) continue;
    const bool is_client = sequence->request.origin == Origin::kClient;
    if (is_client) totals_.prefix_hits_total += sequence->cached;
    if (!sequence->ended && !sequence->stopped) sequence->events->on_cached(sequence->cached);
  }
  return ok_status();
}

// Scores of one sequence stand together.
Status SequenceLifecycle::take_scores(Epoch epoch, std::vector<SampledToken> scores) {
  for (auto begin = scores.begin(); begin != scores.end();) {
    const SequenceId id = begin->sequence;
    const auto end = std::find_if(begin, scores.end(),
                                  [id](const SampledToken& score) { return score.sequence != id; });
    const std::shared_ptr<Sequence> sequence = scheduler_.find(id);
    REQUIRE(sequence && sequence->epoch == epoch && !sequence->released, "scores of sequence ",
            id.value, ", which is not on this pipeline");
    const bool asked = sequence->request.score_prompt && sequence->answer.empty();
    REQUIRE(asked && begin->position >= 1 && (end - 1)->position < sequence->prompt_tokens,
            "scores of sequence ", id.value, " that were not asked for");
    for (auto score = begin; score != end; ++score) {
      REQUIRE(score->token == sequence->request.prompt[score->position], "a score of sequence ",
              id.value, " at position ", score->position, " is of another token than the prompt's");
    }
    if (!sequence->ended && !sequence->stopped) {
      sequence->events->on_scores({std::make_move_iterator(begin), std::make_move_iterator(end)});
    }
    begin = end;
  }
  return ok_status();
}

Status SequenceLifecycle::take_embedding(Epoch epoch, PromptEmbedding embedding) {
  const std::shared_ptr<Sequence> sequence = scheduler_.find(embedding.sequence);
  const std::string name = "embedding of sequence " + std::to_string(embedding.sequence.value);
  REQUIRE(sequence && sequence->epoch == epoch && !sequence->released, "an ", name,
          ", which is not on this pipeline");
  const std::uint32_t wanted = sequence->answer.empty() ? sequence->request.embedding : 0;
  REQUIRE(embedding.values.size() == wanted, "the ", name, " has ", embedding.values.size(),
          " values; ", wanted, " were asked for");
  sequence->embedded = true;
  if (!sequence->ended && !sequence->stopped) {
    sequence->events->on_embedding(std::move(embedding.values));
  }
  return ok_status();
}

// Figures alone: of a sequence that is not there they say nothing.
void SequenceLifecycle::take_drafts(Epoch epoch, const SequenceDrafts& drafts) {
  const std::shared_ptr<Sequence> sequence = scheduler_.find(drafts.sequence);
  if (!sequence || sequence->epoch != epoch) return;
  std::uint64_t all = 0;
  for (std::size_t kind = 0; kind < kDraftKinds; ++kind) {
    totals_.drafted_total[kind] += drafts.counts[kind].drafted;
    totals_.accepted_total[kind] += drafts.counts[kind].accepted;
    all += drafts.counts[kind].drafted;
  }
  const bool told = all > 0 && !sequence->ended && !sequence->stopped;
  if (told) sequence->events->on_drafts(drafts.counts);
}

// `run`: how many tokens of the sequence came with it, of the first of them; else 0.
Status SequenceLifecycle::take_token(Epoch epoch, const SampledToken& token, std::uint32_t run) {
  const std::shared_ptr<Sequence> sequence = scheduler_.find(token.sequence);
  REQUIRE(sequence && sequence->epoch == epoch && !sequence->released, "a token of sequence ",
          token.sequence.value, ", which is not on this pipeline");
  const bool again = sequence->again > 0;
  TRY_VOID(sequence->take(token));
  const TimePoint now = clock_.now();
  if (sequence->token_at && run > 0) {
    scheduler_.take_pace(epoch, (now - *sequence->token_at) / run, now);
  }
  sequence->token_at = now;
  if (again) return ok_status();
  if (!sequence->ended && !sequence->stopped) deliver(sequence, token);
  return ok_status();
}

void SequenceLifecycle::deliver(const std::shared_ptr<Sequence>& sequence,
                                const SampledToken& token) {
  if (token.finish == FinishReason::kError) {
    count_error(*sequence);
    scheduler_.end(*sequence);
    const std::string position = "position " + std::to_string(token.position);
    sequence->events->on_error({token.error, token.error == ErrorCode::kNoCapacity
                                                 ? "a stage has no KV page left for " + position
                                                 : "the model could not compute " + position +
                                                       ": " +
                                                       std::string(error_code_name(token.error))});
    return;
  }
  ++totals_.generation_tokens_total;
  if (token.finish == FinishReason::kNone) return sequence->events->on_token(token);
  if (!sequence->request.report_hashes) return finish(sequence, token);
  sequence->held = token;
  sequence->held_until = clock_.now() + kHashPatience;
  held_.insert(sequence->id);
  finish_held(false);
}

// An audit that fails is asked for again, and counted where audits are.
void SequenceLifecycle::count_error(const Sequence& sequence) {
  if (sequence.request.origin != Origin::kAudit) ++totals_.finished_error_total;
}

void SequenceLifecycle::finish(const std::shared_ptr<Sequence>& sequence,
                               const SampledToken& token) {
  const SampledToken last = token;  // may be the held one
  sequence->held.reset();
  std::vector<RowHash> hashes = sequence->sorted_hashes();
  const bool stopped = last.finish == FinishReason::kStop;
  ++(stopped ? totals_.finished_stop_total : totals_.finished_length_total);
  scheduler_.end(*sequence);
  if (sequence->request.report_hashes) sequence->events->on_hashes(std::move(hashes));
  sequence->events->on_token(last);
}

void SequenceLifecycle::finish_stopped(const std::shared_ptr<Sequence>& sequence) {
  std::vector<RowHash> hashes = sequence->sorted_hashes();
  scheduler_.end(*sequence);
  sequence->events->on_hashes(std::move(hashes));
}

// Last tokens are delivered when all hashes are there, or when the wait for them is over.
void SequenceLifecycle::finish_held(bool only_overdue) {
  const std::vector<SequenceId> held(held_.begin(), held_.end());  // an event may end others
  for (const SequenceId id : held) {
    const std::shared_ptr<Sequence> sequence = scheduler_.find(id);
    if (!sequence || sequence->ended || !sequence->waits_for_hashes()) {
      held_.erase(id);
      continue;
    }
    const bool overdue = clock_.now() >= sequence->held_until;
    if (overdue) {
      spdlog::warn("sequence {}: only {} hashes arrived in time", sequence->id.value,
                   sequence->hashes.size());
    }
    const Pipeline* pipeline = pipelines_.find(sequence->epoch);
    const bool complete =
        !only_overdue && pipeline != nullptr &&
        sequence->hashes_complete(static_cast<std::uint32_t>(pipeline->members.size()));
    if (!overdue && !complete) continue;
    if (sequence->stopped) {
      finish_stopped(sequence);
    } else {
      finish(sequence, *sequence->held);
    }
  }
}

Status SequenceLifecycle::take_hashes(const Node& node, const control::v1::StepHashes& hashes) {
  if (node.status.epoch != Epoch(hashes.epoch())) {
    ++late_frames_;
    return ok_status();
  }
  for (const auto& row : hashes.rows()) {
    RowHash hash{
        SequenceId(row.sequence()), row.position(), node.status.stage, node.status.layers, {}, {}};
    REQUIRE(read_field(row.in(), hash.in.bytes) && read_field(row.out(), hash.out.bytes),
            "it sent a row hash of a wrong length; it must have 32 bytes");
    const std::shared_ptr<Sequence> sequence = scheduler_.find(hash.sequence);
    if (!sequence || sequence->ended || sequence->epoch != node.status.epoch) continue;
    if (!sequence->request.report_hashes) continue;
    TRY_VOID(sequence->add_hash(hash));
  }
  finish_held(false);
  return ok_status();
}

std::vector<std::shared_ptr<Sequence>> SequenceLifecycle::interrupt(
    std::vector<std::shared_ptr<Sequence>> lost, bool failed) {
  std::vector<std::shared_ptr<Sequence>> again;
  std::vector<std::shared_ptr<Sequence>> over;
  for (auto& sequence : lost) {
    if (sequence->ended) continue;
    if (!sequence->waits_for_hashes() && sequence->fruitless < kFruitlessLosses) {
      sequence->interrupt(clock_.now(), kResumePatience, failed);
      INVARIANT(sequence->epoch == Epoch(), "an interrupted sequence has no pipeline");
      again.push_back(std::move(sequence));
    } else {
      ending_.emplace(sequence->id, sequence);
      over.push_back(std::move(sequence));
    }
  }
  if (!again.empty()) spdlog::info("{} sequences wait for another pipeline", again.size());
  scheduler_.requeue(std::move(again));
  return over;
}

void SequenceLifecycle::report_rates(TimePoint now) {
  token_rate_.report(now, static_cast<double>(totals_.generation_tokens_total));
  prompt_rate_.report(now, static_cast<double>(totals_.prompt_tokens_total));
}

void SequenceLifecycle::expire() {
  finish_held(true);
  expire_waiting();
  expire_interrupted();
}

void SequenceLifecycle::end(std::vector<std::shared_ptr<Sequence>> sequences, const Error& error) {
  for (const auto& sequence : sequences) ending_.emplace(sequence->id, sequence);
  for (const auto& sequence : sequences) {
    ending_.erase(sequence->id);
    if (sequence->ended) continue;
    if (sequence->stopped) {
      finish_stopped(sequence);
      continue;
    }
    if (sequence->held) {  // complete but for the hashes of its last rows
      finish(sequence, *sequence->held);
      continue;
    }
    scheduler_.end(*sequence);
    count_error(*sequence);
    sequence->events->on_error(error);
  }
}

void SequenceLifecycle::expire_waiting() {
  if (scheduler_.serves() || scheduler_.waiting() == scheduler_.interrupted().size()) {
    unserved_since_ = clock_.now();
    return;
  }
  const bool in_time = clock_.now() - unserved_since_ < options_.forming_timeout;
  if (in_time && lifecycle_.may_come()) return;
  end(scheduler_.take_waiting(),
      {ErrorCode::kUnavailable, "no pipeline came back in time: " + lifecycle_.missing()});
}

// There is hope for as long as a pipeline comes, or one serves that will have room.
void SequenceLifecycle::expire_interrupted() {
  const std::vector<std::shared_ptr<Sequence>> interrupted = scheduler_.interrupted();
  if (interrupted.empty()) return;
  const bool coming = lifecycle_.may_come();
  const TimePoint now = clock_.now();
  std::vector<std::shared_ptr<Sequence>> over;
  for (const auto& sequence : interrupted) {
    const bool fits = scheduler_.fits_somewhere(*sequence).ok();
    const bool hope = coming && now - sequence->lost_at < options_.forming_timeout;
    if (fits || hope) sequence->resume_by = now + kResumePatience;
    if (now >= sequence->resume_by) over.push_back(sequence);
  }
  if (over.empty()) return;
  for (const auto& sequence : over) {
    scheduler_.remove_waiting(sequence->id);
    ending_.emplace(sequence->id, sequence);
  }
  end(std::move(over),
      {ErrorCode::kUnavailable,
       "no worker holds the lost layers, or has room for this sequence: " + lifecycle_.missing()});
}

SwarmStatus SequenceLifecycle::status() const {
  SwarmStatus status = totals_;
  status.late_frames_total = late_frames_;
  status.running_audits = scheduler_.running_of(kAuditor);
  status.running = scheduler_.running() - status.running_audits;
  status.waiting = scheduler_.waiting() - scheduler_.waiting_of(kAuditor);
  status.tokens_per_second = token_rate_.per_second(clock_.now());
  status.prompt_tokens_per_second = prompt_rate_.per_second(clock_.now());
  return status;
}

}  // namespace hearth::coordinator
