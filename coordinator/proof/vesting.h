// Vesting: when escrow that is ripe is set free by an entry of the log (ledger/PROTOCOL.md, 5). A
// member has one such entry an hour at most, and a look brings few, so that they are no part of a
// log that counts. A plain state machine: one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "ledger/books.h"

namespace hearth::coordinator {

class Vesting {
 public:
  static constexpr std::int64_t kPause = 60;           // seconds between two looks
  static constexpr std::int64_t kMemberPause = 3'600;  // and between two entries of a member
  static constexpr std::size_t kMost = 64;             // entries of a look

  // Entries that the books allow now, each setting something free. `now`: unix seconds.
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
