// The clients of one answer. Socket thread only.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "coordinator/http/api/response_writer.h"
#include "coordinator/http/generation/answer.h"
#include "coordinator/http/generation/event_id.h"
#include "coordinator/http/generation/verification.h"

namespace hearth::coordinator::http {

// Listener: one client of an answer, and how much of it the client was sent. Its AnswerWriter turns
// choices into the events of a stream.
class Listener {
 public:
  // `place`: what the client has already. `with_ids`: its events carry ids.
  Listener(std::shared_ptr<ResponseWriter> writer, std::shared_ptr<AnswerWriter> answer,
           EventId place, bool with_ids)
      : writer_(std::move(writer)),
        answer_(std::move(answer)),
        place_(std::move(place)),
        with_ids_(with_ids) {}

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
  void tell(const Choice& choice, bool ended, const OrderedJson& closing);
  bool has_end(const Choice& choice) const {
    return place_.told[choice.index()] > choice.tokens() + 1;
  }
  // Sends what is waited for while the model is not loaded.
  void tell_loading(const OrderedJson& loading) { send(answer_->tell_loading(loading), false); }
  // Sends the hearth object by itself.
  void tell_hearth(const OrderedJson& hearth) { send(answer_->tell_hearth(hearth)); }
  // Ends the stream.
  void close(const AnswerEnd& end);
  // Of a whole answer; it outlives the listener.
  std::shared_ptr<const AnswerWriter> answer_writer() const { return answer_; }
  // Sends an error, in the stream or instead of an answer.
  void fail(const ApiError& error);
  // Breaks off a stream, so that its client comes back for the rest.
  void interrupt() {
    if (!gone_) writer_->finish_stream(true);
  }

 private:
  // Sends them together; the last one carries the id of what the client has then.
  void send(const StreamEvents& events, bool with_id = true);

  std::shared_ptr<ResponseWriter> writer_;
  std::shared_ptr<AnswerWriter> answer_;
  EventId place_;
  const bool with_ids_;
  bool streams_ = false;
  bool gone_ = false;
};

// Audience: each client is told what it has not been told before; a client that leaves in the
// middle of that changes nothing for the others.
class Audience {
 public:
  // All of them outlive the audience. `closing`: keys that the last chunk of a stream carries, and
  // a whole answer. `elsewhere`: makes a large whole answer on another thread, and hands it over on
  // the socket thread.
  using Make = std::function<HttpResponse()>;
  using Take = std::function<void(HttpResponse)>;
  Audience(const Answer& answer, const Verification& verification,
           std::function<OrderedJson()> closing, std::function<void(Make, Take)> elsewhere)
      : answer_(answer),
        verification_(verification),
        closing_(std::move(closing)),
        elsewhere_(std::move(elsewhere)) {}

  // A client that has seen so much already. It is told nothing yet, and is not part of the
  // audience.
  std::shared_ptr<Listener> make(std::shared_ptr<ResponseWriter> writer,
                                 std::optional<EventId> seen) const;
  void add(std::shared_ptr<Listener> listener);
  bool all_gone() const;

  // Of a stream what there is; nothing to clients of a whole answer.
  void tell(Listener& listener) const;
  void tell_all() const;
  void tell_choice(std::uint32_t choice) const;
  void tell_verification() const;                         // to all that stream
  void tell_loading(const LoadProgress& progress) const;  // likewise

  // The rest of the answer, and its end.
  void finish(const std::shared_ptr<Listener>& listener) const;
  void finish_all();
  // Ends every client with the error. `interrupt`: streams break off instead, so that their clients
  // come back for the rest.
  void fail_all(const ApiError& error, bool interrupt);
  // Takes no notice of them from here on.
  void dismiss() { static_cast<void>(take()); }

 private:
  template <typename Function>
  void each(const Function& function) const;
  void tell(Listener& listener, const Answer::Part& part) const;
  AnswerEnd end() const;
  std::vector<std::shared_ptr<Listener>> take();

  const Answer& answer_;
  const Verification& verification_;
  std::function<OrderedJson()> closing_;
  std::function<void(Make, Take)> elsewhere_;
  std::vector<std::shared_ptr<Listener>> listeners_;  // those that have gone, too, for a while
};

}  // namespace hearth::coordinator::http
