// A generation whose clients do not read: its sequences give their KV back, and go on from the
// tokens that there are when one of them does. One in the background does the same for others of
// its owner, and goes on behind them.
#include <algorithm>

#include "coordinator/http/generation/generation.h"

namespace hearth::coordinator::http {

void Generation::stall(Listener& listener, bool stalled) {
  listener.stall(stalled);
  follow_readers();
}

void Generation::follow_readers() {
  if (ended_) return;
  const bool read = std::any_of(listeners_.begin(), listeners_.end(),
                                [](const auto& listener) { return listener->reads(); });
  if (read != set_aside_) return;
  read ? go_on() : set_aside();
}

// With credits nothing is set back, for what is computed again would be paid again: who can come
// back to his answer finds it whole, and who cannot has hung up.
void Generation::set_aside() {
  if (api_->options.credits) {
    if (input_.keep) return;
    return fail(from_coordinator({ErrorCode::kTimeout, "the client does not read its answer"}, 1));
  }
  set_aside_ = true;
  for (Running& running : running_) set_back(running);
}

// What waits for its turn has no KV and keeps its place; what waits for hashes ends by itself.
void Generation::set_back(Running& running) {
  if (!running.submitted || !running.admitted_here || running.settled || running.stopped) return;
  api_->port.cancel(running.sequence);
  running.submitted = running.asked = running.admitted_here = false;
  ++running.set_backs;
}

// The queue may be full just now; what was let in is not refused for it.
void Generation::wait_for_room() {
  patience_ =
      std::max(patience_, api_->clock.now() + std::chrono::seconds(api_->options.timeouts.resume));
}

// At the end of the queue: who did not read has no claim on those who wait.
void Generation::go_on() {
  set_aside_ = false;
  const bool often = std::any_of(running_.begin(), running_.end(), [](const Running& running) {
    return !running.settled && running.set_backs > kSetBacksMost;
  });
  if (often) return fail(from_coordinator({ErrorCode::kTimeout, "the client reads too slowly"}, 1));
  wait_for_room();
  for (std::uint32_t index = 0; index < running_.size() && !ended_; ++index) {
    if (!running_[index].settled && !running_[index].asked) submit_choice(index);
  }
}

// Its owner's next one, which somebody watches, takes its place.
void Generation::on_yield(std::uint32_t index) {
  Running& running = running_[index];
  if (ended_ || set_aside_) return;
  set_back(running);
  if (running.asked) return;  // it is ending
  ++running.yields;
  wait_for_room();
  submit_choice(index);
}

}  // namespace hearth::coordinator::http
