#include "coordinator/machine/coordinator_gate.h"

#include <optional>
#include <unordered_map>
#include <utility>

#include "coordinator/machine/passed_events.h"

namespace hearth::coordinator {

// The main thread only, but for `post`.
struct CoordinatorGate::State {
  Coordinator& coordinator;
  Post post;
  std::unordered_map<SequenceId, std::shared_ptr<Tracked>> running;
  std::optional<Error> ended;  // why nothing is accepted any more
};

// Passes a sequence's events on and notices its end.
class CoordinatorGate::Tracked final : public PassedEvents {
 public:
  Tracked(State& state, std::shared_ptr<SequenceEvents> events)
      : PassedEvents(std::move(events)), state_(state) {}

  void on_token(const SampledToken& token) override {
    const auto events = owner();
    if (token.finish != FinishReason::kNone) forget();
    events->on_token(token);
  }
  void on_hashes(std::vector<RowHash> hashes) override {
    const auto events = owner();
    if (stopped) forget();
    events->on_hashes(std::move(hashes));
  }
  void on_error(const Error& error) override {
    const auto events = owner();
    forget();
    events->on_error(error);
  }

  SequenceId id;  // set once it is accepted
  bool over = false;
  bool stopped = false;  // hashes are its last event

 private:
  void forget() {
    over = true;
    state_.running.erase(id);  // the caller holds us
  }
  State& state_;
};

CoordinatorGate::CoordinatorGate(Coordinator& coordinator, Post post)
    : state_(new State{coordinator, std::move(post), {}, {}}) {}

CoordinatorGate::~CoordinatorGate() = default;

void CoordinatorGate::submit(std::vector<Submission> sequences,
                             std::function<void(SubmitAnswer)> done) {
  state_->post(
      [state = state_, sequences = std::move(sequences), done = std::move(done)]() mutable {
        if (state->ended) {
          SubmitAnswer refusal;
          refusal.sequences = *state->ended;
          return done(std::move(refusal));
        }
        std::vector<std::shared_ptr<Tracked>> tracked;
        for (Submission& one : sequences) {
          tracked.push_back(std::make_shared<Tracked>(*state, std::move(one.events)));
          one.events = tracked.back();
        }
        SubmitAnswer answer = state->coordinator.submit(std::move(sequences));
        for (std::size_t i = 0; answer.sequences.ok() && i < tracked.size(); ++i) {
          if (tracked[i]->over) continue;
          tracked[i]->id = (*answer.sequences)[i];
          state->running.emplace(tracked[i]->id, tracked[i]);
        }
        done(std::move(answer));
      });
}

void CoordinatorGate::cancel(SequenceId sequence) {
  state_->post([state = state_, sequence] {
    state->running.erase(sequence);
    state->coordinator.cancel(sequence);
  });
}

void CoordinatorGate::stop(SequenceId sequence, Position position) {
  state_->post([state = state_, sequence, position] {
    if (const auto found = state->running.find(sequence); found != state->running.end()) {
      found->second->stopped = true;
    }
    state->coordinator.stop(sequence, position);
  });
}

void CoordinatorGate::status(std::function<void(SwarmStatus)> done) {
  state_->post([state = state_, done = std::move(done)] { done(state->coordinator.status()); });
}

void CoordinatorGate::end_all(const Error& why) {
  state_->ended = why;
  const auto running = std::exchange(state_->running, {});
  for (const auto& [sequence, events] : running) {
    state_->coordinator.cancel(sequence);
    events->on_error(why);
  }
}

}  // namespace hearth::coordinator
