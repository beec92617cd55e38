// Listener: one client of a generation, and how far it has been told. Turns choices into the events
// of a stream. Socket thread only.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "coordinator/http/api/exchange.h"
#include "coordinator/http/generation/event_id.h"
#include "coordinator/http/openai/choice.h"
#include "coordinator/http/openai/errors.h"
#include "coordinator/http/openai/responses.h"

namespace hearth::coordinator::http {

class Listener {
 public:
  Listener(std::shared_ptr<Exchange> exchange, std::size_t choices)
      : exchange_(std::move(exchange)) {
    place_.told.resize(choices);
  }

  // Its events carry ids, and it has been told so far already.
  void resumable(EventId place) {
    place_ = std::move(place);
    with_ids_ = true;
  }
  bool gone() const { return gone_; }
  void leave() { gone_ = true; }
  Exchange& exchange() { return *exchange_; }

  // The head of a stream; once.
  void begin(HeaderFields headers);
  bool streams() const { return streams_; }
  // What it has not been told of a choice; with `ended` its end, too, and then `closing`, keys of
  // the last chunk.
  void tell(const AnswerHead& head, const Choice& choice, bool ended, OrderedJson closing,
            const model::Tokenizer& tokenizer);
  bool has_end(const Choice& choice) const {
    return place_.told[choice.index()] > choice.tokens() + 1;
  }
  // What is said of the answer beside its choices.
  void tell_hearth(const AnswerHead& head, OrderedJson hearth);
  // The end of the stream; `usage` where it was asked for.
  void close(const AnswerHead& head, const std::optional<Usage>& usage);
  // One error, in the stream or instead of an answer.
  void fail(const ApiError& error);
  // Ends a stream in the middle, so that its client comes back for the rest.
  void interrupt();

 private:
  void send(const OrderedJson& event);

  std::shared_ptr<Exchange> exchange_;
  EventId place_;
  bool with_ids_ = false;
  bool streams_ = false;
  bool gone_ = false;
};

}  // namespace hearth::coordinator::http
