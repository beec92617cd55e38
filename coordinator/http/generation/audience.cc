#include "coordinator/http/generation/audience.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/limits.h"
#include "coordinator/http/api/api.h"
#include "coordinator/http/wire/sse.h"

namespace hearth::coordinator::http {
namespace {

OrderedJson loading_object(const LoadProgress& progress) {
  OrderedJson out = {{"model", progress.model},
                     {"state", progress.loading ? "loading" : "waiting"}};
  if (!progress.loading) return out;
  out["workers"] = progress.workers;
  if (progress.bytes_total > 0) {
    out["bytes"] = progress.bytes;
    out["bytes_total"] = progress.bytes_total;
  }
  return out;
}

}  // namespace

void Listener::begin(HeaderFields headers) {
  if (std::exchange(streams_, true) || gone_) return;
  writer_->start_stream(answer_->form(), std::move(headers));
}

void Listener::tell(const Choice& choice, bool ended, const OrderedJson& closing) {
  std::uint32_t& told = place_.told[choice.index()];
  const std::uint32_t all = choice.tokens() + 1;
  // The client has the end, or more than this process has recomputed so far.
  if (told > all) return;
  ChoicePart part = choice.part(std::max(told, 1U) - 1);
  if (told == 0) {
    // In a completion, nothing precedes the text.
    const StreamEvents begun = answer_->begin(part);
    if (!begun.empty()) told = 1;
    send(begun);
  }
  const bool news = !part.text.empty() || !part.reasoning.empty() || !part.tool_calls.empty() ||
                    (!ended && !part.token_ids.empty());
  if (all > std::max(told, 1U) && news) {
    told = all;
    send(answer_->add(part));
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
  send(answer_->end(part, closing));
}

void Listener::close(const AnswerEnd& end) {
  if (!std::exchange(place_.usage, true)) send(answer_->close(end));
  send(answer_->mark(), false);
  if (!gone_) writer_->finish_stream(false);
}

void Listener::fail(const ApiError& error) {
  if (gone_) return;
  if (!streams_) return writer_->respond(error_response(error, answer_->dialect()));
  send(answer_->fail(error), false);
  if (!gone_) writer_->finish_stream(true);
}

void Listener::send(const StreamEvents& events, bool with_id) {
  std::string text;
  for (const StreamEvent& event : events) {
    if (answer_->form().lines) {
      text += event.data + "\n";
      continue;
    }
    const bool last = &event == &events.back();
    text += sse_event(event.data, with_id && with_ids_ && last ? event_id_text(place_) : "",
                      event.name);
  }
  if (!gone_ && !text.empty()) writer_->send(text);
}

std::shared_ptr<Listener> Audience::make(std::shared_ptr<ResponseWriter> writer,
                                         std::optional<EventId> seen) const {
  const auto& keep = answer_.input().keep;
  EventId begin{keep ? keep->answer : 0, std::vector<std::uint32_t>(answer_.size())};
  // Only a chunk of OpenAI's means the same wherever a stream continues.
  const bool with_ids = keep && answer_.input().dialect == Dialect::kOpenAi;
  return std::make_shared<Listener>(std::move(writer),
                                    make_answer_writer(answer_.input().dialect, answer_.start()),
                                    std::move(seen).value_or(std::move(begin)), with_ids);
}

void Audience::add(std::shared_ptr<Listener> listener) {
  std::erase_if(listeners_, [](const auto& each) { return each->gone(); });
  listeners_.push_back(std::move(listener));
}

bool Audience::all_gone() const {
  return std::ranges::all_of(listeners_, [](const auto& each) { return each->gone(); });
}

// The list may shrink while a client is sent something: its connection fails, and the answer ends.
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
    // Before the first token, the client learns what cannot be verified.
    if (verification_.asked() && !verification_.can()) {
      listener.tell_hearth(verification_.object());
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
  listener.tell(part.choice, part.settled, closing);
}

void Audience::tell_verification() const {
  each([this](Listener& listener) {
    if (listener.streams()) listener.tell_hearth(verification_.object());
  });
}

void Audience::tell_loading(const LoadProgress& progress) const {
  const OrderedJson loading = loading_object(progress);
  each([&loading](Listener& listener) {
    if (listener.streams()) listener.tell_loading(loading);
  });
}

AnswerEnd Audience::end() const {
  return {answer_.usage(), answer_.timings(), closing_()["hearth"]};
}

void Audience::finish(const std::shared_ptr<Listener>& client) const {
  INVARIANT(answer_.settled(), "only a whole answer ends");
  Listener& listener = *client;
  if (listener.gone()) return;
  if (answer_.request().stream) {
    if (!listener.streams()) listener.begin(answer_.identity().headers());
    for (const Answer::Part& part : answer_.parts()) tell(listener, part);
    if (verification_.asked()) listener.tell_hearth(verification_.object());
    return listener.close(end());
  }
  std::vector<ChoicePart> parts;
  for (const Answer::Part& part : answer_.parts()) {
    const Choice& right = verification_.right(part.choice);
    parts.push_back(right.part(0));
    parts.back().finish_reason = right.finish_reason();
  }
  Make make = [writer = listener.answer_writer(), parts = std::move(parts), end = end(),
               headers = answer_.identity().headers()] {
    HttpResponse whole = json_response(writer->whole(parts, end));
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
