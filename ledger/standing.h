// The standing of one key, and what it has at stake: the rules of ledger/policy.h as they act on
// it. Pure: every call says the time (unix seconds, never going back), nothing asks for it. Amounts
// are credits; what a call takes away or sets free it returns, so that the books balance elsewhere.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>

#include "ledger/policy.h"

namespace hearth::ledger {

class Standing {
 public:
  // Vouched for by the cluster: it begins on probation, without a newcomer's dues.
  Standing(std::int64_t joined, bool vouched) : joined_(joined), paid_dues_(vouched) {}

  Level level(const Policy& policy, std::int64_t now) const;
  // In parts of a million. `first_use`: of this program by this key. `pay`: of the window, which is
  // in escrow by now; 0 where nobody pays.
  std::int64_t audit_rate(const Policy& policy, std::int64_t now, bool first_use = false,
                          std::int64_t pay = 0) const;

  // Fraud or equivocation ended it: it neither serves nor checks again.
  bool is_tombstoned() const { return tombstoned_; }
  std::int64_t escrow() const { return escrow_; }
  std::int64_t checks() const { return checks_; }        // of a newcomer: windows it was right of,
  std::int64_t check_days() const { return days_; }      // on so many days,
  std::int64_t joined() const { return joined_; }        // since then, unix seconds
  std::int64_t served() const { return served_; }        // windows
  std::int64_t audited_right() const { return right_; }  // of them; after faults half, then none
  std::int64_t faults(const Policy& policy, std::int64_t now) const;  // that still count

  void serve(std::int64_t pay, std::int64_t now);  // a window: its pay goes to escrow
  void was_right();                                // an audit of one of its windows agreed
  // It has checked a window and was right: paid as for serving, and a newcomer's dues.
  void check(const Policy& policy, std::int64_t pay, std::int64_t now);
  void change(std::int64_t now) { changed_ = now; }  // of driver, build or address

  // What vest() would set free now.
  std::int64_t ripe(const Policy& policy, std::int64_t now) const;
  // What may be spent from now on. Of a newcomer nothing, on probation a part.
  std::int64_t vest(const Policy& policy, std::int64_t now);
  // Conceded or isolated, of a window with this pay. Returns what it costs, at most its escrow.
  std::int64_t fault(const Policy& policy, std::int64_t pay, std::int64_t now);
  // Fraud or equivocation. Returns the whole escrow.
  std::int64_t seize();

  Hash256 hash() const;  // of all of it: equal for equal histories

 private:
  struct Earned {
    std::int64_t amount = 0;
    std::int64_t time = 0;
    std::int64_t window = 0;   // how many it had served then
    bool is_withheld = false;  // the part of probation that waits for a regular's standing
  };
  void earn(std::int64_t pay, std::int64_t now);
  // What of it may be spent, by who is no newcomer; nothing before it is ripe.
  std::optional<std::int64_t> ripe_part(const Policy& policy, Level standing, const Earned& one,
                                        std::int64_t now) const;

  std::int64_t joined_ = 0;  // or since it was made a newcomer again
  bool paid_dues_ = false;
  bool tombstoned_ = false;
  std::int64_t checks_ = 0;  // of a newcomer
  std::int64_t days_ = 0;    // on which it checked
  std::int64_t last_day_ = -1;
  std::int64_t served_ = 0;
  std::int64_t right_ = 0;
  std::int64_t changed_ = 0;
  std::int64_t escrow_ = 0;
  std::deque<Earned> earned_;
  std::deque<std::int64_t> faults_;
};

}  // namespace hearth::ledger
