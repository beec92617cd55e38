// Vesting: makes the log entries that release ripe escrow (ledger/PROTOCOL.md, 5). A member gets at
// most one an hour, and each check makes few, so that they stay a negligible part of the log. A
// plain state machine: one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "ledger/books.h"

namespace hearth::coordinator {

class Vesting {
 public:
  static constexpr std::int64_t kPause = 60;           // seconds between two checks
  static constexpr std::int64_t kMemberPause = 3'600;  // and between two entries of a member
  static constexpr std::size_t kMost = 64;             // entries of one check

  // The entries that the rules allow now, one for each key with ripe escrow. `now`: unix seconds.
  std::vector<ledger::VestEntry> due(const ledger::Books& books, std::int64_t now) {
    std::vector<ledger::VestEntry> entries;
    if (now - looked_ < kPause) return entries;
    looked_ = now;
    for (const PublicKey& key : books.keys()) {
      if (entries.size() == kMost) break;
      const auto latest = latest_.find(key);
      if (latest != latest_.end() && now - latest->second < kMemberPause) continue;
      if (books.ripe(key, now) == 0) continue;
      latest_[key] = now;
      entries.push_back({key});
    }
    return entries;
  }

 private:
  std::int64_t looked_ = 0;
  std::map<PublicKey, std::int64_t> latest_;
};

}  // namespace hearth::coordinator
