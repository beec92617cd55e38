#include "coordinator/http/generation/generation.h"

#include <algorithm>
#include <utility>

#include "base/hex.h"
#include "base/limits.h"
#include "ledger/salt.h"

namespace hearth::coordinator::http {
namespace {

double seconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }

// Positions that the roomiest pipeline can hold; 0: no pipeline serves now.
std::uint64_t kv_capacity(const SwarmStatus& status) {
  std::uint64_t most = 0;
  for (const PipelineStatus& pipeline : status.pipelines) {
    if (pipeline.state != "serving") continue;
    most = std::max(most, std::uint64_t{pipeline.kv_pages} * pipeline.kv_page_tokens);
  }
  return most;
}

constexpr auto kRetryPause = std::chrono::milliseconds(100);

ApiError too_many_kept() {
  ApiError error = from_coordinator(
      {ErrorCode::kNoCapacity, "too many requests with an Idempotency-Key run at once"}, 1);
  error.code = "too_many_kept_requests";
  return error;
}

ApiError unverifiable(const std::string& why) {
  ApiError error = ApiError::invalid(
      "the answer cannot be verified: " + why + "; ask without verify_strict to have it unverified",
      "hearth.verify", "verification_unavailable");
  error.status = 409;
  return error;
}

}  // namespace

// Carries the events of one sequence to the socket thread. Holds no generation alive.
class ChoiceEvents final : public SequenceEvents {
 public:
  ChoiceEvents(std::shared_ptr<Api> api, std::weak_ptr<Generation> generation, std::uint32_t index,
               std::uint32_t run, Credits::Hold paid)
      : api_(std::move(api)),
        generation_(std::move(generation)),
        index_(index),
        run_(run),
        paid_(std::move(paid)) {}

  void on_admitted() override {
    deliver([index = index_](Generation& g) { g.on_admitted(index); });
  }
  void on_token(const SampledToken& token) override {
    deliver([index = index_, token](Generation& g) { g.on_token(index, token); });
  }
  void on_hashes(std::vector<RowHash> hashes) override {
    deliver([index = index_, hashes = std::move(hashes)](Generation& g) {
      g.on_hashes(index, hashes);
    });
  }
  void on_error(const Error& error) override {
    deliver([index = index_, error](Generation& g) { g.on_error(index, error); });
  }
  void on_audit(const AuditOutcome& outcome) override {
    deliver([index = index_, outcome](Generation& g) { g.on_audit(index, outcome); });
  }

 private:
  template <typename Function>
  void deliver(Function function) {
    api_->sockets.post(
        [generation = generation_, index = index_, run = run_, function = std::move(function)] {
          const auto alive = generation.lock();
          if (alive && alive->running_[index].run == run) function(*alive);
        });
  }
  std::shared_ptr<Api> api_;
  std::weak_ptr<Generation> generation_;
  std::uint32_t index_;
  std::uint32_t run_;
  Credits::Hold paid_;  // for as long as the coordinator may begin it
};

void Generation::start(std::shared_ptr<Api> api, std::shared_ptr<Exchange> exchange,
                       const HttpRequest& http, GenerationInput input,
                       std::optional<EventId> seen) {
  if (exchange->gone()) return;
  const std::int64_t created = api->clock.unix_seconds();
  auto self = std::make_shared<Generation>(api, std::move(input), http.arrived, created);
  const std::optional<Keep>& keep = self->input_.keep;
  if (keep && !api->kept.add(*keep, self)) {
    return exchange->respond(error_response(too_many_kept()));
  }
  self->restarted_ = seen.has_value();
  api->generations.insert(self);
  self->attach(std::move(exchange), std::move(seen));
  // The swarm's state first: it bounds the default length and predicts the wait.
  api->port.status([api, self](SwarmStatus status) {
    api->sockets.post([self, status = std::move(status)] { self->submit(status); });
  });
}

bool Generation::resume(std::shared_ptr<Api> api, GenerationInput input, Begun begun) {
  auto self = std::make_shared<Generation>(api, std::move(input), api->clock.now(), begun.created);
  if (!api->kept.add(*self->input_.keep, self)) return false;
  self->resumed_ = self->restarted_ = true;
  self->lengths_ = std::move(begun.lengths);
  self->patience_ = self->arrived_ + std::chrono::seconds(api->options.timeouts.resume);
  self->restore(std::move(begun.answers));
  if (self->whole()) {
    self->verification_.cannot("the server started again before it could be");
    self->keep_answer(begun.kept);
    return true;
  }
  api->generations.insert(self);
  // What it had kept went with the process before, and others may have spent it since.
  if (const auto refused = self->reserve()) {
    self->fail(*refused);
    return true;
  }
  self->arm_grace();
  for (std::uint32_t index = 0; index < self->running_.size(); ++index) {
    if (!self->running_[index].settled) self->submit_choice(index);
  }
  return true;
}

Generation::Generation(std::shared_ptr<Api> api, GenerationInput input, TimePoint arrived,
                       std::int64_t created)
    : api_(std::move(api)),
      input_(std::move(input)),
      arrived_(arrived),
      created_(created),
      verification_(input_.request.verify.value_or(Verify::kNone),
                    input_.prompts.size() * input_.request.n) {
  const GenerationRequest& request = input_.request;
  const std::optional<Keep>& keep = input_.keep;
  // A seed of 53 bits comes back unchanged through every JSON reader.
  constexpr int kJsonExactShift = 64 - 53;
  seed_ = keep ? keep->seed : api_->random.next() >> kJsonExactShift;
  if (request.seed) seed_ = *request.seed;
  id_ = (request.chat ? "chatcmpl-" : "cmpl-") + hex16(keep ? keep->answer : api_->random.next());
  // The same in a process that goes on with it.
  const LedgerView* const ledger = api_->options.ledger;
  if (ledger != nullptr && ledger->fault().empty()) {
    const Hash256 own = keyed_blake2b(api_->options.secret, as_bytes("receipt of " + id_));
    receipt_ = ledger::answer_name(created_, own.bytes);
  }
  for (std::size_t prompt = 0; prompt < input_.prompts.size(); ++prompt) {
    prompt_tokens_ += input_.prompts[prompt].size();
    for (std::uint32_t i = 0; i < request.n; ++i) {
      const auto index = static_cast<std::uint32_t>(running_.size());
      const std::string echo = request.echo ? input_.echoes[prompt] : std::string();
      Choice choice(index, request, input_.prompts[prompt], echo, api_->model.tokenizer);
      running_.push_back({std::move(choice)});
      running_.back().prompt_tokens = input_.prompts[prompt].size();
    }
  }
}

void Generation::restore(std::vector<std::vector<SampledToken>> answers) {
  for (std::size_t index = 0; index < running_.size(); ++index) {
    Running& running = running_[index];
    running.admitted = running.first_token = running.last_token = arrived_;
    std::vector<SampledToken>& answer = answers[index];
    // Hashes are not written: all of them come with the last token, again.
    if (input_.request.return_hashes && !answer.empty()) answer.pop_back();
    for (const SampledToken& token : answer) running.choice.push(token);
    if (!running.choice.done()) continue;
    running.settled = true;
    ++accepted_;
    ++finished_;
  }
}

std::uint32_t Generation::max_tokens_of(std::size_t prompt, std::uint32_t capacity) const {
  const GenerationRequest& request = input_.request;
  if (request.max_tokens) return *request.max_tokens;
  if (!request.chat) return kCompletionMaxTokens;
  const auto used = static_cast<std::uint32_t>(input_.prompts[prompt].size());
  const std::uint32_t left = capacity > used ? capacity - used : 1;
  return std::min(left, limits::kDefaultMaxTokens);
}

void Generation::submit(const SwarmStatus& status) {
  if (ended_) return;
  status_ = status;
  const std::uint32_t context = api_->model.spec.context;
  const std::uint64_t kv = kv_capacity(status);
  const auto capacity =
      static_cast<std::uint32_t>(kv == 0 ? context : std::min<std::uint64_t>(kv, context));
  for (std::size_t i = 0; i < input_.prompts.size(); ++i) {
    lengths_.push_back(max_tokens_of(i, capacity));
    const std::uint64_t prompt = input_.prompts[i].size();
    if (prompt + lengths_.back() <= capacity) continue;
    return fail(ApiError::invalid(
        "the prompt has " + std::to_string(prompt) + " tokens and asks for " +
            std::to_string(lengths_.back()) + " more; together at most " +
            std::to_string(capacity) +
            (capacity == context ? " fit the model's context" : " fit the swarm's KV memory"),
        input_.request.chat ? "messages" : "prompt", "context_length_exceeded"));
  }
  if (verification_.asked()) {
    std::string why = Verification::why_not(status, input_.request, receipt_.has_value());
    if (!why.empty() && input_.request.verify_strict) return fail(unverifiable(why));
    verification_.cannot(std::move(why));
  }
  if (const auto refused = reserve()) return fail(*refused);
  const bool written = input_.keep && api_->kept.writes() &&
                       prompt_tokens_ <= limits::kKeptRequestBytes / sizeof(TokenId);
  if (written) api_->kept.write(*input_.keep, encode(kept_request()));
  for (std::uint32_t index = 0; index < running_.size() && !ended_; ++index) submit_choice(index);
}

SamplingParams Generation::sampling_of(std::size_t prompt) const {
  SamplingParams out = input_.request.sampling;
  out.max_tokens = lengths_[prompt];
  out.seed = seed_;
  if (!input_.request.ignore_eos) out.stop_tokens = api_->model.tokenizer->end_tokens();
  return out;
}

// This server's to know, and its client's.
Hash256 Generation::answer_salt() const {
  return keyed_blake2b(api_->options.secret, as_bytes("salt of receipt " + receipt_text()));
}

// Its salt comes to its stages with the request.
std::optional<ReceiptOrder> Generation::receipt_order(std::uint32_t index) const {
  if (!receipt_) return std::nullopt;
  static_assert(limits::kHttpSequences <= 256, "the number of a choice is one byte of its name");
  const ledger::RequestId request =
      ledger::request_of(*receipt_, static_cast<std::uint16_t>(index));
  return ReceiptOrder{request, ledger::choice_salt(answer_salt(), request)};
}

void Generation::submit_choice(std::uint32_t index) {
  const std::size_t prompt = index / input_.request.n;
  GenerateRequest out;
  out.prompt = input_.prompts[prompt];
  out.sampling = sampling_of(prompt);
  out.sampling.seed += index % input_.request.n;
  out.report_hashes = input_.request.return_hashes;
  out.receipt = receipt_order(index);
  out.trust = input_.request.trust;
  out.verify = input_.request.verify.value_or(Verify::kNone);
  out.min_level = input_.request.min_level.value_or(ledger::Level::kNewcomer);
  out.share = input_.request.share;
  out.owner = input_.request.owner;
  // No user watches a whole answer come: a chat's titles and tags, and batch work.
  out.background = !input_.request.stream;
  out.answer = running_[index].choice.token_ids();
  auto events = std::make_shared<ChoiceEvents>(api_, weak_from_this(), index, ++running_[index].run,
                                               running_[index].paid);
  // The generation stays alive until every submission is answered: a sequence that was accepted
  // after the client went must still be cancelled.
  auto done = [self = shared_from_this(), index](Result<SequenceId> result) {
    const bool delivered =
        self->api_->sockets.post([self, index, result] { self->on_submitted(index, result); });
    if (!delivered && result.ok()) self->api_->port.cancel(*result);
  };
  api_->port.submit(std::move(out), std::move(events), std::move(done));
}

void Generation::on_submitted(std::uint32_t index, const Result<SequenceId>& result) {
  if (!result.ok()) {
    if (ended_ || retries(index, result.error())) return;
    return fail(error_of(result.error()));
  }
  Running& running = running_[index];
  running.sequence = *result;
  running.submitted = true;
  if (ended_) {
    api_->port.cancel(running.sequence);
    running.submitted = false;
    return;
  }
  if (running.stopped) stop_sequence(running);
  if (!std::exchange(running.accepted, true)) ++accepted_;
  if (accepted_ == running_.size()) tell_all();
}

void Generation::on_admitted(std::uint32_t index) {
  Running& running = running_[index];
  running.admitted_here = true;
  running.paid.reset();
  running.admitted = api_->clock.now();
  api_->metrics.queued(seconds(running.admitted - arrived_));
}

void Generation::on_token(std::uint32_t index, const SampledToken& token) {
  Running& running = running_[index];
  if (ended_ || running.choice.done()) return;
  if (token.finish == FinishReason::kError) {
    return on_error(index, {token.error, "the sequence could not be computed"});
  }
  if (input_.keep) api_->kept.write_token(*input_.keep, index, token);
  const bool ready = running.choice.push(token);
  observe(running, running.choice.done());
  if (running.choice.stopped_by_text()) {
    running.stopped = token.position;
    if (running.submitted) stop_sequence(running);
  }
  if (waits_for_hashes(running)) return;
  if (running.choice.done()) return settle(running);
  if (ready) tell(running);
}

// The coordinator ends what a stop string has ended here.
void Generation::stop_sequence(Running& running) {
  if (waits_for_hashes(running)) return api_->port.stop(running.sequence, *running.stopped);
  api_->port.cancel(running.sequence);
  running.submitted = false;
}

std::uint64_t Generation::tokens_to_come() const {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < running_.size() && !ended_; ++i) {
    const Running& running = running_[i];
    if (!running.submitted || running.settled) continue;
    const std::uint64_t most = lengths_[i / input_.request.n];
    sum += most - std::min<std::uint64_t>(most, running.choice.tokens());
  }
  return sum;
}

bool Generation::may_have_sent(const EventId& seen) const {
  const std::uint32_t context = api_->model.spec.context;
  for (std::size_t i = 0; i < running_.size(); ++i) {
    const Running& running = running_[i];
    // What a process before has said may be more than there is again as yet.
    const std::size_t prompt = i / input_.request.n;
    const std::uint32_t most = prompt < lengths_.size() ? lengths_[prompt] : context;
    const std::uint32_t known = restarted_ && !running.settled ? most : running.choice.tokens();
    const std::uint32_t end = running.settled || restarted_ ? 1 : 0;
    if (seen.told[i] > known + 1 + end) return false;
  }
  return !seen.usage || (input_.request.include_usage && (restarted_ || whole()));
}

void Generation::settle(Running& running) {
  running.submitted = false;  // nothing left to cancel
  running.settled = true;
  running.paid.reset();
  ++finished_;
  tell(running);
  if (whole() && !ended_) complete();
}

void Generation::on_hashes(std::uint32_t index, std::vector<RowHash> hashes) {
  Running& running = running_[index];
  if (ended_ || running.hashed) return;
  const bool waited = waits_for_hashes(running);
  running.hashed = true;
  running.hashes = std::move(hashes);
  if (!waited) return;
  // Of a sequence that had ended by itself before it could be stopped, there are more.
  std::erase_if(running.hashes,
                [&](const RowHash& hash) { return hash.position >= *running.stopped; });
  settle(running);
}

ApiError Generation::error_of(const Error& error) const {
  ApiError out = from_coordinator(error, predicted_wait(*api_, status_));
  if (error.code == ErrorCode::kNoCapacity) {
    out.message += "; there should be room in " + wait_text(*out.retry_after);
  }
  const auto level = input_.request.min_level.value_or(ledger::Level::kNewcomer);
  const bool by_level = input_.request.trust.empty() && level > ledger::Level::kNewcomer;
  if (error.code == ErrorCode::kRefused && by_level) out.code = "below_min_level";
  return out;
}

void Generation::on_error(std::uint32_t index, const Error& error) {
  if (ended_ || retries(index, error)) return;
  ApiError out = error_of(error);
  const bool produced = std::any_of(running_.begin(), running_.end(), [](const Running& running) {
    return running.choice.tokens() > 0;
  });
  // Work was done: an automatic retry would make the swarm pay twice for one click.
  if (produced) out.final = true;
  fail(out);
}

// After a restart the workers may not be back yet, or everybody is.
bool Generation::retries(std::uint32_t index, const Error& error) {
  Running& running = running_[index];
  const bool may_pass =
      error.code == ErrorCode::kUnavailable || error.code == ErrorCode::kNoCapacity;
  if (!may_pass || running.admitted_here || api_->clock.now() >= patience_) return false;
  if (!api_->later) return false;
  running.submitted = false;
  if (!resumed_ && std::exchange(running.accepted, false)) --accepted_;
  api_->later(kRetryPause, [weak = weak_from_this(), index, run = running.run] {
    const auto self = weak.lock();
    if (!self || self->ended_) return;
    if (self->running_[index].run == run) self->submit_choice(index);
  });
  return true;
}

void Generation::observe(Running& running, bool end) {
  const TimePoint now = api_->clock.now();
  if (running.choice.tokens() == 1) {
    running.first_token = now;
    api_->metrics.first_token(seconds(now - arrived_));
    api_->metrics.prefilled(seconds(now - running.admitted));
  } else {
    api_->metrics.next_token(seconds(now - running.last_token));
  }
  running.last_token = now;
  if (!end) return;
  FinishedSequence sequence;
  sequence.reason = running.choice.finish_reason();
  sequence.whole_seconds = seconds(now - arrived_);
  sequence.inference_seconds = seconds(now - running.admitted);
  sequence.decode_seconds = seconds(now - running.first_token);
  const std::size_t prompt = running.choice.index() / input_.request.n;
  sequence.prompt_tokens = static_cast<std::uint32_t>(input_.prompts[prompt].size());
  sequence.generated_tokens = running.choice.tokens();
  sequence.max_tokens = lengths_[prompt];
  sequence.choices = input_.request.n;
  api_->metrics.finished(sequence);
}

}  // namespace hearth::coordinator::http
