// Listener: one client of an answer, and how much of it the client was sent. It turns choices into
// the events of a stream. Socket thread only.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "coordinator/http/api/response_writer.h"
#include "coordinator/http/generation/event_id.h"
#include "coordinator/http/openai/choice.h"
#include "coordinator/http/openai/errors.h"
#include "coordinator/http/openai/responses.h"

namespace hearth::coordinator::http {

class Listener {
 public:
  Listener(std::shared_ptr<ResponseWriter> writer, std::size_t choices)
      : writer_(std::move(writer)) {
    place_.told.resize(choices);
  }

  // Its events carry ids; `place`: what the client has already.
  void resumable(EventId place) {
    place_ = std::move(place);
    with_ids_ = true;
  }
  bool gone() const { return gone_; }
  void leave() { gone_ = true; }
  // The whole answer, instead of a stream.
  void respond(HttpResponse response) { writer_->respond(std::move(response)); }
  // Nothing is called when the client leaves from here on.
  void ignore_departure() { writer_->on_gone(nullptr); }

  // The head of a stream; once.
  void begin(HeaderFields headers);
  bool streams() const { return streams_; }
  // Sends what is new of a choice; with `ended` its end, too, with the keys of `closing`.
  void tell(const AnswerHead& head, const Choice& choice, bool ended, OrderedJson closing,
            const model::Tokenizer& tokenizer);
  bool has_end(const Choice& choice) const {
    return place_.told[choice.index()] > choice.tokens() + 1;
  }
  // Sends a chunk with the hearth object.
  void tell_hearth(const AnswerHead& head, OrderedJson hearth);
  // Ends the stream; `usage`: where it was requested.
  void close(const AnswerHead& head, const std::optional<Usage>& usage);
  // Sends an error, in the stream or instead of an answer.
  void fail(const ApiError& error);
  // Breaks off a stream, so that its client comes back for the rest.
  void interrupt();

 private:
  void send(const OrderedJson& event);

  std::shared_ptr<ResponseWriter> writer_;
  EventId place_;
  bool with_ids_ = false;
  bool streams_ = false;
  bool gone_ = false;
};

}  // namespace hearth::coordinator::http
