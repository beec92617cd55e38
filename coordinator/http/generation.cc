#include "coordinator/http/generation.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "base/limits.h"
#include "coordinator/http/sse.h"

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

std::string hex16(std::uint64_t value) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(value));
  return text;
}

}  // namespace

// Carries the events of one sequence to the socket thread. Holds no generation alive.
class ChoiceEvents final : public SequenceEvents {
 public:
  ChoiceEvents(std::shared_ptr<Api> api, std::weak_ptr<Generation> generation, std::uint32_t index)
      : api_(std::move(api)), generation_(std::move(generation)), index_(index) {}

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
    deliver([error](Generation& g) { g.on_error(error); });
  }

 private:
  template <typename Function>
  void deliver(Function function) {
    api_->sockets.post([generation = generation_, function = std::move(function)] {
      if (const auto alive = generation.lock()) function(*alive);
    });
  }
  std::shared_ptr<Api> api_;
  std::weak_ptr<Generation> generation_;
  std::uint32_t index_;
};

void Generation::start(std::shared_ptr<Api> api, std::shared_ptr<Exchange> exchange,
                       const HttpRequest& http, GenerationInput input) {
  if (exchange->gone()) return;
  auto self = std::make_shared<Generation>(api, exchange, http, std::move(input));
  api->generations.insert(self);
  exchange->on_gone([weak = std::weak_ptr(self)] {
    if (const auto alive = weak.lock()) alive->end();
  });
  // The swarm's state first: it bounds the default length and predicts the wait.
  api->port.status([api, self](SwarmStatus status) {
    api->sockets.post([self, status = std::move(status)] { self->submit(status); });
  });
}

Generation::Generation(std::shared_ptr<Api> api, std::shared_ptr<Exchange> exchange,
                       const HttpRequest& http, GenerationInput input)
    : api_(std::move(api)),
      exchange_(std::move(exchange)),
      input_(std::move(input)),
      arrived_(http.arrived),
      created_(api_->clock.unix_seconds()) {
  const GenerationRequest& request = input_.request;
  // A seed of 53 bits comes back unchanged through every JSON reader.
  constexpr int kJsonExactShift = 64 - 53;
  seed_ = request.seed ? *request.seed : api_->random.next() >> kJsonExactShift;
  id_ = (request.chat ? "chatcmpl-" : "cmpl-") + hex16(api_->random.next());
  for (std::size_t prompt = 0; prompt < input_.prompts.size(); ++prompt) {
    for (std::uint32_t i = 0; i < request.n; ++i) {
      const auto index = static_cast<std::uint32_t>(running_.size());
      const std::string echo = request.echo ? input_.echoes[prompt] : std::string();
      Choice choice(index, request, input_.prompts[prompt], echo, api_->model.tokenizer);
      running_.push_back({std::move(choice), {}, {}, false, {}, {}, {}});
    }
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
  std::vector<std::uint32_t> lengths;
  for (std::size_t i = 0; i < input_.prompts.size(); ++i) {
    lengths.push_back(max_tokens_of(i, capacity));
    const std::uint64_t prompt = input_.prompts[i].size();
    if (prompt + lengths.back() <= capacity) continue;
    return fail(ApiError::invalid(
        "the prompt has " + std::to_string(prompt) + " tokens and asks for " +
            std::to_string(lengths.back()) + " more; together at most " + std::to_string(capacity) +
            (capacity == context ? " fit the model's context" : " fit the swarm's KV memory"),
        input_.request.chat ? "messages" : "prompt", "context_length_exceeded"));
  }
  for (std::uint32_t index = 0; index < running_.size() && !ended_; ++index) {
    submit_choice(index, lengths[index / input_.request.n]);
  }
}

void Generation::submit_choice(std::uint32_t index, std::uint32_t max_tokens) {
  GenerateRequest out;
  out.prompt = input_.prompts[index / input_.request.n];
  out.sampling = input_.request.sampling;
  out.sampling.max_tokens = max_tokens;
  running_[index].prompt_tokens = static_cast<std::uint32_t>(out.prompt.size());
  running_[index].max_tokens = max_tokens;
  out.sampling.seed = seed_ + index % input_.request.n;
  if (!input_.request.ignore_eos) out.sampling.stop_tokens = api_->model.tokenizer->end_tokens();
  out.report_hashes = input_.request.return_hashes;
  out.trust = input_.request.trust;
  auto events = std::make_shared<ChoiceEvents>(api_, weak_from_this(), index);
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
    if (!ended_) refuse(result.error());
    return;
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
  if (++accepted_ < running_.size()) return;
  if (!input_.request.stream) {
    if (finished_ == running_.size()) complete();
    return;
  }
  exchange_->start_stream();
  streaming_ = true;
  for (Running& each : running_) {
    if (ended_) return;
    if (each.choice.tokens() > 0 && !waits_for_hashes(each)) flush(each);
  }
  if (finished_ == running_.size() && !ended_) complete();
}

void Generation::refuse(const Error& error) {
  ApiError out = from_coordinator(error, predicted_wait(*api_, status_));
  fail(out);
}

void Generation::on_admitted(std::uint32_t index) {
  running_[index].admitted = api_->clock.now();
  api_->metrics.queued(seconds(running_[index].admitted - arrived_));
}

void Generation::on_token(std::uint32_t index, const SampledToken& token) {
  Running& running = running_[index];
  if (ended_ || running.choice.done()) return;
  if (token.finish == FinishReason::kError) {
    return on_error({token.error, "the sequence could not be computed"});
  }
  const bool ready = running.choice.push(token);
  observe(running, running.choice.done());
  if (running.choice.stopped_by_text()) {
    running.stopped = token.position;
    if (running.submitted) stop_sequence(running);
  }
  if (waits_for_hashes(running)) return;
  if (running.choice.done()) return settle(running);
  if (streaming_ && ready) flush(running);
}

// The coordinator ends what a stop string has ended here.
void Generation::stop_sequence(Running& running) {
  if (waits_for_hashes(running)) return api_->port.stop(running.sequence, *running.stopped);
  api_->port.cancel(running.sequence);
  running.submitted = false;
}

void Generation::settle(Running& running) {
  running.submitted = false;  // nothing left to cancel
  ++finished_;
  if (streaming_) flush(running);
  const bool all = finished_ == running_.size() && accepted_ == running_.size();
  if (all && !ended_) complete();
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

void Generation::on_error(const Error& error) {
  if (ended_) return;
  ApiError out = from_coordinator(error, predicted_wait(*api_, status_));
  const bool produced = std::any_of(running_.begin(), running_.end(), [](const Running& running) {
    return running.choice.tokens() > 0;
  });
  // Work was done: an automatic retry would make the swarm pay twice for one click.
  if (produced) out.final = true;
  fail(out);
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
  sequence.prompt_tokens = running.prompt_tokens;
  sequence.generated_tokens = static_cast<std::uint32_t>(running.choice.tokens());
  sequence.max_tokens = running.max_tokens;
  sequence.choices = input_.request.n;
  api_->metrics.finished(sequence);
}

// Sends what a choice has: the role first, then text, and the end as a chunk of its own.
void Generation::flush(Running& running) {
  ChoicePart part = running.choice.take();
  const AnswerHead head = this->head();
  const model::Tokenizer& tokenizer = *api_->model.tokenizer;
  const std::string reason = std::exchange(part.finish_reason, {});
  if (part.first) {
    ChoicePart role;
    role.index = part.index;
    role.first = true;
    role.with_token_ids = part.with_token_ids;
    send(chunk_object(head, role, {}, tokenizer));
    part.first = false;
  }
  if (!part.text.empty() || (reason.empty() && !part.token_ids.empty())) {
    send(chunk_object(head, part, {}, tokenizer));
    part.text.clear();
    part.token_ids.clear();
    part.logprobs.clear();
  }
  if (reason.empty()) return;
  part.finish_reason = reason;
  part.with_logprobs = part.with_logprobs && !part.logprobs.empty();
  const bool last = finished_ == running_.size();
  send(chunk_object(head, part, last ? closing_objects() : OrderedJson(), tokenizer));
}

void Generation::complete() {
  if (streaming_) {
    if (input_.request.include_usage) send(usage_chunk(head(), usage()));
    if (!ended_) exchange_->send(sse_event(kSseDone));
    if (!ended_) exchange_->finish_stream(false);
    return end();
  }
  std::vector<ChoicePart> parts;
  for (Running& running : running_) parts.push_back(running.choice.take());
  const OrderedJson closing = closing_objects();
  exchange_->respond(json_response(dump(answer_object(head(), parts, usage(), timings(),
                                                      closing["hearth"], *api_->model.tokenizer))));
  end();
}

void Generation::fail(const ApiError& error) {
  if (ended_) return;
  if (streaming_) {
    exchange_->send(sse_event(error_body(error)));
    if (!ended_) exchange_->finish_stream(true);
  } else {
    exchange_->respond(error_response(error));
  }
  end();
}

void Generation::end() {
  if (std::exchange(ended_, true)) return;
  for (Running& running : running_) {
    if (running.submitted) api_->port.cancel(running.sequence);
    running.submitted = false;
  }
  exchange_->on_gone(nullptr);
  api_->generations.erase(shared_from_this());
}

void Generation::send(const OrderedJson& event) {
  if (!ended_) exchange_->send(sse_event(dump(event)));
}

OrderedJson Generation::closing_objects() const {
  std::vector<ChoiceHashes> hashes;
  for (std::uint32_t i = 0; i < running_.size(); ++i) hashes.push_back({i, running_[i].hashes});
  OrderedJson out;
  out["timings"] = timings_object(timings());
  out["hearth"] = hearth_object(seed_, hashes, input_.request.return_hashes);
  return out;
}

Usage Generation::usage() const {
  Usage out;
  for (const auto& prompt : input_.prompts) out.prompt_tokens += prompt.size();
  for (const Running& running : running_) out.completion_tokens += running.choice.tokens();
  return out;
}

Timings Generation::timings() const {
  Timings out;
  const Usage total = usage();
  out.prompt_tokens = total.prompt_tokens;
  out.predicted_tokens = total.completion_tokens;
  TimePoint admitted = TimePoint::max();
  TimePoint first = TimePoint::max();
  TimePoint last = TimePoint::min();
  for (const Running& running : running_) {
    admitted = std::min(admitted, running.admitted);
    first = std::min(first, running.first_token);
    last = std::max(last, running.last_token);
  }
  constexpr double kMs = 1000.0;
  out.prompt_ms = seconds(first - admitted) * kMs;
  out.predicted_ms = seconds(last - first) * kMs;
  return out;
}

AnswerHead Generation::head() const {
  AnswerHead out;
  out.chat = input_.request.chat;
  out.id = id_;
  out.created = created_;
  out.model = api_->model.id;
  out.fingerprint = api_->model.fingerprint;
  out.include_usage = input_.request.include_usage;
  return out;
}

}  // namespace hearth::coordinator::http
