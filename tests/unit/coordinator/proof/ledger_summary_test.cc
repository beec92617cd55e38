#include "coordinator/proof/ledger_summary.h"

#include <gtest/gtest.h>

#include "tests/unit/ledger/test_keys.h"

namespace hearth::coordinator {
namespace {

TEST(LedgerSummaryTest, HasEveryMemberAndEveryPayer) {
  ledger::Books books;
  std::int64_t now = 1'700'000'000;
  const auto add = [&](const ledger::EntryBody& body) {
    const Status applied = books.apply(ledger::write_entry({now++, body}));
    ASSERT_TRUE(applied.ok()) << applied.error().message;
  };
  EXPECT_EQ(summary_of(books).entries, 0u) << "an empty log";
  add(ledger::RulesEntry{ledger::policy_hash(ledger::Policy()), ledger::key_of(1).public_key()});
  add(ledger::MemberEntry{ledger::key_of(2).public_key(), ledger::hash_of("ann"), true});
  add(ledger::MemberEntry{ledger::key_of(3).public_key(), ledger::hash_of("bob"), false});
  add(ledger::GrantEntry{ledger::key_of(2).public_key(), 7});
  for (unsigned char i = 0; i < LedgerSummary::kPayers + 1; ++i) {
    add(ledger::GrantEntry{ledger::key_of(static_cast<unsigned char>(100 + i)).public_key(),
                           1 + i});
  }
  const LedgerSummary all = summary_of(books);
  EXPECT_EQ(all.cluster, ledger::key_of(1).public_key());
  EXPECT_EQ(all.entries, books.entries());
  EXPECT_EQ(all.time, now - 1);
  ASSERT_EQ(all.members.size(), 2u);
  for (const MemberSummary& one : all.members) {
    const bool vouched = one.key == ledger::key_of(2).public_key();
    EXPECT_EQ(one.level, vouched ? "probation" : "newcomer");
    EXPECT_EQ(one.balance, vouched ? 7 : 0);
    EXPECT_EQ(one.in_dispute, 0u);
  }
  EXPECT_EQ(all.payers_total, LedgerSummary::kPayers + 1);
  ASSERT_EQ(all.payers.size(), LedgerSummary::kPayers);
  EXPECT_EQ(all.payers.front().balance, static_cast<std::int64_t>(LedgerSummary::kPayers) + 1)
      << "who has most comes first";
  EXPECT_EQ(all.payers.back().balance, 2);
}

}  // namespace
}  // namespace hearth::coordinator
