// Audience: the clients of one answer. Each is told what it has not been told before; a client that
// leaves in the middle of that changes nothing for the others. Socket thread only.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "coordinator/http/generation/answer.h"
#include "coordinator/http/generation/listener.h"
#include "coordinator/http/generation/verification.h"

namespace hearth::coordinator::http {

class Audience {
 public:
  // All of them outlive the audience. `closing`: keys that the last chunk of a stream carries, and
  // a whole answer.
  Audience(const Answer& answer, const Verification& verification,
           std::shared_ptr<const model::Tokenizer> tokenizer, std::function<OrderedJson()> closing)
      : answer_(answer),
        verification_(verification),
        tokenizer_(std::move(tokenizer)),
        closing_(std::move(closing)) {}

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
  void tell_verification() const;  // to all that stream

  // The rest of the answer, and its end.
  void finish(Listener& listener) const;
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
  std::vector<std::shared_ptr<Listener>> take();

  const Answer& answer_;
  const Verification& verification_;
  std::shared_ptr<const model::Tokenizer> tokenizer_;
  std::function<OrderedJson()> closing_;
  std::vector<std::shared_ptr<Listener>> listeners_;  // those that have gone, too, for a while
};

}  // namespace hearth::coordinator::http
