#include "coordinator/http/generation/generation.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <boost/algorithm/string/replace.hpp>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "base/limits.h"

namespace hearth::coordinator::http {
namespace {

constexpr auto kRetryPause = std::chrono::milliseconds(100);
constexpr const char* kSuspended = "the server is shutting down; retry in a moment";

double seconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }

ApiError too_many_kept(std::size_t limit) {
  const char* whose = limit == limits::kKeptRequestsOwner ? "one API key" : "all clients together";
  return from_coordinator(
      {ErrorCode::kNoCapacity,
       fmt::format("too many requests with an Idempotency-Key run at once; the limit is {} for {}",
                   limit, whose)},
      1, "too_many_kept_requests");
}

// Seconds after which a refused request may find room, 1 to 3600: the time in which the accepted
// requests end at the present rate of tokens.
std::uint32_t predicted_wait(const Api& api) {
  constexpr double kLongest = 3600.0;
  constexpr double kAssumedRate = 100.0;  // tokens a second, until the first token is counted
  const RequestBounds& swarm = api.last_bounds;
  double tokens = 0.0;
  for (const auto& generation : api.generations) {
    tokens += static_cast<double>(generation->tokens_to_come());
  }
  // When no token is expected, the estimate takes the rate at which whole requests ended.
  const double running = std::max<double>(1.0, swarm.running);
  const double rate = swarm.tokens_per_second > 0.0 ? swarm.tokens_per_second : kAssumedRate;
  const double seconds = tokens > 0.0
                             ? tokens * api.metrics.used_share() / rate
                             : api.metrics.mean_request_seconds() * (swarm.waiting + 1) / running;
  return static_cast<std::uint32_t>(std::clamp(std::ceil(seconds), 1.0, kLongest));
}

ApiError unpayable(const Api& api, const std::string& why) {
  return from_coordinator({ErrorCode::kUnavailable, why}, predicted_wait(api),
                          "ledger_unavailable");
}

// The price of the tokens that were fed, and the account's balance. The last token of an answer is
// never fed. The log rounds the fee down for each window and stage, so it may charge a few credits
// less.
OrderedJson credits_object(const Api& api, const Answer& answer) {
  std::int64_t price = 0;
  for (const Answer::Part& part : answer.parts()) {
    const std::uint64_t tokens = part.choice.tokens();
    const auto one = dearest({}, answer.model().spec.layers, part.prompt_tokens,
                             tokens == 0 ? 0 : tokens - 1, part.cached_tokens);
    price += one ? *one : 0;  // hold_credit() has refused a request without a price
  }
  const PublicKey& account = answer.request().policy.account;
  const Credits::Balance left = api.options.credits->balance(account);
  return {
      {"price", price}, {"account", account.hex()}, {"balance", left.spendable - left.reserved}};
}

Answer make_answer(Api& api, GenerationInput input, std::int64_t created,
                   const std::optional<ledger::AnswerName>& receipt) {
  AnswerIdentity identity(api.options, api.random, input.request, input.keep, created, receipt);
  const ServedModel& model = api.models.at(input.model);
  return Answer(model, std::move(input), std::move(identity));
}

// A long answer with logprobs takes most of a second to write as JSON.
void make_on_pool(const std::shared_ptr<Api>& api, Audience::Make make, Audience::Take take) {
  api->slow_tasks.post([api, make = std::move(make), take = std::move(take)] {
    api->sockets.post([take, whole = make()]() mutable { take(std::move(whole)); });
  });
}

// An error of the coordinator, in the form for the client of a request with this policy.
ApiError error_of(Api& api, const RequestPolicy& policy, const Error& error) {
  ApiError out = from_coordinator(error, predicted_wait(api));
  if (error.code == ErrorCode::kNoCapacity) {
    out.message += "; there should be room in " + wait_text(*out.retry_after);
  }
  const bool by_level = policy.trust.empty() && policy.min_level > ledger::Level::kNewcomer;
  if (error.code == ErrorCode::kRefused && by_level) out.code = "below_min_level";
  return out;
}

// Counts a choice that has its last token.
void observe(Api& api, const Answer& answer, std::uint32_t choice, TimePoint arrived) {
  const Answer::Part& part = answer.part(choice);
  const TimePoint now = api.clock.now();
  api.metrics.finished({.reason = part.choice.finish_reason(),
                        .whole_seconds = seconds(now - arrived),
                        .inference_seconds = seconds(now - part.admitted),
                        .decode_seconds = seconds(now - part.first_token),
                        .prompt_tokens = static_cast<std::uint32_t>(part.prompt_tokens),
                        .generated_tokens = part.choice.tokens(),
                        .max_tokens = part.max_tokens,
                        .choices = answer.request().n});
}

}  // namespace

// Carries the events of one sequence to the socket thread. Does not keep the generation alive.
class ChoiceEvents final : public SequenceEvents {
 public:
  ChoiceEvents(std::shared_ptr<Api> api, std::weak_ptr<Generation> generation, std::uint32_t choice,
               std::uint32_t run, Credits::Hold credit)
      : api_(std::move(api)),
        generation_(std::move(generation)),
        choice_(choice),
        run_(run),
        credit_(std::move(credit)) {}

  void on_admitted() override { deliver(&Generation::on_admitted); }
  void on_cached(std::uint32_t positions) override { deliver(&Generation::on_cached, positions); }
  void on_scores(std::vector<SampledToken> scores) override {
    deliver(&Generation::on_scores, std::move(scores));
  }
  void on_drafts(const DraftCounts& counts) override { deliver(&Generation::on_drafts, counts); }
  void on_embedding(std::vector<float> values) override {
    deliver(&Generation::on_embedding, std::move(values));
  }
  void on_token(const SampledToken& token) override { deliver(&Generation::on_token, token); }
  void on_hashes(std::vector<RowHash> hashes) override {
    deliver(&Generation::on_hashes, std::move(hashes));
  }
  void on_error(const Error& error) override { deliver(&Generation::on_error, error); }
  void on_audit(const AuditOutcome& outcome) override { deliver(&Generation::on_audit, outcome); }
  void on_loading(const LoadProgress& progress) override {
    deliver(&Generation::on_loading, progress);
  }

 private:
  template <typename Method, typename... Event>
  void deliver(Method method, Event... event) {
    api_->sockets.post([generation = generation_, choice = choice_, run = run_, method,
                        ... event = std::move(event)] {
      const auto alive = generation.lock();
      if (alive && alive->runs_[choice].number == run) ((*alive).*method)(choice, event...);
    });
  }
  std::shared_ptr<Api> api_;
  std::weak_ptr<Generation> generation_;
  std::uint32_t choice_;
  std::uint32_t run_;
  Credits::Hold credit_;  // set while the coordinator may start it
};

Generation::Generation(std::shared_ptr<Api> api, GenerationInput input, TimePoint arrived,
                       std::int64_t created, const std::optional<ledger::AnswerName>& receipt)
    : api_(std::move(api)),
      arrived_(arrived),
      answer_(make_answer(*api_, std::move(input), created, receipt)),
      verification_(answer_.request().policy.verify, answer_.size()),
      audience_(
          answer_, verification_, [this] { return closing(); },
          std::bind_front(make_on_pool, api_)),
      runs_(answer_.size()) {}

void Generation::start(std::shared_ptr<Api> api, std::shared_ptr<ResponseWriter> writer,
                       const HttpRequest& http, GenerationInput input,
                       std::optional<EventId> seen) {
  if (writer->gone()) return;
  const std::int64_t created = input.created.value_or(api->clock.unix_seconds());
  auto self = std::make_shared<Generation>(api, std::move(input), http.arrived, created);
  const std::optional<Keep>& keep = self->answer_.input().keep;
  if (const auto full = keep ? api->kept.add(*keep, self) : std::nullopt) {
    return writer->respond(error_response(too_many_kept(*full), self->answer_.input().dialect));
  }
  self->told_elsewhere_ = seen.has_value();
  api->generations.insert(self);
  self->answer_.set_default_lengths();
  self->attach(std::move(writer), std::move(seen));
  self->begin();
}

bool Generation::resume(std::shared_ptr<Api> api, GenerationInput input, Begun begun) {
  const TimePoint now = api->clock.now();
  auto self =
      std::make_shared<Generation>(api, std::move(input), now, begun.created, begun.receipt);
  Answer& answer = self->answer_;
  if (api->kept.add(*answer.input().keep, self)) return false;
  self->told_elsewhere_ = true;
  self->retry_until_ = now + std::chrono::seconds(api->options.timeouts.resume);
  self->accepted_ = true;
  self->open_ = true;
  answer.set_lengths(begun.lengths);
  for (std::uint32_t i = 0; i < answer.size(); ++i) {
    answer.restore(i, std::move(begun.answers[i]), now);
  }
  if (self->whole()) {
    self->verification_.cannot("the server was restarted before the audits were finished");
    self->keep_answer(begun.kept);
    return true;
  }
  api->generations.insert(self);
  // The earlier process's hold on credit ended with that process, and the credit may have been
  // spent since.
  if (const auto refused = self->hold_credit()) {
    self->fail(*refused);
    return true;
  }
  self->arm_grace();
  std::vector<std::uint32_t> open;
  for (std::uint32_t i = 0; i < answer.size(); ++i) {
    if (!answer.part(i).settled) open.push_back(i);
  }
  self->submit(std::move(open));
  return true;
}

void Generation::begin() {
  if (ended_) return;
  // By the context alone; the coordinator checks its KV memory.
  const std::uint64_t context = answer_.model().spec.context;
  if (const auto error = too_long(context, "the model's context")) return fail(*error);
  if (verification_.asked() && !answer_.identity().has_receipts()) {
    verification_.cannot("this server keeps no ledger");
  }
  if (verification_.asked() && answer_.request().embedding) {
    verification_.cannot("receipts prove what the layers computed of an input, not its embedding");
  }
  shorten_to_credit();
  if (const auto refused = hold_credit()) return fail(*refused);
  std::vector<std::uint32_t> all(answer_.size());
  std::iota(all.begin(), all.end(), 0);
  submit(std::move(all));
}

std::optional<ApiError> Generation::too_long(std::uint64_t positions, const char* where) const {
  for (const Answer::Part& part : answer_.parts()) {
    if (part.prompt_tokens + part.max_tokens <= positions) continue;
    if (answer_.request().embedding) {
      return ApiError::invalid(
          fmt::format("an input of {} tokens is too large: at most {} fit {}; send it in parts",
                      part.prompt_tokens, positions - std::min<std::uint64_t>(positions, 1), where),
          "input", "context_length_exceeded");
    }
    return ApiError::invalid(
        fmt::format("the prompt has {} tokens and max_tokens is {}; together at most {} fit {}",
                    part.prompt_tokens, part.max_tokens, positions, where),
        answer_.request().chat ? "messages" : "prompt", "context_length_exceeded");
  }
  return std::nullopt;
}

void Generation::shorten_to_credit() {
  const Credits* const credits = api_->options.credits.get();
  if (credits == nullptr || answer_.request().max_tokens) return;
  const Credits::Balance balance = credits->balance(answer_.request().policy.account);
  const std::int64_t available = balance.spendable - balance.reserved;
  // Whether `left` pays for all choices with at most this many tokens each.
  const auto is_paid = [&](std::uint32_t most, std::int64_t left) {
    for (const Answer::Part& part : answer_.parts()) {
      const auto price = dearest({}, answer_.model().spec.layers, part.prompt_tokens,
                                 std::min(part.max_tokens, most));
      if (!price || *price > left) return false;
      left -= *price;
    }
    return true;
  };
  for (const std::int64_t budget : {available / 2, available}) {
    std::uint32_t paid = 0;
    std::uint32_t unpaid = 1;
    for (const auto& part : answer_.parts()) unpaid = std::max(unpaid, part.max_tokens + 1);
    while (unpaid - paid > 1) {
      const std::uint32_t middle = paid + (unpaid - paid) / 2;
      (is_paid(middle, budget) ? paid : unpaid) = middle;
    }
    if (paid == 0) continue;
    for (std::uint32_t i = 0; i < answer_.size(); ++i) {
      answer_.set_length(i, std::min(answer_.part(i).max_tokens, paid));
    }
    return;
  }
}

std::optional<ApiError> Generation::hold_credit() {
  Credits* const credits = api_->options.credits.get();
  if (credits == nullptr) return std::nullopt;
  if (!answer_.identity().has_receipts()) {
    return unpayable(*api_, "the ledger cannot be written now, and this cluster runs with credits");
  }
  INVARIANT(runs_.size() == answer_.size(), "each choice has a hold");
  std::vector<Credits::Item> items;
  std::vector<std::uint32_t> choices;
  for (std::uint32_t i = 0; i < answer_.size(); ++i) {
    const Answer::Part& part = answer_.part(i);
    if (part.settled) continue;
    const auto price =
        dearest({}, answer_.model().spec.layers, part.prompt_tokens, part.max_tokens);
    if (!price) return from_coordinator(price.error(), 1);
    choices.push_back(i);
    items.push_back({answer_.identity().receipt_order(i)->request, *price});
  }
  auto held = credits->reserve(answer_.request().policy.account, items);
  if (!held && held.error().code == ErrorCode::kRefused) {
    std::string said = held.error().message;
    const RequestPolicy& policy = answer_.request().policy;
    if (const auto& accounts =
            api_->options.accounts) {  // the error names the key as people know it
      boost::algorithm::replace_first(said, policy.account.hex(),
                                      accounts->name_of(policy.owner, policy.account));
    }
    ApiError error = ApiError::of(429, said, "insufficient_quota", "insufficient_quota");
    error.final = true;  // the same request would be refused again
    return error;
  }
  if (!held && held.error().code == ErrorCode::kUnavailable) {
    return unpayable(*api_, held.error().message);
  }
  if (!held) return from_coordinator(held.error(), predicted_wait(*api_));
  INVARIANT(held->size() == choices.size(), "each item has a hold");
  for (std::size_t i = 0; i < choices.size(); ++i) runs_[choices[i]].credit = std::move((*held)[i]);
  return std::nullopt;
}

GenerateRequest Generation::request_of(std::uint32_t choice) const {
  const GenerationRequest& request = answer_.request();
  GenerateRequest out;
  out.prompt = answer_.prompt(choice);
  out.sampling = answer_.sampling(choice);
  out.report_hashes = request.return_hashes;
  out.score_prompt = request.scores_prompt();
  if (request.embedding) out.embedding = request.embedding->values;
  out.receipt = answer_.identity().receipt_order(choice);
  out.policy = request.policy;
  out.model = answer_.model().number;
  // An answer that is not streamed can wait: titles and tags of a chat, and batch work.
  out.background = !request.stream;
  out.may_shorten = !request.max_tokens;
  out.drafts = api_->options.drafts && request.asked.drafts;
  out.answer = answer_.part(choice).choice.token_ids();
  return out;
}

void Generation::submit(std::vector<std::uint32_t> choices) {
  std::vector<Submission> sequences;
  for (const std::uint32_t choice : choices) {
    Run& run = runs_[choice];
    INVARIANT(!run.submitted && !answer_.part(choice).settled, "a choice runs once at a time");
    sequences.push_back(
        {request_of(choice),
         std::make_shared<ChoiceEvents>(api_, weak_from_this(), choice, ++run.number, run.credit)});
  }
  // The generation stays alive until its submission is answered: sequences that were accepted after
  // the client left must still be cancelled.
  auto done = [self = shared_from_this(), choices = std::move(choices)](SubmitAnswer answer) {
    const bool delivered =
        self->api_->sockets.post([self, choices, answer] { self->on_submitted(choices, answer); });
    if (delivered || !answer.sequences.ok()) return;
    for (const SequenceId sequence : *answer.sequences) self->api_->port.cancel(sequence);
  };
  api_->port.submit(std::move(sequences), std::move(done));
}

void Generation::on_submitted(const std::vector<std::uint32_t>& choices,
                              const SubmitAnswer& answer) {
  api_->last_bounds = answer.bounds;
  if (answer.sequences.ok()) return accept(choices, answer);
  if (ended_ || retries(choices, answer.sequences.error())) return;
  for (std::size_t i = 0; i < answer.max_tokens.size(); ++i) {
    answer_.set_length(choices[i], answer.max_tokens[i]);
  }
  fail(refusal_of(answer));
}

void Generation::accept(const std::vector<std::uint32_t>& choices, const SubmitAnswer& answer) {
  INVARIANT(answer.sequences->size() == choices.size(), "each sequence has an id");
  INVARIANT(answer.max_tokens.size() == choices.size(), "each sequence has a length");
  for (std::size_t i = 0; i < choices.size(); ++i) {
    Run& run = runs_[choices[i]];
    const Answer::Part& part = answer_.part(choices[i]);
    run.sequence = (*answer.sequences)[i];
    run.submitted = !part.settled || part.stopped;  // otherwise it has already ended by itself
    answer_.set_length(choices[i], answer.max_tokens[i]);
    if (ended_) {
      cancel(run);
    } else if (part.stopped) {
      stop_sequence(choices[i]);
    }
  }
  if (ended_ || std::exchange(accepted_, true)) return;
  if (verification_.asked() && verification_.can()) {
    verification_.cannot(answer.bounds.unverifiable);
  }
  const std::optional<Keep>& keep = answer_.input().keep;
  // A request is not stored if its dialect repeats fields of it, if it has scores or embeddings, or
  // if it is too long. After a restart its client gets the same answer, which is computed again.
  const bool written = keep && api_->kept.writes() && answer_.input().dialect == Dialect::kOpenAi &&
                       !answer_.request().scores_prompt() && !answer_.request().embedding &&
                       answer_.prompt_tokens() <= limits::kKeptRequestBytes / sizeof(TokenId);
  if (written) api_->kept.write(*keep, encode(answer_.kept_request()));
  // A request that waits for a pipeline may still be refused.
  if (answer.bounds.serves) open();
  if (whole() && !ended_) complete();
}

void Generation::open() {
  if (!std::exchange(open_, true)) audience_.tell_all();
}

void Generation::cancel(Run& run) {
  if (std::exchange(run.submitted, false)) api_->port.cancel(run.sequence);
}

// All choices wait together, so only the first one reports.
void Generation::on_loading(std::uint32_t choice, const LoadProgress& progress) {
  if (!ended_ && choice == 0) audience_.tell_loading(progress);
}

void Generation::on_admitted(std::uint32_t choice) {
  Run& run = runs_[choice];
  run.admitted = true;
  run.credit.reset();
  const TimePoint now = api_->clock.now();
  answer_.admit(choice, now);
  api_->metrics.queued(seconds(now - arrived_));
  if (accepted_ && !ended_) open();
}

void Generation::on_cached(std::uint32_t choice, std::uint32_t positions) {
  if (ended_ || answer_.part(choice).choice.tokens() > 0) return;
  answer_.set_cached(choice, positions);
}

void Generation::on_scores(std::uint32_t choice, std::vector<SampledToken> scores) {
  if (ended_ || answer_.part(choice).choice.tokens() > 0) return;
  answer_.score(choice, std::move(scores));
}

void Generation::on_drafts(std::uint32_t choice, const DraftCounts& counts) {
  if (!ended_ && !answer_.part(choice).choice.done()) answer_.add_drafts(choice, counts);
}

void Generation::on_embedding(std::uint32_t choice, std::vector<float> values) {
  if (ended_ || answer_.part(choice).choice.tokens() > 0) return;
  answer_.embed(choice, std::move(values));
}

void Generation::on_token(std::uint32_t choice, const SampledToken& token) {
  const Answer::Part& part = answer_.part(choice);
  if (ended_ || part.choice.done()) return;
  if (token.finish == FinishReason::kError) {
    return on_error(choice, {token.error, "the sequence could not be computed"});
  }
  if (answer_.input().keep) api_->kept.write_token(*answer_.input().keep, choice, token);
  const TimePoint last = part.last_token;
  const TimePoint now = api_->clock.now();
  const bool ready = answer_.push(choice, token, now);
  if (part.choice.tokens() == 1) {
    api_->metrics.first_token(seconds(now - arrived_));
    api_->metrics.prefilled(seconds(now - part.admitted));
  } else {
    api_->metrics.next_token(seconds(now - last));
  }
  if (part.choice.done()) observe(*api_, answer_, choice, arrived_);
  if (part.stopped && runs_[choice].submitted) stop_sequence(choice);
  if (answer_.waits_for_hashes(part)) return;
  if (part.choice.done()) return settle(choice);
  if (ready) audience_.tell_choice(choice);
}

// Cancels the sequences in the coordinator that a stop string has ended here.
void Generation::stop_sequence(std::uint32_t choice) {
  const Answer::Part& part = answer_.part(choice);
  Run& run = runs_[choice];
  INVARIANT(part.stopped && run.submitted, "a running choice is stopped by its text");
  if (answer_.waits_for_hashes(part)) return api_->port.stop(run.sequence, *part.stopped);
  cancel(run);
}

void Generation::settle(std::uint32_t choice) {
  runs_[choice].submitted = false;  // nothing is left to cancel
  runs_[choice].credit.reset();
  answer_.settle(choice);
  audience_.tell_choice(choice);
  if (whole() && !ended_) complete();
}

void Generation::on_hashes(std::uint32_t choice, std::vector<RowHash> hashes) {
  if (ended_ || answer_.part(choice).hashed) return;
  if (answer_.add_hashes(choice, std::move(hashes))) settle(choice);
}

ApiError Generation::refusal_of(const SubmitAnswer& answer) const {
  const Error& error = answer.sequences.error();
  if (error.code == ErrorCode::kNoCapacity || error.code == ErrorCode::kInvalidInput) {
    constexpr const char* kWhere = "the KV memory of the workers (--kv-budget)";
    if (auto refusal = too_long(answer.bounds.positions, kWhere)) return *refusal;
  }
  return error_of(*api_, answer_.request().policy, error);
}

void Generation::on_error(std::uint32_t choice, const Error& error) {
  if (ended_) return;
  if (!runs_[choice].admitted && retries({choice}, error)) return;
  ApiError out = error_of(*api_, answer_.request().policy, error);
  // The swarm has done work: an automatic retry would make it do the work again.
  if (answer_.has_tokens()) out.final = true;
  fail(out);
}

bool Generation::retries(const std::vector<std::uint32_t>& choices, const Error& error) {
  // The workers may still return, or the queue may have room again.
  const bool passes = error.code == ErrorCode::kUnavailable || error.code == ErrorCode::kNoCapacity;
  if (!api_->later || !passes || !retry_until_ || api_->clock.now() >= *retry_until_) return false;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> runs;  // with their numbers
  for (const std::uint32_t choice : choices) {
    runs_[choice].submitted = false;
    runs.emplace_back(choice, runs_[choice].number);
  }
  api_->later(kRetryPause, [weak = weak_from_this(), runs = std::move(runs)] {
    const auto self = weak.lock();
    if (!self || self->ended_) return;
    std::vector<std::uint32_t> again;
    for (const auto& [choice, number] : runs) {
      if (self->runs_[choice].number == number) again.push_back(choice);
    }
    if (!again.empty()) self->submit(std::move(again));
  });
  return true;
}

std::uint64_t Generation::tokens_to_come() const {
  std::uint64_t sum = 0;
  for (std::uint32_t i = 0; i < answer_.size() && !ended_; ++i) {
    if (runs_[i].submitted && !answer_.part(i).settled) sum += answer_.tokens_left(i);
  }
  return sum;
}

bool Generation::may_have_sent(const EventId& seen) const {
  const bool more = told_elsewhere_;
  INVARIANT(seen.told.size() == answer_.size(), "an event id counts the tokens of each choice");
  for (std::uint32_t i = 0; i < answer_.size(); ++i) {
    const Answer::Part& part = answer_.part(i);
    // An earlier process may have sent more than this one has recomputed so far.
    const std::uint32_t known = more && !part.settled ? part.max_tokens : part.choice.tokens();
    const std::uint32_t end = part.settled || more ? 1 : 0;
    if (seen.told[i] > known + 1 + end) return false;
  }
  return !seen.usage || (answer_.request().include_usage && (more || whole()));
}

void Generation::attach(std::shared_ptr<ResponseWriter> writer, std::optional<EventId> seen) {
  if (writer->gone()) return;
  const std::shared_ptr<Listener> listener = audience_.make(writer, std::move(seen));
  ++visits_;
  if (ended_ && whole()) return audience_.finish(listener);
  if (ended_) return listener->fail(from_coordinator({ErrorCode::kUnavailable, kSuspended}, 1));
  audience_.add(listener);
  writer->on_gone([weak = weak_from_this(), listener] {
    if (const auto alive = weak.lock()) alive->leave(*listener);
  });
  if (open_) audience_.tell(*listener);
}

// Also called while the audience sends.
void Generation::leave(Listener& listener) {
  listener.leave();
  if (ended_ || !audience_.all_gone()) return;
  if (!answer_.input().keep) return end();
  arm_grace();
}

void Generation::forget() {
  if (!ended_) return end();
  api_->kept.remove(answer_.input().keep->name, this);
}

void Generation::arm_grace() {
  if (!api_->later) return;
  const std::uint64_t visit = ++visits_;
  api_->later(std::chrono::seconds(api_->options.timeouts.grace), [weak = weak_from_this(), visit] {
    const auto self = weak.lock();
    if (self && self->visits_ == visit && !self->ended_) self->end();
  });
}

bool Generation::waits_for_audits() {
  if (!verification_.waits() || !api_->later) return false;
  if (std::exchange(verifying_, true)) return true;
  const auto bound =
      std::chrono::seconds(api_->options.timeouts.verify) +
      2 * std::chrono::duration_cast<std::chrono::seconds>(api_->clock.now() - arrived_);
  api_->later(bound, [weak = weak_from_this(), bound] {
    const auto self = weak.lock();
    if (!self || self->ended_) return;
    self->verification_.cannot(
        fmt::format("not all of its windows were recomputed within {} seconds; hearth ledger shows "
                    "later results by the receipt",
                    bound.count()));
    self->complete();
  });
  return true;
}

void Generation::on_audit(std::uint32_t choice, const AuditOutcome& outcome) {
  const Choice& claimed = answer_.part(choice).choice;
  if (ended_ || !verification_.take(claimed, outcome)) return;
  if (outcome.kind == AuditOutcome::Kind::kFalse) {
    const bool whole = !outcome.is_cut && !outcome.answer.empty();
    if (whole && outcome.answer != claimed.token_ids()) {
      verification_.correct(corrected_choice(
          choice, answer_.request(), answer_.prompt(choice), answer_.echo(choice), outcome.answer,
          answer_.model().tokenizer, answer_.sampling(choice).stop_tokens, answer_.form()));
    }
    // The stored row is removed: a restarted server, which would not know that the answer is false,
    // computes it again.
    if (answer_.input().keep) api_->kept.remove_row(*answer_.input().keep);
  }
  if (!verifying_) return;
  if (!verification_.waits()) return complete();
  audience_.tell_verification();
}

OrderedJson Generation::closing() const {
  OrderedJson hearth = answer_.hearth();
  if (api_->options.credits) hearth["credits"] = credits_object(*api_, answer_);
  hearth.update(verification_.object());
  return {{"timings", timings_object(answer_.timings())}, {"hearth", std::move(hearth)}};
}

void Generation::complete() {
  INVARIANT(whole() && !ended_, "an answer is completed once");
  if (waits_for_audits()) return;
  const auto self = shared_from_this();
  audience_.finish_all();
  if (!answer_.input().keep) return end();
  keep_answer(std::chrono::seconds(api_->options.timeouts.kept));
}

// Computing has ended; later clients get everything at once.
void Generation::keep_answer(std::chrono::seconds time) {
  INVARIANT(whole(), "only a whole answer is kept");
  ended_ = true;
  const Keep& keep = *answer_.input().keep;
  const auto already = std::chrono::seconds(api_->options.timeouts.kept) - time;
  answer_.drop_prompts();
  if (api_->later) {
    api_->later(time, [weak = weak_from_this()] {
      const auto self = weak.lock();
      if (self) self->api_->kept.remove(self->answer_.input().keep->name, self.get());
    });
  }
  const auto self = shared_from_this();
  api_->generations.erase(self);
  api_->kept.finished(keep, answer_.bytes(), api_->clock.unix_seconds() - already.count());
}

void Generation::fail(const ApiError& error) {
  if (ended_) return;
  // This process ends and another one will continue the request: the clients must reconnect to that
  // one.
  const bool suspended = answer_.input().keep && api_->suspending;
  const auto self = shared_from_this();
  audience_.fail_all(error, suspended);
  if (!suspended) return end();
  for (Run& run : runs_) run.credit.reset();
  ended_ = true;
  api_->generations.erase(self);
}

void Generation::end() {
  if (std::exchange(ended_, true)) return;
  const auto self = shared_from_this();
  for (Run& run : runs_) {
    cancel(run);
    run.credit.reset();
  }
  audience_.dismiss();
  api_->generations.erase(self);
  if (const auto& keep = answer_.input().keep) api_->kept.remove(keep->name, this);
}

}  // namespace hearth::coordinator::http
