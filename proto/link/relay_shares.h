// RelayShares: divides the bytes a second of a relay among the nodes whose links it forwards. Each
// active node gets an equal share. A node is active if it moved more than a sixteenth of its part
// of the rate in the last second: links that only show that they are open take no share from
// others, and all of them together exceed the rate by a sixteenth at most.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "base/check.h"
#include "base/clock.h"

namespace hearth {

// One thread.
class RelayShares {
 public:
  explicit RelayShares(std::uint64_t bytes_per_second)
      : rate_(static_cast<double>(bytes_per_second)) {
    INVARIANT(bytes_per_second > 0, "a relay forwards something");
  }

  // How long a node must wait before it may move bytes; 0: now.
  Duration wait(const std::string& node, TimePoint now) {
    Account& account = refilled(node, now);
    if (account.bytes >= 0.0) return Duration{0};
    const double seconds = -account.bytes / share(now);
    return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds)) +
           std::chrono::microseconds(1);
  }
  // Bytes that were moved. The debt of one large move delays the next one.
  void spend(const std::string& node, std::size_t bytes, TimePoint now) {
    Account& account = refilled(node, now);
    account.bytes -= static_cast<double>(bytes);
    const std::int64_t window = now / kWindow;
    if (window != account.window) {
      account.moved_before = window - account.window == 1 ? account.moved : 0.0;
      account.moved = 0.0;
      account.window = window;
    }
    account.moved += static_cast<double>(bytes);
  }
  // How many bytes to move at a time, so that no move delays the next one for long.
  std::size_t piece(TimePoint now) const {
    return static_cast<std::size_t>(std::max(kLeastPiece, share(now) * kBurstSeconds));
  }
  // The node's last link has ended. Its debt stays until it would be paid.
  void forget(const std::string& node, TimePoint now) {
    const auto found = accounts_.find(node);
    if (found != accounts_.end()) found->second.left = true;
    for (auto& [name, account] : accounts_) refill(account, now);
    std::erase_if(accounts_,
                  [](const auto& entry) { return entry.second.left && entry.second.bytes >= 0.0; });
  }
  std::size_t size() const { return accounts_.size(); }

 private:
  static constexpr Duration kWindow = std::chrono::milliseconds(500);
  static constexpr double kLight = 1.0 / 16.0;
  static constexpr double kBurstSeconds = 0.02;    // of a share that may be saved up
  static constexpr double kLeastPiece = 16'384.0;  // bytes: a TLS record

  struct Account {
    double bytes = 0.0;  // that it may move at once; below 0: a debt
    TimePoint filled_at{};
    std::int64_t window = 0;    // the half second in which it moved bytes last
    double moved = 0.0;         // bytes, in that window
    double moved_before = 0.0;  // and in the one before
    bool left = false;          // it has no link
  };

  // Bytes in the last half second to second.
  static double recent(const Account& account, TimePoint now) {
    const std::int64_t since = now / kWindow - account.window;
    if (since == 0) return account.moved + account.moved_before;
    return since == 1 ? account.moved : 0.0;
  }

  double share(TimePoint now) const {
    const double light = kLight * rate_ / static_cast<double>(accounts_.size());
    const auto active = std::ranges::count_if(
        accounts_, [&](const auto& entry) { return recent(entry.second, now) > light; });
    return rate_ / static_cast<double>(std::max<std::ptrdiff_t>(1, active));
  }

  Account& refilled(const std::string& node, TimePoint now) {
    const auto [found, added] = accounts_.try_emplace(node);
    Account& account = found->second;
    if (added) account.filled_at = now;
    account.left = false;
    refill(account, now);
    return account;
  }

  void refill(Account& account, TimePoint now) const {
    const double share_now = share(now);
    const double seconds = std::chrono::duration<double>(now - account.filled_at).count();
    account.bytes = std::min(account.bytes + seconds * share_now, share_now * kBurstSeconds);
    account.filled_at = now;
  }

  const double rate_;
  std::map<std::string, Account> accounts_;
};

}  // namespace hearth
