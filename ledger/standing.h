// Standing: level and escrow of one key, by the rules of ledger/policy.h. Every call passes the
// time (unix seconds, never decreasing); no call reads a clock. Amounts are credits. A call returns
// what it takes or releases, and Books posts it. One thread.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>

#include "ledger/policy.h"

namespace hearth::ledger {

class Standing {
 public:
  Standing() = default;  // for BooksState, which reads all of it
  // `vouched`: the key begins on probation instead of as a newcomer.
  Standing(std::int64_t joined, bool vouched) : joined_(joined), paid_dues_(vouched) {}

  Level level(const Policy& policy, std::int64_t now) const;
  // The audit rate in parts of a million. `first_use`: the key's first window with this program.
  // `pay`: the window's pay, already in escrow; 0 when the window is not paid.
  std::int64_t audit_rate(const Policy& policy, std::int64_t now, bool first_use = false,
                          std::int64_t pay = 0) const;

  // Banned after fraud or equivocation: the key never serves or audits again.
  bool is_tombstoned() const { return tombstoned_; }
  std::int64_t escrow() const { return escrow_; }
  std::int64_t checks() const { return checks_; }                     // a newcomer's right audits
  std::int64_t check_days() const { return days_; }                   // days with such audits
  std::int64_t joined() const { return joined_; }                     // unix seconds
  std::int64_t served() const { return served_; }                     // windows
  std::int64_t audited_right() const { return right_; }               // each fault halves it
  std::int64_t faults(const Policy& policy, std::int64_t now) const;  // in fault_seconds

  void serve(std::int64_t pay, std::int64_t now);  // served a window: its pay goes to escrow
  void was_right();                                // an audit of one of its windows agreed
  // The key audited a window and was right: pay goes to escrow, and a newcomer's checks count up.
  void check(const Policy& policy, std::int64_t pay, std::int64_t now);
  void change(std::int64_t now) { changed_ = now; }  // of driver, build or address

  // The credits that vest() would release now.
  std::int64_t ripe(const Policy& policy, std::int64_t now) const;
  // Releases what has vested: for a newcomer nothing, on probation a part.
  std::int64_t vest(const Policy& policy, std::int64_t now);
  // A fault in a window with this pay. Returns the fine, at most the escrow.
  std::int64_t fault(const Policy& policy, std::int64_t pay, std::int64_t now);
  // Fraud or equivocation. Returns the whole escrow.
  std::int64_t seize();

  Hash256 hash() const;  // of the whole state: equal for equal histories

 private:
  friend class BooksState;

  struct Earned {
    std::int64_t amount = 0;
    std::int64_t time = 0;
    std::int64_t window = 0;   // served() at that time
    bool is_withheld = false;  // probation's part, released when the key is a regular
  };
  void earn(std::int64_t pay, std::int64_t now);
  // The part that vests at this level (not newcomer); nothing before it is due.
  std::optional<std::int64_t> ripe_part(const Policy& policy, Level standing, const Earned& one,
                                        std::int64_t now) const;

  std::int64_t joined_ = 0;  // reset when the key becomes a newcomer again
  bool paid_dues_ = false;
  bool tombstoned_ = false;
  std::int64_t checks_ = 0;  // counted for a newcomer only
  std::int64_t days_ = 0;    // days with a check
  std::int64_t last_day_ = -1;
  std::int64_t served_ = 0;
  std::int64_t right_ = 0;
  std::int64_t changed_ = 0;
  std::int64_t escrow_ = 0;
  std::deque<Earned> earned_;
  std::deque<std::int64_t> faults_;
};

}  // namespace hearth::ledger
