// A generation's clients: who is told what, and what is kept when they have all been told.
#include <algorithm>
#include <utility>

#include "base/hex.h"
#include "base/limits.h"
#include "coordinator/http/generation/generation.h"

namespace hearth::coordinator::http {
namespace {

constexpr const char* kSuspended = "the server is shutting down";

double seconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }

}  // namespace

void Generation::attach(std::shared_ptr<Exchange> exchange, std::optional<EventId> seen) {
  if (exchange->gone()) return;
  std::erase_if(listeners_, [](const auto& listener) { return listener->gone(); });
  auto listener = std::make_shared<Listener>(exchange, running_.size());
  if (input_.keep) {
    EventId begin{input_.keep->answer, std::vector<std::uint32_t>(running_.size())};
    listener->resumable(seen ? std::move(*seen) : std::move(begin));
  }
  ++visits_;
  if (ended_ && whole()) return answer(*listener);
  if (ended_) return listener->fail(from_coordinator({ErrorCode::kUnavailable, kSuspended}, 1));
  listeners_.push_back(listener);
  exchange->on_gone([weak = weak_from_this(), listener] {
    if (const auto alive = weak.lock()) alive->leave(*listener);
  });
  tell(*listener);
}

// Called in the middle of telling, too: the list stays as it is.
void Generation::leave(Listener& listener) {
  listener.leave();
  const bool alone = std::all_of(listeners_.begin(), listeners_.end(),
                                 [](const auto& each) { return each->gone(); });
  if (ended_ || !alone) return;
  if (!input_.keep) return end();
  arm_grace();
}

void Generation::forget() {
  if (!ended_) return end();
  api_->kept.remove(input_.keep->name, this);
}

void Generation::arm_grace() {
  if (!api_->later) return;
  const std::uint64_t visit = ++visits_;
  api_->later(std::chrono::seconds(api_->options.timeouts.grace), [weak = weak_from_this(), visit] {
    const auto self = weak.lock();
    if (self && self->visits_ == visit && !self->ended_) self->end();
  });
}

// Nothing is computed any more; who comes now is told everything at once.
void Generation::keep_answer(std::chrono::seconds time) {
  ended_ = true;
  std::size_t bytes = 0;
  for (const Running& running : running_) {
    bytes += running.choice.bytes() + running.hashes.size() * sizeof(RowHash);
  }
  const Keep& keep = *input_.keep;
  const auto already = std::chrono::seconds(api_->options.timeouts.kept) - time;
  input_.prompts.clear();
  input_.echoes.clear();
  if (api_->later) {
    api_->later(time, [weak = weak_from_this()] {
      const auto self = weak.lock();
      if (self) self->api_->kept.remove(self->input_.keep->name, self.get());
    });
  }
  const auto self = shared_from_this();
  api_->generations.erase(self);
  api_->kept.finished(keep, bytes, api_->clock.unix_seconds() - already.count());
}

void Generation::tell_all() {
  for (std::size_t i = 0; i < listeners_.size(); ++i) {
    const auto listener = listeners_[i];
    tell(*listener);
  }
  if (whole() && !ended_) complete();
}

void Generation::tell(Listener& listener) {
  if (!input_.request.stream || listener.gone()) return;
  // Not before everything is accepted: until then a refusal has a status of its own. Of one that
  // was accepted once, by another process, a refusal is no answer.
  if (accepted_ < running_.size() && !resumed_) return;
  if (!listener.streams()) {
    listener.begin(headers());
    // At once what will not be.
    if (verification_.asked() && !verification_.can()) {
      listener.tell_hearth(head(), verification_.object());
    }
  }
  for (const Running& running : running_) tell(listener, running);
}

void Generation::tell(const Running& running) {
  for (std::size_t i = 0; i < listeners_.size(); ++i) {
    const auto listener = listeners_[i];
    if (listener->streams()) tell(*listener, running);
  }
}

void Generation::tell(Listener& listener, const Running& running) {
  const bool news = running.choice.tokens() > 0 && !waits_for_hashes(running);
  if (listener.gone() || !news) return;
  OrderedJson closing;
  if (running.settled) {
    const bool last = std::all_of(running_.begin(), running_.end(), [&](const Running& each) {
      return &each == &running || (each.settled && listener.has_end(each.choice));
    });
    if (last) closing = closing_objects();
  }
  listener.tell(head(), running.choice, running.settled, std::move(closing),
                *api_->model.tokenizer);
}

bool Generation::verifies() {
  if (!verification_.waits() || !api_->later) return false;
  if (std::exchange(verifying_, true)) return true;
  const auto bound =
      std::chrono::seconds(api_->options.timeouts.verify) +
      2 * std::chrono::duration_cast<std::chrono::seconds>(api_->clock.now() - arrived_);
  api_->later(bound, [weak = weak_from_this(), bound] {
    const auto self = weak.lock();
    if (!self || self->ended_) return;
    self->verification_.cannot("not all of its windows were computed again within " +
                               std::to_string(bound.count()) +
                               " seconds; hearth ledger and the receipt tell what came of it");
    self->complete();
  });
  return true;
}

void Generation::on_audit(std::uint32_t index, const AuditOutcome& outcome) {
  const Choice& claimed = running_[index].choice;
  if (ended_ || !verification_.take(claimed, outcome)) return;
  if (outcome.kind == AuditOutcome::Kind::kFalse) {
    const std::size_t prompt = index / input_.request.n;
    if (!outcome.answer.empty() && outcome.answer != claimed.token_ids()) {
      verification_.correct(
          corrected_choice(index, input_.request, input_.prompts[prompt],
                           input_.request.echo ? input_.echoes[prompt] : std::string(),
                           outcome.answer, api_->model.tokenizer, sampling_of(prompt).stop_tokens));
    }
    // After a restart nobody would know: then it is computed again.
    if (input_.keep) api_->kept.remove_row(*input_.keep);
  }
  if (!verifying_) return;
  if (!verification_.waits()) return complete();
  tell_verification();
}

void Generation::tell_verification() {
  for (std::size_t i = 0; i < listeners_.size(); ++i) {
    const auto listener = listeners_[i];
    if (listener->streams()) listener->tell_hearth(head(), verification_.object());
  }
}

void Generation::complete() {
  if (verifies()) return;
  const auto self = shared_from_this();
  for (const auto& listener : take_listeners()) answer(*listener);
  if (input_.keep) return keep_answer(std::chrono::seconds(api_->options.timeouts.kept));
  end();
}

void Generation::answer(Listener& listener) {
  if (listener.gone()) return;
  if (input_.request.stream) {
    if (!listener.streams()) listener.begin(headers());
    for (const Running& running : running_) tell(listener, running);
    if (verification_.asked()) listener.tell_hearth(head(), verification_.object());
    const bool wanted = input_.request.include_usage;
    return listener.close(head(), wanted ? std::optional(usage()) : std::nullopt);
  }
  std::vector<ChoicePart> parts;
  for (const Running& running : running_) {
    const Choice& right = verification_.right(running.choice);
    parts.push_back(right.part(0));
    parts.back().finish_reason = right.finish_reason();
  }
  const OrderedJson closing = closing_objects();
  HttpResponse whole = json_response(dump(
      answer_object(head(), parts, usage(), timings(), closing["hearth"], *api_->model.tokenizer)));
  whole.headers = headers();
  listener.exchange().respond(std::move(whole));
}

void Generation::fail(const ApiError& error) {
  if (ended_) return;
  // This process ends and another will go on: the clients are to ask that one.
  const bool suspended = input_.keep && api_->suspending;
  const auto self = shared_from_this();
  for (const auto& listener : take_listeners()) {
    if (suspended && listener->streams()) {
      listener->interrupt();
    } else {
      listener->fail(error);
    }
  }
  if (!suspended) return end();
  for (Running& running : running_) running.paid.reset();
  ended_ = true;
  api_->generations.erase(self);
}

void Generation::end() {
  if (std::exchange(ended_, true)) return;
  const auto self = shared_from_this();
  for (Running& running : running_) {
    if (running.submitted) api_->port.cancel(running.sequence);
    running.submitted = false;
    running.paid.reset();
  }
  static_cast<void>(take_listeners());
  api_->generations.erase(self);
  if (input_.keep) api_->kept.remove(input_.keep->name, this);
}

// From now on nobody's going matters.
std::vector<std::shared_ptr<Listener>> Generation::take_listeners() {
  auto listeners = std::exchange(listeners_, {});
  for (const auto& listener : listeners) listener->exchange().on_gone(nullptr);
  return listeners;
}

KeptRequest Generation::kept_request() const {
  const GenerationRequest& request = input_.request;
  KeptRequest out;
  out.fingerprint = api_->model.fingerprint;
  out.chat = request.chat;
  out.stream = request.stream;
  out.include_usage = request.include_usage;
  out.return_token_ids = request.return_token_ids;
  out.n = request.n;
  out.created = created_;
  out.stop = request.stop;
  out.trust = request.trust;
  out.verify = request.verify.value_or(Verify::kNone);
  out.min_level = request.min_level.value_or(ledger::Level::kNewcomer);
  out.share = request.share;
  if (request.echo) out.echoes = input_.echoes;
  for (std::size_t i = 0; i < input_.prompts.size(); ++i) {
    SequenceOpen open{{},
                      static_cast<std::uint32_t>(input_.prompts[i].size()),
                      request.return_hashes,
                      sampling_of(i)};
    out.prompts.push_back({{}, std::move(open), input_.prompts[i]});
  }
  return out;
}

OrderedJson Generation::closing_objects() const {
  std::vector<ChoiceHashes> hashes;
  for (std::uint32_t i = 0; i < running_.size(); ++i) hashes.push_back({i, running_[i].hashes});
  OrderedJson out;
  out["timings"] = timings_object(timings());
  out["hearth"] = hearth_object(seed_, proof(), hashes, input_.request.return_hashes);
  if (api_->options.credits) out["hearth"]["credits"] = credits_object();
  const OrderedJson verified = verification_.object();
  for (const auto& [key, value] : verified.items()) out["hearth"][key] = value;
  return out;
}

std::optional<AnswerProof> Generation::proof() const {
  if (!receipt_ || !api_->options.ledger->fault().empty()) return std::nullopt;
  return AnswerProof{receipt_text(), answer_salt().hex(), lengths_.front()};
}

std::string Generation::receipt_text() const { return receipt_ ? to_hex(*receipt_) : ""; }

HeaderFields Generation::headers() const {
  if (!receipt_) return {};
  return {{"x-hearth-receipt", receipt_text()}};
}

Usage Generation::usage() const {
  Usage out;
  out.prompt_tokens = prompt_tokens_;
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
