// OwnReferee: the coordinator's referee as an auditor of drawn windows (ledger/PROTOCOL.md, 4). A
// request with a window drawn for it waits here until the referee, which has the whole model, has
// recomputed it. It audits under the cluster key: it seals and opens its result, so that the log
// has the result and its author.
//
// The referee computes one request at a time, and kQueue wait; more are not computed. A plain state
// machine: one thread.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <utility>

#include "base/crypto.h"
#include "base/ids.h"
#include "coordinator/proof/audit_case.h"

namespace hearth::coordinator {

class OwnReferee {
 public:
  using Key = std::pair<ledger::RequestId, Epoch>;  // of the audited request
  static constexpr std::size_t kQueue = 16;
  // Limit for one request; a dispute waits at most that long for the same referee.
  static constexpr std::int64_t kSeconds = 1'200;

  // The share of windows that draws give it, in parts of a million; 0: no referee.
  void set_rate(std::int64_t rate) { rate_ = rate; }
  std::int64_t rate() const { return rate_; }
  // Counts the windows that a draw gave it, and those that it does not compute.
  void selected(std::size_t windows) { counts_.selected += windows; }
  void missed(std::size_t windows, const std::string& why);
  struct Counts {
    std::uint64_t selected = 0;
    std::uint64_t missed = 0;
    std::string why_missed = {};  // reason of the latest missed window
  };
  const Counts& counts() const { return counts_; }

  // False when kQueue wait.
  bool add(const Key& key, ledger::RefereeCase request);
  void drop(const Key& key);  // the ruling is no longer wanted
  std::size_t waiting() const { return waiting_.size() + (asked_ ? 1 : 0); }

  struct Ask {
    std::uint64_t number = 0;
    ledger::RefereeCase request;
  };
  // The next request, when the referee is idle.
  std::optional<Ask> take_ask(std::int64_t now);
  // The request that this answers; nothing for a stale answer.
  std::optional<Key> answered(std::uint64_t number);

 private:
  std::int64_t rate_ = 0;
  Counts counts_;
  std::deque<std::pair<Key, ledger::RefereeCase>> waiting_;
  std::optional<std::pair<std::uint64_t, Key>> asked_;
  std::uint64_t next_ = 1;
};

}  // namespace hearth::coordinator
