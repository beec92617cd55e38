#include "coordinator/http/generation/audience.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/limits.h"
#include "coordinator/http/api/api.h"
#include "coordinator/http/wire/sse.h"

namespace hearth::coordinator::http {

void Listener::begin(HeaderFields headers) {
  if (std::exchange(streams_, true) || gone_) return;
  writer_->start_stream(std::move(headers));
}

void Listener::tell(const AnswerHead& head, const Choice& choice, bool ended, OrderedJson closing,
                    const model::Tokenizer& tokenizer) {
  std::uint32_t& told = place_.told[choice.index()];
  const std::uint32_t all = choice.tokens() + 1;
  if (told > all) return;  // its end, or more than this process has again yet
  ChoicePart part = choice.part(std::max(told, 1U) - 1);
  if (told == 0 && head.chat) {
    ChoicePart role;
    role.index = part.index;
    role.first = true;
    role.with_token_ids = part.with_token_ids;
    told = 1;
    send(chunk_object(head, role, {}, tokenizer));
  }
  const bool news = !part.text.empty() || !part.reasoning.empty() || !part.tool_calls.empty() ||
                    (!ended && !part.token_ids.empty());
  if (all > std::max(told, 1U) && news) {
    told = all;
    send(chunk_object(head, part, {}, tokenizer));
    part.token_ids.clear();
    part.logprobs.clear();
  }
  part.text.clear();
  part.reasoning.clear();
  part.tool_calls.clear();
  if (!ended) return;
  part.finish_reason = choice.finish_reason();
  part.with_logprobs = part.with_logprobs && !part.logprobs.empty();
  told = all + 1;
  send(chunk_object(head, part, std::move(closing), tokenizer));
}

void Listener::close(const AnswerHead& head, const std::optional<Usage>& usage) {
  if (usage && !std::exchange(place_.usage, true)) send(usage_chunk(head, *usage));
  if (!gone_) writer_->send(sse_event(kSseDone));
  if (!gone_) writer_->finish_stream(false);
}

void Listener::fail(const ApiError& error) {
  if (gone_) return;
  if (!streams_) return writer_->respond(error_response(error));
  writer_->send(sse_event(error_body(error)));
  if (!gone_) writer_->finish_stream(true);
}

void Listener::send(const OrderedJson& event) {
  if (gone_) return;
  writer_->send(sse_event(dump(event), with_ids_ ? event_id_text(place_) : std::string()));
}

std::shared_ptr<Listener> Audience::make(std::shared_ptr<ResponseWriter> writer,
                                         std::optional<EventId> seen) const {
  const auto& keep = answer_.input().keep;
  EventId begin{keep ? keep->answer : 0, std::vector<std::uint32_t>(answer_.size())};
  return std::make_shared<Listener>(std::move(writer), std::move(seen).value_or(std::move(begin)),
                                    keep.has_value());
}

void Audience::add(std::shared_ptr<Listener> listener) {
  std::erase_if(listeners_, [](const auto& each) { return each->gone(); });
  listeners_.push_back(std::move(listener));
}

bool Audience::all_gone() const {
  return std::ranges::all_of(listeners_, [](const auto& each) { return each->gone(); });
}

// The list may shrink while a client is told: its connection fails, and the answer ends.
template <typename Function>
void Audience::each(const Function& function) const {
  for (std::size_t i = 0; i < listeners_.size(); ++i) {
    const std::shared_ptr<Listener> listener = listeners_[i];
    function(*listener);
  }
}

void Audience::tell(Listener& listener) const {
  if (!answer_.request().stream || listener.gone()) return;
  if (!listener.streams()) {
    listener.begin(answer_.identity().headers());
    // What cannot be verified is said before the first token.
    if (verification_.asked() && !verification_.can()) {
      listener.tell_hearth(answer_.head(), verification_.object());
    }
  }
  for (const Answer::Part& part : answer_.parts()) tell(listener, part);
}

void Audience::tell_all() const {
  each([this](Listener& listener) { tell(listener); });
}

void Audience::tell_choice(std::uint32_t choice) const {
  each([this, choice](Listener& listener) {
    if (listener.streams()) tell(listener, answer_.part(choice));
  });
}

void Audience::tell(Listener& listener, const Answer::Part& part) const {
  const bool news = part.choice.tokens() > 0 && !answer_.waits_for_hashes(part);
  if (listener.gone() || !news) return;
  OrderedJson closing;
  if (part.settled) {
    const bool last = std::ranges::all_of(answer_.parts(), [&](const Answer::Part& each) {
      return &each == &part || (each.settled && listener.has_end(each.choice));
    });
    if (last) closing = closing_();
  }
  listener.tell(answer_.head(), part.choice, part.settled, std::move(closing), *tokenizer_);
}

void Audience::tell_verification() const {
  each([this](Listener& listener) {
    if (listener.streams()) listener.tell_hearth(answer_.head(), verification_.object());
  });
}

void Audience::finish(const std::shared_ptr<Listener>& client) const {
  INVARIANT(answer_.settled(), "only a whole answer ends");
  Listener& listener = *client;
  if (listener.gone()) return;
  const AnswerHead head = answer_.head();
  if (answer_.request().stream) {
    if (!listener.streams()) listener.begin(answer_.identity().headers());
    for (const Answer::Part& part : answer_.parts()) tell(listener, part);
    if (verification_.asked()) listener.tell_hearth(head, verification_.object());
    const bool wanted = answer_.request().include_usage;
    return listener.close(head, wanted ? std::optional(answer_.usage()) : std::nullopt);
  }
  std::vector<ChoicePart> parts;
  for (const Answer::Part& part : answer_.parts()) {
    const Choice& right = verification_.right(part.choice);
    parts.push_back(right.part(0));
    parts.back().finish_reason = right.finish_reason();
  }
  Make make = [head, parts = std::move(parts), usage = answer_.usage(), timings = answer_.timings(),
               hearth = closing_()["hearth"], tokenizer = tokenizer_,
               headers = answer_.identity().headers()] {
    HttpResponse whole =
        json_response(dump(answer_object(head, parts, usage, timings, hearth, *tokenizer)));
    whole.headers = headers;
    return whole;
  };
  if (answer_.bytes() <= limits::kHttpLightBytes) return listener.respond(make());
  elsewhere_(std::move(make), [client](HttpResponse whole) { client->respond(std::move(whole)); });
}

void Audience::finish_all() {
  for (const auto& listener : take()) finish(listener);
}

void Audience::fail_all(const ApiError& error, bool interrupt) {
  for (const auto& listener : take()) {
    if (interrupt && listener->streams()) {
      listener->interrupt();
    } else {
      listener->fail(error);
    }
  }
}

std::vector<std::shared_ptr<Listener>> Audience::take() {
  auto listeners = std::exchange(listeners_, {});
  for (const auto& listener : listeners) listener->ignore_departure();
  return listeners;
}

}  // namespace hearth::coordinator::http
