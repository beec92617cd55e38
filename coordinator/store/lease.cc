#include "coordinator/store/lease.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace hearth::coordinator {
namespace {

// For which a leader counts on a standby that the store has shown. A step of the store's clock may
// hide one for a moment.
constexpr auto kStandbyMemory = std::chrono::seconds(10);

}  // namespace

LeaseCandidate::LeaseCandidate(std::string id, const Clock& clock, const LeaseTimes& times)
    : id_(std::move(id)), clock_(clock), times_(times), next_(clock.now()) {
  INVARIANT(!id_.empty(), "a holder has an id");
  INVARIANT(times_.renew + times_.retry < times_.lease, "a lease is renewed before it ends");
}

bool LeaseCandidate::holds() const { return may_act() && clock_.now() < until_; }

bool LeaseCandidate::leads() const { return may_act() && (!has_standbys_ || holds()); }

Duration LeaseCandidate::left() const {
  const TimePoint ends = is_leader_ ? until_ : seen_ ? seen_->ends : clock_.now();
  return ends - clock_.now();
}

// A leader whose lease has ended does not lead under the same epoch again: it takes the next one.
void LeaseCandidate::settle() {
  if (!may_act() || leads()) return;
  is_leader_ = false;
  seen_.reset();
  INVARIANT(!holds(), "a standby holds nothing");
}

LeaseQuestion LeaseCandidate::question() const {
  if (is_releasing_ || is_giving_) return {LeaseAsk::kRelease, is_leader_ ? epoch_ : 0};
  if (is_leader_) return {LeaseAsk::kRenew, epoch_};
  if (seen_ && clock_.now() >= std::max(seen_->ends, yields_until_)) {
    return {LeaseAsk::kTake, seen_->epoch, seen_->renewed, seen_->holder};
  }
  return {LeaseAsk::kWatch, 0};
}

std::optional<LeaseQuestion> LeaseCandidate::next() {
  settle();
  if (asked_ || is_over_) return std::nullopt;
  if (!is_releasing_ && !is_giving_ && clock_.now() < next_) return std::nullopt;
  asked_ = question();
  asked_at_ = clock_.now();
  const bool takes = asked_->kind == LeaseAsk::kTake;
  if (takes && (!take_ || take_->epoch != asked_->epoch)) take_ = {asked_->epoch, asked_at_};
  return asked_;
}

TimePoint LeaseCandidate::wake_at() const {
  return is_leader_ && has_standbys_ ? std::min(next_, until_) : next_;
}

void LeaseCandidate::on_notice() { next_ = clock_.now(); }

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
    seen_.reset();
    yields_until_ = clock_.now() + times_.lease;
  } else if (answer.ok() && answer->epoch >= newest_) {
    on_view(asked, *answer);
  } else if (answer.ok()) {
    has_standbys_ = true;  // an older copy of the store: a coordinator that follows it may lead
  }
  settle();
}

void LeaseCandidate::observe(const LeaseView& view) {
  const TimePoint now = clock_.now();
  const bool is_known = seen_ && seen_->epoch == view.epoch && seen_->holder == view.holder &&
                        seen_->renewed == view.renewed;
  if (!is_known) seen_ = {view.epoch, view.holder, view.renewed, now, now};
  seen_->ends = seen_->since + view.lasts;
}

void LeaseCandidate::on_view(const LeaseQuestion& asked, const LeaseView& view) {
  const TimePoint now = clock_.now();
  newest_ = view.epoch;
  if (!view.standbys.empty()) counts_standby_until_ = now + kStandbyMemory;
  has_standbys_ = now < counts_standby_until_;
  const bool is_ours = view.holder == id_;
  if (!is_ours || view.epoch != epoch_) is_leader_ = false;  // deposed
  if (is_leader_) {
    INVARIANT(asked.kind == LeaseAsk::kRenew && asked.epoch == epoch_, "a leader renews");
    until_ = std::max(until_, asked_at_ + times_.held());
    next_ = now + times_.renew;
    return;
  }
  // Also a take whose answer was lost shows as ours.
  if (take_ && is_ours && view.epoch == take_->epoch + 1 && take_->asked + times_.held() > now) {
    until_ = take_->asked + times_.held();
    return lead(view);
  }
  const bool is_known = asked.kind == LeaseAsk::kTake || !take_ || view.epoch != take_->epoch;
  if (is_known) take_.reset();
  observe(view);
  next_ = std::min(now + times_.watch, std::max(seen_->ends, yields_until_));
  // A take that came too early, or that another coordinator has won, is not repeated at once.
  if (asked.kind == LeaseAsk::kTake) next_ = std::max(next_, now + times_.retry);
}

void LeaseCandidate::lead(const LeaseView& view) {
  INVARIANT(view.epoch > epoch_, "a coordinator leads in each epoch once");
  INVARIANT(view.holder == id_, "a lease has one holder");
  epoch_ = view.epoch;
  is_leader_ = true;
  take_.reset();
  next_ = std::min(clock_.now() + times_.renew, until_ - times_.held() / 2);
  seen_.reset();
}

}  // namespace hearth::coordinator
