#include "coordinator/proof/vesting.h"

namespace hearth::coordinator {

std::vector<ledger::VestEntry> Vesting::due(const ledger::Books& books, std::int64_t now) {
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

}  // namespace hearth::coordinator
