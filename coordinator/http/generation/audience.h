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

// Listener: one client of an answer, and how much of the answer it has received. Its AnswerWriter
// turns choices into the events of a stream.
class Listener {
 public:
  // `place`: the part that the client already has. `with_ids`: its events have ids.
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
  // From now on, nothing is called when the client leaves.
  void ignore_departure() { writer_->on_gone(nullptr); }

  // The head of a stream; once.
  void begin(HeaderFields headers);
  bool streams() const { return streams_; }
  // Sends the new part of a choice; with `ended` also its end, with the keys of `closing`.
  void tell(const Choice& choice, bool ended, const OrderedJson& closing);
  bool has_end(const Choice& choice) const {
    return place_.told[choice.index()] > choice.tokens() + 1;
  }
  // Sends an event about the model that is being loaded.
  void tell_loading(const OrderedJson& loading) { send(answer_->tell_loading(loading), false); }
  // Sends the hearth object by itself.
  void tell_hearth(const OrderedJson& hearth) { send(answer_->tell_hearth(hearth)); }
  // Ends the stream.
  void close(const AnswerEnd& end);
  // The writer for a whole answer; it outlives the listener.
  std::shared_ptr<const AnswerWriter> answer_writer() const { return answer_; }
  // Sends an error, in the stream or instead of an answer.
  void fail(const ApiError& error);
  // Breaks off a stream, so that its client reconnects for the rest.
  void interrupt() {
    if (!gone_) writer_->finish_stream(true);
  }

 private:
  // Sends events together; the last one has the id of the place that the client then has.
  void send(const StreamEvents& events, bool with_id = true);

  std::shared_ptr<ResponseWriter> writer_;
  std::shared_ptr<AnswerWriter> answer_;
  EventId place_;
  const bool with_ids_;
  bool streams_ = false;
  bool gone_ = false;
};

// Audience: sends each client what it has not received yet. A client that leaves meanwhile changes
// nothing for the others.
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

  // Makes a listener for a client that already has the answer up to `seen`. Nothing is sent yet,
  // and it is not part of the audience yet.
  std::shared_ptr<Listener> make(std::shared_ptr<ResponseWriter> writer,
                                 std::optional<EventId> seen) const;
  void add(std::shared_ptr<Listener> listener);
  bool all_gone() const;

  // Sends streams the tokens that there are; nothing to clients of a whole answer.
  void tell(Listener& listener) const;
  void tell_all() const;
  void tell_choice(std::uint32_t choice) const;
  void tell_verification() const;                         // to all that stream
  void tell_loading(const LoadProgress& progress) const;  // likewise

  // Sends the rest of the answer, and its end.
  void finish(const std::shared_ptr<Listener>& listener) const;
  void finish_all();
  // Ends every client with the error. `interrupt`: streams break off instead, so that their clients
  // reconnect for the rest.
  void fail_all(const ApiError& error, bool interrupt);
  // Ignores all clients from now on.
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
  // Includes clients that have left, for a while.
  std::vector<std::shared_ptr<Listener>> listeners_;
};

}  // namespace hearth::coordinator::http
