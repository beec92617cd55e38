#include "coordinator/store/lease.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace hearth::coordinator {

LeaseCandidate::LeaseCandidate(std::string id, const Clock& clock, const LeaseTimes& times)
    : id_(std::move(id)), clock_(clock), times_(times), next_(clock.now()) {
  INVARIANT(!id_.empty(), "a holder has an id");
  INVARIANT(times_.renew + times_.retry < times_.lease, "a lease is renewed before it ends");
}

bool LeaseCandidate::holds() const { return may_act() && clock_.now() < until_; }

bool LeaseCandidate::leads() const { return may_act() && (!has_standbys_ || holds()); }

// A leader whose lease has ended does not lead under the same epoch again: it takes the next one.
void LeaseCandidate::settle() {
  if (!may_act() || leads()) return;
  is_leader_ = false;
  ends_.reset();
  INVARIANT(!holds(), "a standby holds nothing");
}

LeaseQuestion LeaseCandidate::question() const {
  if (is_releasing_ || is_giving_) return {LeaseAsk::kRelease, is_leader_ ? epoch_ : 0};
  if (is_leader_) return {LeaseAsk::kRenew, epoch_};
  if (ends_ && clock_.now() >= *ends_) return {LeaseAsk::kTake, newest_};
  return {LeaseAsk::kWatch, 0};
}

std::optional<LeaseQuestion> LeaseCandidate::next() {
  settle();
  if (asked_ || is_over_) return std::nullopt;
  if (!is_releasing_ && !is_giving_ && clock_.now() < next_) return std::nullopt;
  asked_ = question();
  asked_at_ = clock_.now();
  return asked_;
}

TimePoint LeaseCandidate::wake_at() const {
  return is_leader_ && has_standbys_ ? std::min(next_, until_) : next_;
}

void LeaseCandidate::on_notice() { next_ = std::max(clock_.now(), yields_until_); }

void LeaseCandidate::release() { is_releasing_ = true; }

void LeaseCandidate::give_back() { is_giving_ = is_leader_; }

void LeaseCandidate::on_answer(const Result<LeaseView>& answer) {
  INVARIANT(asked_.has_value(), "an answer has a question");
  const LeaseQuestion asked = *std::exchange(asked_, std::nullopt);
  next_ = clock_.now() + times_.retry;
  if (asked.kind == LeaseAsk::kRelease && !std::exchange(is_giving_, false)) {
    is_leader_ = false;
    is_over_ = true;
  } else if (asked.kind == LeaseAsk::kRelease) {
    is_leader_ = false;
    is_over_ = is_releasing_;  // also released while the answer was on its way
    ends_.reset();
    next_ = yields_until_ = clock_.now() + times_.lease;
  } else if (answer.ok() && answer->epoch >= newest_) {  // else it is an older copy of the store
    on_view(asked, *answer);
  }
  settle();
}

void LeaseCandidate::on_view(const LeaseQuestion& asked, const LeaseView& view) {
  const TimePoint now = clock_.now();
  newest_ = view.epoch;
  has_standbys_ = !view.standbys.empty();
  const bool is_ours = view.holder == id_;
  if (!is_ours || view.epoch != epoch_) is_leader_ = false;  // deposed
  if (is_leader_) {
    INVARIANT(asked.kind == LeaseAsk::kRenew && asked.epoch == epoch_, "a leader renews");
    until_ = std::max(until_, asked_at_ + view.left);
    next_ = now + times_.renew;
    return;
  }
  // Also a take whose answer was lost shows as ours.
  if (is_ours && view.epoch > epoch_ && asked_at_ + view.left > now) return lead(view);
  ends_ = now + std::max(view.left, Duration(0));
  next_ = std::min(now + times_.watch, *ends_);
  // A take that came too early, or that another coordinator has won, is not repeated at once.
  if (asked.kind == LeaseAsk::kTake) next_ = std::max(next_, now + times_.retry);
}

void LeaseCandidate::lead(const LeaseView& view) {
  INVARIANT(view.epoch > epoch_, "a coordinator leads in each epoch once");
  INVARIANT(view.holder == id_, "a lease has one holder");
  epoch_ = view.epoch;
  is_leader_ = true;
  until_ = asked_at_ + view.left;
  next_ = std::min(clock_.now() + times_.renew, until_ - view.left / 2);
  ends_.reset();
}

}  // namespace hearth::coordinator
