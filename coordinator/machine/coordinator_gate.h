// CoordinatorGate: carries calls of the HTTP server's threads to the Coordinator, which belongs to
// the main thread. It tracks the running sequences, so that it can end all of them.
#pragma once

#include <functional>
#include <memory>

#include "coordinator/coordinator.h"

namespace hearth::coordinator {

class CoordinatorGate final : public CoordinatorPort {
 public:
  using Post = std::function<void(std::function<void()>)>;

  // `coordinator` outlives every function posted.
  CoordinatorGate(Coordinator& coordinator, Post post);
  ~CoordinatorGate() override;

  // From any thread.
  void submit(std::vector<Submission> sequences, std::function<void(SubmitAnswer)> done) override;
  void cancel(SequenceId sequence) override;
  void stop(SequenceId sequence, Position position) override;
  void status(std::function<void(SwarmStatus)> done) override;

  // On the main thread: ends every sequence with `why` and refuses every later submission.
  void end_all(const Error& why);

 private:
  struct State;
  class Tracked;
  std::shared_ptr<State> state_;
};

}  // namespace hearth::coordinator
