#include "coordinator/proof/ledger_summary.h"

#include <algorithm>
#include <map>

namespace hearth::coordinator {
namespace {

using Kind = ledger::Account::Kind;

MemberSummary member_summary(const ledger::Books& books, const PublicKey& key) {
  const ledger::Standing* standing = books.standing(key);
  INVARIANT(standing != nullptr, "a member of the books has a standing");
  const ledger::Policy& policy = books.policy();
  MemberSummary out;
  out.key = key;
  out.level = standing->is_tombstoned()
                  ? "ended"
                  : std::string(ledger::level_name(standing->level(policy, books.time())));
  out.balance = books.balance({Kind::kSpendable, key});
  out.escrow = standing->escrow();
  out.served = standing->served();
  out.audited_right = standing->audited_right();
  out.faults = standing->faults(policy, books.time());
  out.audit_rate_ppm = standing->audit_rate(policy, books.time());
  out.checks = standing->checks();
  out.check_days = standing->check_days();
  out.unjudged = books.unjudged(key);
  return out;
}

}  // namespace

LedgerSummary summary_of(const ledger::Books& books) {
  LedgerSummary out;
  out.cluster = books.cluster();
  out.entries = books.entries();
  out.time = books.time();
  out.audits = books.audits();
  std::map<PublicKey, std::uint64_t> in_dispute;
  for (const std::uint64_t entry : books.disputes()) {
    ++out.open_disputes;
    if (const ledger::Receipt* receipt = books.receipt(entry)) ++in_dispute[receipt->worker];
  }
  for (const PublicKey& key : books.keys()) {
    MemberSummary& member = out.members.emplace_back(member_summary(books, key));
    if (const auto found = in_dispute.find(key); found != in_dispute.end()) {
      member.in_dispute = found->second;
    }
  }
  for (const auto& [account, amount] : books.balances()) {
    if (account.kind != Kind::kSpendable || books.standing(account.key) != nullptr) continue;
    out.payers.push_back({account.key, amount});
  }
  out.payers_total = out.payers.size();
  std::ranges::stable_sort(out.payers, std::ranges::greater(), &PayerSummary::balance);
  if (out.payers.size() > LedgerSummary::kPayers) out.payers.resize(LedgerSummary::kPayers);
  return out;
}

}  // namespace hearth::coordinator
