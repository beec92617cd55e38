// The life of a sequence in the coordinator: submission, admission, tokens, end.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "base/limits.h"
#include "coordinator/machine/coordinator_machine.h"
#include "coordinator/machine/missing.h"
#include "coordinator/proof/ledger_service.h"
#include "coordinator/scheduling/verifiable.h"
#include "proto/defect.h"

namespace hearth::coordinator {
namespace {

constexpr Duration kHashPatience = std::chrono::seconds(2);
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
  REQUIRE(tokens.size() <= shape.context, "the " + what + " has " + std::to_string(tokens.size()) +
                                              " tokens; the context has " +
                                              std::to_string(shape.context));
  for (const TokenId token : tokens) {
    REQUIRE(token >= 0 && static_cast<std::uint32_t>(token) < shape.vocabulary,
            "the " + what + " has token " + std::to_string(token) + "; the vocabulary has " +
                std::to_string(shape.vocabulary));
  }
  return ok_status();
}

Status check_tokens(const GenerateRequest& request, const StepShape& shape) {
  TRY_VOID(check_tokens("prompt", request.prompt, shape));
  TRY_VOID(check_tokens("answer", request.answer, shape));
  REQUIRE(request.answer.empty() || request.answer.size() < request.sampling.max_tokens,
          "the answer has " + std::to_string(request.answer.size()) +
              " tokens already; max_tokens is " + std::to_string(request.sampling.max_tokens));
  return ok_status();
}

}  // namespace

Result<SequenceId> Coordinator::submit(GenerateRequest request,
                                       std::shared_ptr<SequenceEvents> events) {
  std::vector<Submission> one;
  one.push_back({std::move(request), std::move(events)});
  TRY(const std::vector<SequenceId> ids, submit(std::move(one)).sequences);
  INVARIANT(ids.size() == 1, "one submission was answered with one id");
  return ids.front();
}

RequestBounds CoordinatorMachine::bounds(const RequestPolicy& policy) const {
  RequestBounds out;
  out.positions = std::min(options_.shape.context,
                           scheduler_.largest_sequence(policy).value_or(options_.shape.context));
  if (policy.verify != Verify::kNone) {
    const AuditMode mode =
        options_.receipts != nullptr ? options_.receipts->audits().mode : AuditMode::kOff;
    out.unverifiable = why_unverifiable(mode, pipeline_statuses(), policy);
  }
  out.running = scheduler_.running() - scheduler_.running_of(kAuditor);
  out.waiting = scheduler_.waiting() - scheduler_.waiting_of(kAuditor);
  out.tokens_per_second = token_rate_.per_second(clock_.now());
  return out;
}

SubmitAnswer CoordinatorMachine::submit(std::vector<Submission> sequences) {
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

Status CoordinatorMachine::enqueue(std::vector<Submission>& sequences, SubmitAnswer& answer) {
  std::vector<std::shared_ptr<Sequence>> made;
  for (Submission& one : sequences) {
    TRY(auto sequence, make_sequence(std::move(one)));
    sequence->id = SequenceId(next_sequence_ + made.size());
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
  next_sequence_ += ids.size();
  answer.sequences = std::move(ids);
  return ok_status();
}

Result<std::shared_ptr<Sequence>> CoordinatorMachine::make_sequence(Submission submission) const {
  GenerateRequest& request = submission.request;
  TRY_VOID(check_tokens(request, options_.shape));
  auto sequence = std::make_shared<Sequence>();
  sequence->prompt_tokens = static_cast<std::uint32_t>(request.prompt.size());
  sequence->answer = std::exchange(request.answer, {});
  sequence->request = std::move(request);
  sequence->events = std::move(submission.events);
  TRY_VOID(validate(sequence->open(), options_.shape));
  if (!scheduler_.serves()) {
    return Error{
        ErrorCode::kUnavailable,
        "no pipeline serves: " + missing_sentence(options_, registry_, pipelines_, last_loss_)};
  }
  TRY_VOID(scheduler_.fits_somewhere(*sequence));
  return sequence;
}

// The audit gets its tokens with the receipts (release()); its events only report a failure.
void CoordinatorMachine::submit_audit(AuditRun run) {
  const ledger::RequestId name = run.order.request;
  GenerateRequest request{std::move(run.prompt), std::move(run.sampling)};
  request.answer = std::move(run.answer);
  request.policy.trust = std::move(run.nodes);
  request.policy.min_level = run.min_level;
  request.policy.owner = kAuditor;
  request.background = true;
  request.receipt = run.order;
  request.origin = Origin::kAudit;
  request.for_newcomers = run.for_newcomers;
  const auto taken =
      submit(std::move(request), std::make_shared<AuditEvents>(*options_.receipts, name));
  if (!taken) options_.receipts->put_off(name, taken.error().message);
}

void CoordinatorMachine::cancel(SequenceId id) {
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

void CoordinatorMachine::stop(SequenceId id, Position position) {
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
  finish_held(false);
}

// One at a time: every event may change which sequence is next.
void CoordinatorMachine::admit() {
  for (;;) {
    if (const auto unfit = scheduler_.pop_unfit()) {
      const Status why = scheduler_.fits_somewhere(*unfit);
      end_sequences({unfit}, why.error());
      continue;
    }
    const auto sequence = scheduler_.admit();
    if (!sequence) break;
    start_sequence(*sequence);
    if (std::exchange(sequence->admitted, true)) {
      ++totals_.resumed_total;
      if (planted(SwarmDefect::kTokenTwice) && !sequence->answer.empty()) {
        sequence->events->on_token({sequence->id,
                                    static_cast<Position>(sequence->tokens_known() - 1),
                                    sequence->answer.back(),
                                    FinishReason::kNone,
                                    ErrorCode::kNumeric,
                                    0.0F,
                                    {}});
      }
      continue;
    }
    ++totals_.admitted_total;
    if (!sequence->answer.empty()) ++totals_.resumed_total;
    totals_.prompt_tokens_total += sequence->prompt_tokens;
    if (sequence->request.origin == Origin::kClient) {
      newcomers_.saw(sequence->request);
    }
    sequence->events->on_admitted();
  }
}

void CoordinatorMachine::start_sequence(Sequence& sequence) {
  // The next pipeline computes all rows again.
  if (!planted(SwarmDefect::kHashesKept)) sequence.hashes.clear();
  const bool hashed = sequence.request.report_hashes;
  sequence.again = hashed ? static_cast<std::uint32_t>(sequence.answer.size()) : 0;
  const Pipeline* pipeline = pipelines_.find(sequence.epoch);
  sequence.receipts = sequence.request.receipt && pipeline != nullptr && pipeline->model;
  if (sequence.receipts) {
    options_.receipts->start(sequence.epoch, sequence.request.receipt->request,
                             sequence.tokens_wanted());
  }
  SubmitMessage message = sequence.submit();
  message.open.background = sequence.request.background;
  links_.send(sequence.epoch, {FrameType::kSubmit, encode(message)});
}

void CoordinatorMachine::on_pipeline_frame(Epoch epoch, Frame frame) {
  Pipeline* pipeline = pipelines_.find(epoch);
  if (pipeline == nullptr) return;
  const auto last = static_cast<std::uint32_t>(pipeline->members.size()) - 1;
  const Status taken = take_tokens(*pipeline, frame);
  if (!taken.ok()) return lose_pipeline(epoch, last, taken.error().message);
  admit();
}

Status CoordinatorMachine::take_tokens(Pipeline& pipeline, const Frame& frame) {
  REQUIRE(frame.type == FrameType::kTokens, "frame type " +
                                                std::to_string(static_cast<int>(frame.type)) +
                                                " does not belong on this link");
  REQUIRE(pipeline.serving, "tokens came before the pipeline served");
  TRY(const StepTokens tokens, decode_step_tokens(frame.payload, options_.shape));
  const Epoch epoch = pipeline.epoch;
  if (tokens.epoch < epoch &&
      !planted(SwarmDefect::kStaleAnswerTaken)) {  // late, of a pipeline that is over
    ++late_frames_;
    return ok_status();
  }
  REQUIRE(tokens.epoch == epoch, "tokens of epoch " + std::to_string(tokens.epoch.value) +
                                     " on a link of epoch " + std::to_string(epoch.value));
  REQUIRE(!pipeline.last_step || tokens.step.value == pipeline.last_step->value + 1,
          "the answer to step " + std::to_string(tokens.step.value) + " follows the one to step " +
              std::to_string(pipeline.last_step->value));
  pipeline.last_step = tokens.step;
  for (const SampledToken& token : tokens.tokens) TRY_VOID(take_token(epoch, token));
  for (const SequenceId id : tokens.released) {
    const std::shared_ptr<Sequence> sequence = scheduler_.find(id);
    REQUIRE(sequence && sequence->epoch == epoch && !sequence->released &&
                (sequence->answered || sequence->ended || sequence->stopped),
            "sequence " + std::to_string(id.value) + " was released and had not ended");
    release(*sequence);
  }
  return ok_status();
}

// Its tokens are complete, also those of a cancelled one: every computed row was answered.
void CoordinatorMachine::release(Sequence& sequence) {
  const RequestPolicy& policy = sequence.request.policy;
  if (sequence.receipts && !sequence.released) {
    std::vector<TokenId> tokens = sequence.request.prompt;
    tokens.insert(tokens.end(), sequence.answer.begin(), sequence.answer.end());
    options_.receipts->over({sequence.epoch, *sequence.request.receipt, sequence.prompt_tokens,
                             std::move(tokens), sequence.request.sampling, policy.trust,
                             policy.min_level, policy.verify, policy.share});
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

void CoordinatorMachine::take_outcome(const AuditOutcome& outcome) {
  const auto found = audited_.find(outcome.request);
  if (found == audited_.end()) return;
  const std::shared_ptr<SequenceEvents> events = found->second;
  if (outcome.is_last()) audited_.erase(found);
  events->on_audit(outcome);
}

Status CoordinatorMachine::take_token(Epoch epoch, const SampledToken& token) {
  const std::shared_ptr<Sequence> sequence = scheduler_.find(token.sequence);
  REQUIRE(sequence && sequence->epoch == epoch && !sequence->released,
          "a token of sequence " + std::to_string(token.sequence.value) +
              ", which is not on this pipeline");
  const bool again = sequence->again > 0;
  const bool first = sequence->fruitless > 0;
  TRY_VOID(sequence->take(token));
  const TimePoint now = clock_.now();
  if (sequence->token_at) scheduler_.take_pace(epoch, now - *sequence->token_at, now);
  sequence->token_at = now;
  if (again) return ok_status();
  if (planted(SwarmDefect::kTokenLost) && first) return ok_status();
  if (!sequence->ended && !sequence->stopped) deliver(sequence, token);
  return ok_status();
}

void CoordinatorMachine::deliver(const std::shared_ptr<Sequence>& sequence,
                                 const SampledToken& token) {
  if (token.finish == FinishReason::kError) {
    ++totals_.finished_error_total;
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
  finish_held(false);
}

void CoordinatorMachine::finish(const std::shared_ptr<Sequence>& sequence,
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

void CoordinatorMachine::finish_stopped(const std::shared_ptr<Sequence>& sequence) {
  std::vector<RowHash> hashes = sequence->sorted_hashes();
  scheduler_.end(*sequence);
  sequence->events->on_hashes(std::move(hashes));
}

// Last tokens are delivered when all hashes are there, or when the wait for them is over.
void CoordinatorMachine::finish_held(bool only_overdue) {
  for (const std::shared_ptr<Sequence>& sequence : scheduler_.held()) {
    if (sequence->ended || !sequence->waits_for_hashes()) continue;
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

}  // namespace hearth::coordinator
