// RelayShares: divides the bytes a second of a relay among the nodes whose links it forwards. A
// node that moved bytes in the last second is active; each active node gets an equal share.
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
    account.active_at = now;
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
  static constexpr Duration kActive = std::chrono::seconds(1);
  static constexpr double kBurstSeconds = 0.02;    // of a share that may be saved up
  static constexpr double kLeastPiece = 16'384.0;  // bytes: a TLS record

  struct Account {
    double bytes = 0.0;  // that it may move at once; below 0: a debt
    TimePoint filled_at{};
    TimePoint active_at{};
    bool left = false;  // it has no link
  };

  double share(TimePoint now) const {
    const auto active = std::ranges::count_if(
        accounts_, [&](const auto& entry) { return now - entry.second.active_at < kActive; });
    return rate_ / static_cast<double>(std::max<std::ptrdiff_t>(1, active));
  }

  Account& refilled(const std::string& node, TimePoint now) {
    const auto [found, added] = accounts_.try_emplace(node);
    Account& account = found->second;
    if (added) account = {0.0, now, now};
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
