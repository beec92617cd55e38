#include "ledger/standing.h"

#include <algorithm>
#include <utility>

#include "base/bytes.h"
#include "base/check.h"

namespace hearth::ledger {
namespace {

constexpr std::int64_t kChanceDay = 24 * 3'600;

}  // namespace

Level Standing::level(const Policy& policy, std::int64_t now) const {
  if (!paid_dues_) return Level::kNewcomer;
  if (right_ < policy.regular_windows) return Level::kProbation;
  const bool old = now - joined_ >= policy.veteran_seconds;
  return old && right_ >= policy.veteran_windows ? Level::kVeteran : Level::kRegular;
}

std::int64_t Standing::audit_rate(const Policy& policy, std::int64_t now, bool first_use,
                                  std::int64_t pay) const {
  if (first_use) return kMillion;
  std::int64_t rate = kMillion;
  switch (level(policy, now)) {
    case Level::kNewcomer: return kMillion;
    case Level::kProbation:
      if (served_ < policy.probation_full_windows) return kMillion;
      rate = policy.probation_rate;
      break;
    case Level::kRegular:
      rate = std::max(policy.regular_rate_floor,
                      policy.regular_rate_product * kMillion / std::max<std::int64_t>(right_, 1));
      break;
    case Level::kVeteran: rate = policy.veteran_rate; break;
  }
  if (changed_ > 0 && now - changed_ < policy.change_seconds) rate *= policy.change_factor;
  return std::min(std::max(rate, stake_rate(policy, pay, escrow_)), kMillion);
}

std::int64_t Standing::faults(const Policy& policy, std::int64_t now) const {
  return std::count_if(faults_.begin(), faults_.end(),
                       [&](std::int64_t time) { return now - time < policy.fault_seconds; });
}

void Standing::earn(std::int64_t pay, std::int64_t now) {
  if (pay == 0) return;
  escrow_ += pay;
  earned_.push_back({pay, now, served_, false});
}

void Standing::serve(std::int64_t pay, std::int64_t now) {
  ++served_;
  earn(pay, now);
}

void Standing::was_right() { ++right_; }

void Standing::check(const Policy& policy, std::int64_t pay, std::int64_t now) {
  earn(pay, now);
  if (paid_dues_) return;
  ++checks_;
  if (now / kChanceDay != last_day_) {
    last_day_ = now / kChanceDay;
    ++days_;
  }
  paid_dues_ = checks_ >= policy.newcomer_audits && days_ >= policy.newcomer_days &&
               now - joined_ >= policy.newcomer_seconds;
}

std::optional<std::int64_t> Standing::ripe_part(const Policy& policy, Level standing,
                                                const Earned& one, std::int64_t now) const {
  const std::int64_t age = now - one.time;
  const bool behind = served_ - one.window >= policy.escrow_windows;
  const bool is_old = age >= std::max(policy.escrow_seconds, policy.audit_seconds);
  if (!is_old || !(behind || age >= policy.escrow_idle_seconds)) return std::nullopt;
  if (standing != Level::kProbation) return one.amount;
  if (one.is_withheld) return std::nullopt;
  return one.amount - one.amount * policy.probation_withheld / kMillion;
}

std::int64_t Standing::ripe(const Policy& policy, std::int64_t now) const {
  const Level standing = level(policy, now);
  if (tombstoned_ || standing == Level::kNewcomer) return 0;
  std::int64_t freed = 0;
  for (const Earned& one : earned_) freed += ripe_part(policy, standing, one, now).value_or(0);
  return freed;
}

std::int64_t Standing::vest(const Policy& policy, std::int64_t now) {
  const Level standing = level(policy, now);
  if (tombstoned_ || standing == Level::kNewcomer) return 0;
  std::int64_t freed = 0;
  std::deque<Earned> kept;
  for (const Earned& one : earned_) {
    const std::optional<std::int64_t> free = ripe_part(policy, standing, one, now);
    if (!free) {
      kept.push_back(one);
      continue;
    }
    freed += *free;
    const std::int64_t withheld = one.amount - *free;
    if (withheld > 0) kept.push_back({withheld, one.time, one.window, true});
  }
  earned_ = std::move(kept);
  escrow_ -= freed;
  return freed;
}

std::int64_t Standing::fault(const Policy& policy, std::int64_t pay, std::int64_t now) {
  const std::int64_t cost = std::min(escrow_, policy.fault_windows * pay);
  std::int64_t left = cost;
  while (left > 0) {  // latest first: a cheat expects to keep the latest longest
    INVARIANT(!earned_.empty(), "escrow is the sum of what was earned");
    Earned& last = earned_.back();
    const std::int64_t taken = std::min(left, last.amount);
    last.amount -= taken;
    left -= taken;
    if (last.amount == 0) earned_.pop_back();
  }
  escrow_ -= cost;
  right_ /= 2;
  while (!faults_.empty() && now - faults_.front() >= policy.fault_seconds) faults_.pop_front();
  faults_.push_back(now);
  if (static_cast<std::int64_t>(faults_.size()) >= policy.fault_limit) {
    paid_dues_ = false;
    joined_ = now;
    checks_ = days_ = right_ = served_ = 0;
    last_day_ = -1;
    for (Earned& one : earned_) one.window = 0;
    faults_.clear();
  }
  return cost;
}

std::int64_t Standing::seize() {
  tombstoned_ = true;
  earned_.clear();
  return std::exchange(escrow_, 0);
}

Hash256 Standing::hash() const {
  Bytes all;
  ByteWriter writer(all);
  for (const std::int64_t value :
       {joined_, checks_, days_, last_day_, served_, right_, changed_, escrow_}) {
    writer.write(value);
  }
  writer.write(static_cast<std::uint8_t>(paid_dues_ ? 1 : 0));
  writer.write(static_cast<std::uint8_t>(tombstoned_ ? 1 : 0));
  writer.write(static_cast<std::uint64_t>(earned_.size()));
  for (const Earned& one : earned_) {
    writer.write(one.amount);
    writer.write(one.time);
    writer.write(one.window);
    writer.write(static_cast<std::uint8_t>(one.is_withheld ? 1 : 0));
  }
  for (const std::int64_t time : faults_) writer.write(time);
  return blake2b(all);
}

}  // namespace hearth::ledger
