#include "coordinator/proof/vesting.h"

#include <gtest/gtest.h>

#include "coordinator/proof/receipt_desk.h"
#include "tests/unit/coordinator/proof/receipt_stage.h"
#include "tests/unit/proto/fake_transport.h"

namespace hearth::coordinator {
namespace {

using testing::ReceiptStage;

// Two stages that were paid for a window, and the log of it.
struct VestingTest : ::testing::Test {
  VestingTest() {
    const PublicKey payer = testing::receipt_key(70).public_key();
    desk.begin(testing::receipt_pipeline(stages));
    desk.log(ledger::GrantEntry{payer, 10'000});
    fold();
    const ReceiptRequest one = testing::receipt_request(1);
    hold = credits->reserve(payer, {{one.order.request, 10'000}}).value().front();
    desk.start(one.epoch, one.order.request, one.tokens.size());
    for (ReceiptStage& stage : stages) desk.take(stage.node, stage.claim(one));
    desk.over(one);
    for (const ReceiptDesk::Message& message : desk.take_messages()) {
      ReceiptStage& stage = message.node == "a" ? stages[0] : stages[1];
      desk.take(stage.node, stage.sign(message.body));
    }
    fold();
  }
  void fold() {
    for (const Bytes& entry : desk.take_entries()) {
      const Status applied = books.apply(entry);
      ASSERT_TRUE(applied) << applied.error().message;
      credits->posted(books.postings());
    }
  }
  std::int64_t spendable(const ReceiptStage& stage) const {
    return books.balance({ledger::Account::Kind::kSpendable, stage.key()});
  }
  std::int64_t now() const { return clock.unix_seconds(); }

  testing::FakeClock clock;
  std::vector<ReceiptStage> stages = testing::receipt_stages();
  std::shared_ptr<Credits> credits = std::make_shared<Credits>();
  ReceiptDesk desk{testing::receipt_cluster(), clock, credits};
  ledger::Books books;
  Credits::Hold hold;
  Vesting vesting;
};

TEST_F(VestingTest, NothingBeforeItIsRipe) {
  EXPECT_TRUE(vesting.due(books, now()).empty());
  clock.advance(std::chrono::seconds(ledger::Policy().escrow_idle_seconds - 1));
  EXPECT_TRUE(vesting.due(books, now()).empty());
}

TEST_F(VestingTest, WhatIsRipeIsSetFreeOnce) {
  const std::int64_t escrow = books.standing(stages[0].key())->escrow();
  ASSERT_GT(escrow, 0);
  clock.advance(std::chrono::seconds(ledger::Policy().escrow_idle_seconds + 1));
  const std::int64_t ripe = books.ripe(stages[0].key(), now());
  EXPECT_EQ(ripe, escrow - escrow / 2) << "on probation a half stays";
  const auto due = vesting.due(books, now());
  ASSERT_EQ(due.size(), 2u);
  for (const ledger::VestEntry& one : due) desk.log(one);
  fold();
  EXPECT_EQ(spendable(stages[0]), ripe);
  EXPECT_EQ(credits->balance(stages[0].key()).spendable, ripe);
  EXPECT_EQ(books.ripe(stages[0].key(), now()), 0);
  clock.advance(std::chrono::hours(2));
  EXPECT_TRUE(vesting.due(books, now()).empty()) << "nothing more to free";
}

TEST_F(VestingTest, LooksNowAndThen) {
  clock.advance(std::chrono::seconds(ledger::Policy().escrow_idle_seconds + 1));
  EXPECT_EQ(vesting.due(books, now()).size(), 2u);
  clock.advance(std::chrono::seconds(Vesting::kPause + 1));
  EXPECT_TRUE(vesting.due(books, now()).empty()) << "it was said, though it is not in the log yet";
  clock.advance(std::chrono::seconds(Vesting::kMemberPause));
  EXPECT_EQ(vesting.due(books, now()).size(), 2u);
  EXPECT_TRUE(vesting.due(books, now()).empty());
}

}  // namespace
}  // namespace hearth::coordinator
