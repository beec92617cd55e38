#include "coordinator/http/wire/send_watch.h"

#include <algorithm>
#include <utility>

namespace hearth::coordinator::http {

SendWatch::State SendWatch::look(const Sent& sent, TimePoint now) {
  const bool taken = std::exchange(acknowledged_, sent.acknowledged) != sent.acknowledged;
  if (sent.waiting == 0) {
    taken_at_.reset();
    behind_since_.reset();
    stalled_ = false;
    return State::kReads;
  }
  if (taken || !taken_at_) taken_at_ = now;
  if (sent.waiting <= kBehind) {
    behind_since_.reset();
  } else if (!behind_since_) {
    behind_since_ = now;
  }
  const Duration silent = now - *taken_at_;
  const Duration behind = behind_since_ ? now - *behind_since_ : Duration::zero();
  const Duration patience = kPatience + 2 * std::min(sent.round_trip, kRoundTripMost);
  stalled_ = stalled_ || std::max(silent, behind) >= patience || sent.waiting > kFar;
  if (silent >= std::max(gone_, patience)) return State::kGone;
  return stalled_ ? State::kStalled : State::kReads;
}

}  // namespace hearth::coordinator::http
