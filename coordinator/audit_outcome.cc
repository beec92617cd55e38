#include "coordinator/audit_outcome.h"

#include "ledger/books.h"

namespace hearth::coordinator {

std::string_view verify_name(Verify verify) {
  switch (verify) {
    case Verify::kNone: return "none";
    case Verify::kSpot: return "spot";
    case Verify::kFull: return "full";
  }
  return "none";
}

std::optional<Verify> verify_named(std::string_view name) {
  for (const Verify one : {Verify::kNone, Verify::kSpot, Verify::kFull}) {
    if (verify_name(one) == name) return one;
  }
  return std::nullopt;
}

std::optional<ledger::Level> level_named(std::string_view name) {
  using ledger::Level;
  for (const Level one : {Level::kNewcomer, Level::kProbation, Level::kRegular, Level::kVeteran}) {
    if (ledger::level_name(one) == name) return one;
  }
  return std::nullopt;
}

Standings standings_of(const ledger::Books& books) {
  Standings all;
  const ledger::Policy& policy = books.policy();
  for (const PublicKey& key : books.keys()) {
    const ledger::Standing& one = *books.standing(key);
    all[key] = {one.level(policy, books.time()),
                one.audited_right(),
                one.faults(policy, books.time()),
                one.is_tombstoned(),
                0,
                one.checks(),
                one.check_days(),
                one.joined()};
  }
  for (const std::uint64_t entry : books.disputes()) {
    ++all[books.receipt(entry)->worker].disputes;
    for (const PublicKey& auditor : books.doubters(entry)) ++all[auditor].disputes;
  }
  return all;
}

}  // namespace hearth::coordinator
