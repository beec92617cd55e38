#include "coordinator/proof/credits.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <limits>

#include "base/limits.h"
#include "base/random.h"
#include "coordinator/proof/receipt_collector.h"
#include "tests/unit/coordinator/proof/receipt_stage.h"
#include "tests/unit/proto/fake_transport.h"

namespace hearth::coordinator {
namespace {

using testing::ReceiptStage;

PublicKey payer_of(unsigned char number) { return testing::receipt_key(number).public_key(); }

TEST(DearestTest, IsWhatAllItsReceiptsWouldCostAtMost) {
  EXPECT_EQ(*dearest({}, 30, 100, 10), 30 * (100 + 5 * 10) + 30 * (100 + 5 * 10) / 10);
  EXPECT_EQ(*dearest({}, 1, 1, 0), 1);
  const std::int64_t pay = 30 * (100 - 64 + 5 * 10) + 30 * 64 / 10;
  EXPECT_EQ(*dearest({}, 30, 100, 10, 64), pay + pay / 10) << "cached tokens cost a tenth";
  constexpr auto kHuge = std::numeric_limits<std::uint64_t>::max();
  for (const std::uint64_t layers : {std::uint64_t{1}, std::uint64_t{65'535}, kHuge}) {
    EXPECT_FALSE(dearest({}, layers, kHuge, 0)) << layers;
    EXPECT_FALSE(dearest({}, layers, 0, kHuge)) << layers;
  }
  EXPECT_FALSE(dearest({}, kHuge, kHuge, kHuge));
  const auto much = dearest({}, 65'535, 4'000'000'000, 4'000'000'000);
  ASSERT_TRUE(much);
  EXPECT_LE(*much, Credits::kPriceMax);
}

struct CreditsTest : ::testing::Test {
  void grant(const PublicKey& to, std::int64_t amount) {
    credits->posted(std::vector<ledger::Posting>{
        {{}, -amount}, {{ledger::Account::Kind::kSpendable, to}, amount}});
  }
  static ledger::RequestId request(unsigned char number) {
    ledger::RequestId id{};
    id.fill(std::byte{number});
    return id;
  }
  void sweep(std::set<ledger::RequestId> unsettled = {}) {
    credits->sweep([&] { return unsettled; }, clock.now());
  }
  testing::FakeClock clock;
  std::shared_ptr<Credits> credits = std::make_shared<Credits>();
  const PublicKey payer = payer_of(70);
};

TEST_F(CreditsTest, KeepsWhatARequestMayCostUntilItsReceiptsAreThere) {
  grant(payer, 1'000);
  auto holds = credits->reserve(payer, {{request(1), 300}, {request(2), 400}});
  ASSERT_TRUE(holds) << holds.error().message;
  EXPECT_EQ(credits->balance(payer).reserved, 700);
  const auto more = credits->reserve(payer, {{request(3), 301}});
  ASSERT_FALSE(more);
  EXPECT_EQ(more.error().code, ErrorCode::kRefused);
  for (const char* part : {"301", "1000", "700", "hearth ledger grant"}) {
    EXPECT_NE(more.error().message.find(part), std::string::npos) << more.error().message;
  }
  EXPECT_EQ(credits->charge(request(1), 250), payer);
  EXPECT_EQ(credits->charge(request(1), 51), PublicKey()) << "more than was kept";
  EXPECT_EQ(credits->charge(request(9), 1), PublicKey()) << "of no account";
  credits->posted(
      std::vector<ledger::Posting>{{{ledger::Account::Kind::kSpendable, payer}, -250},
                                   {{ledger::Account::Kind::kEscrow, payer_of(71)}, 250}});
  EXPECT_EQ(credits->balance(payer).spendable, 750);
  EXPECT_EQ(credits->balance(payer).reserved, 450);
  sweep();
  EXPECT_EQ(credits->balance(payer).reserved, 450) << "both may begin still";
  holds->clear();
  sweep({request(2)});
  EXPECT_EQ(credits->balance(payer).reserved, 400) << "the second one's receipts are to come";
  clock.advance(Credits::kHeld + std::chrono::seconds(1));
  sweep({request(2)});
  EXPECT_EQ(credits->balance(payer).reserved, 0) << "for so long, and no longer";
  EXPECT_EQ(credits->charge(request(2), 1), PublicKey());
}

TEST_F(CreditsTest, OneThatIsOverIsFreeWhileItsOwnerListens) {
  grant(payer, 100);
  const auto holds = credits->reserve(payer, {{request(1), 100}});
  ASSERT_TRUE(holds);
  credits->over(request(1));
  sweep();
  EXPECT_EQ(credits->balance(payer).reserved, 0);
  const auto again = credits->reserve(payer, {{request(1), 100}});
  ASSERT_TRUE(again) << "the same one, asked again";
  EXPECT_EQ(credits->balance(payer).reserved, 100);
}

TEST_F(CreditsTest, RefusesWholeRequestsAndNobodyElses) {
  grant(payer, 100);
  EXPECT_FALSE(credits->reserve(payer, {{request(1), 60}, {request(2), 60}}));
  EXPECT_EQ(credits->balance(payer).reserved, 0) << "all or nothing";
  EXPECT_FALSE(credits->reserve(payer_of(72), {{request(1), 1}})) << "an unknown account";
  EXPECT_FALSE(credits->reserve(payer, {{request(1), -1}}));
  EXPECT_FALSE(credits->reserve(payer, {{request(1), Credits::kPriceMax + 1}}));
  grant(payer_of(72), 100);
  const auto holds = credits->reserve(payer, {{request(1), 60}});
  ASSERT_TRUE(holds);
  EXPECT_FALSE(credits->reserve(payer_of(72), {{request(1), 60}})) << "the name of another's";
  EXPECT_EQ(credits->charge(request(1), 60), payer);
}

TEST_F(CreditsTest, SoManyRequestsAndNoMore) {
  grant(payer, 1'000'000);
  std::vector<Credits::Hold> all;
  ledger::RequestId id{};
  for (std::size_t i = 0; i < Credits::kHolds; ++i) {
    id[0] = std::byte(i & 0xFF);
    id[1] = std::byte(i >> 8 & 0xFF);
    auto holds = credits->reserve(payer, {{id, 1}});
    ASSERT_TRUE(holds);
    all.push_back(holds->front());
  }
  id[2] = std::byte{1};
  const auto more = credits->reserve(payer, {{id, 1}});
  ASSERT_FALSE(more);
  EXPECT_EQ(more.error().code, ErrorCode::kNoCapacity);
  all.clear();
  sweep();
  EXPECT_TRUE(credits->reserve(payer, {{id, 1}}));
}

TEST_F(CreditsTest, WhatWasPaidBeforeARestartCostsNothingMore) {
  std::vector<ReceiptStage> stages = testing::receipt_stages();
  ReceiptCollector desk(testing::receipt_cluster(), clock, credits);
  desk.begin(testing::receipt_pipeline(stages));
  desk.log(ledger::GrantEntry{payer, 1'000});
  ledger::Books books;
  const auto fold = [&] {
    for (const Bytes& entry : desk.take_entries()) {
      ASSERT_TRUE(books.apply(entry));
      credits->posted(books.postings());
    }
  };
  fold();
  const ReceiptRequest over = testing::receipt_request(1);
  const ledger::RequestId name = over.order.request;
  const auto holds = credits->reserve(payer, {{name, 1'000}});
  ASSERT_TRUE(holds) << holds.error().message;
  desk.start(over.epoch, name, over.tokens.size());
  for (ReceiptStage& stage : stages) desk.take(stage.node, stage.claim(over));
  desk.over(over);
  for (auto messages = desk.take_messages(); !messages.empty(); messages = desk.take_messages()) {
    for (const ReceiptCollector::Message& message : messages) {
      ReceiptStage& stage = message.node == "a" ? stages[0] : stages[1];
      desk.take(stage.node, stage.sign(message.body));
    }
  }
  fold();
  const std::int64_t left = books.balance({ledger::Account::Kind::kSpendable, payer});
  ASSERT_LT(left, 1'000);
  ASSERT_EQ(books.paid(), std::set<ledger::RequestId>{name});
  // Its answer was lost, and the next process computes it again.
  const auto next = std::make_shared<Credits>();
  next->begin(books);
  const auto again = next->reserve(payer, {{name, left + 1}});
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(next->balance(payer).reserved, 0);
  EXPECT_EQ(next->charge(name, 1), PublicKey());
  // What was not paid for costs what it costs.
  EXPECT_FALSE(next->reserve(payer, {{request(2), left + 1}}));
  const auto fresh = next->reserve(payer, {{request(2), left}});
  ASSERT_TRUE(fresh);
  EXPECT_EQ(next->charge(request(2), 1), payer);
}

TEST_F(CreditsTest, WithoutALedgerNobodyPays) {
  grant(payer, 100);
  credits->stop("the disk is full");
  const auto holds = credits->reserve(payer, {{request(1), 1}});
  ASSERT_FALSE(holds);
  EXPECT_EQ(holds.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(holds.error().message.find("the disk is full"), std::string::npos);
}

// Requests of three payers in every order: they begin, end, are lost with their pipeline and go on
// in the next, are given up, lose receipts; grants and a restart come between; and one in a few is
// computed twice, which no coordinator does, so that more receipts come than were paid for.
class Market {
 public:
  explicit Market(std::uint64_t seed) : random_(seed) { restart(); }

  void step() {
    switch (pick(12)) {
      case 0: return grant();
      case 1:
      case 2:
      case 3: return begin();
      case 4:
      case 5:
      case 6: return end();
      case 7: return lose_pipeline();
      case 8: return forget();
      case 9: return sweep();
      case 10: return clock_.advance(std::chrono::milliseconds(100));
      default: return pick(20) == 0 ? restart() : sign();
    }
  }
  // That the books take every entry, and that what is kept is there.
  void check() {
    for (const Bytes& entry : desk_->take_entries()) {
      const Status applied = books_.apply(entry);
      ASSERT_TRUE(applied) << applied.error().message;
      entries_.push_back(entry);
      credits_->posted(books_.postings());
      const auto parsed = ledger::parse_entry(entry);
      const auto* receipt = std::get_if<ledger::ReceiptEntry>(&parsed->body);
      if (receipt == nullptr) continue;
      ++(receipt->payer == PublicKey() ? unpaid : paid);
      if (receipt->cached > 0) ++cached;
    }
    for (unsigned char i = 0; i < 3; ++i) {
      const PublicKey payer = payer_of(static_cast<unsigned char>(70 + i));
      const Credits::Balance balance = credits_->balance(payer);
      ASSERT_EQ(balance.spendable, books_.balance({ledger::Account::Kind::kSpendable, payer}));
      ASSERT_GE(balance.reserved, 0);
      ASSERT_LE(balance.reserved, balance.spendable);
    }
  }
  // When nothing runs any more, nothing is kept.
  void settle() {
    running_.clear();
    sign();
    clock_.advance(std::chrono::seconds(limits::kReceiptSeconds + 1));
    desk_->on_timer();
    clock_.advance(std::chrono::seconds(limits::kReceiptSeconds + 1));
    desk_->on_timer();
    desk_->end(epoch_);
    check();
    sweep();
    for (unsigned char i = 0; i < 3; ++i) {
      EXPECT_EQ(credits_->balance(payer_of(static_cast<unsigned char>(70 + i))).reserved, 0);
    }
  }
  std::size_t paid = 0;
  std::size_t unpaid = 0;
  std::size_t cached = 0;

 private:
  struct Running {
    ReceiptRequest request;
    std::uint32_t max_tokens = 0;
    Credits::Hold hold;
  };
  std::uint64_t pick(std::uint64_t below) { return random_.next() % below; }

  void grant() {
    desk_->log(ledger::GrantEntry{payer_of(static_cast<unsigned char>(70 + pick(3))),
                                  static_cast<std::int64_t>(1 + pick(3'000))});
  }
  void begin() {
    Running one;
    one.request = testing::receipt_request(1);
    ++number_;
    for (std::size_t i = 0; i < 4; ++i) {
      one.request.order.request[i] = std::byte(number_ >> (8 * i) & 0xFF);
    }
    one.request.epoch = epoch_;
    one.request.prompt_tokens = static_cast<std::uint32_t>(1 + pick(40));
    one.request.cached = static_cast<std::uint32_t>(pick(one.request.prompt_tokens));
    one.max_tokens = static_cast<std::uint32_t>(1 + pick(40));
    const auto price = dearest({}, 4, one.request.prompt_tokens, one.max_tokens);
    auto holds = credits_->reserve(payer_of(static_cast<unsigned char>(70 + pick(3))),
                                   {{one.request.order.request, *price}});
    if (!holds) return;
    one.hold = holds->front();
    if (pick(5) == 0) return;  // its client goes before it starts
    start(one);
    running_.push_back(std::move(one));
  }
  void start(const Running& one) {
    desk_->start(epoch_, one.request.order.request, one.request.prompt_tokens + one.max_tokens);
  }
  void end() {
    if (running_.empty()) return;
    Running& one = running_[pick(running_.size())];
    std::swap(one, running_.back());
    const bool twice = pick(8) == 0;
    for (int i = 0; i < (twice ? 2 : 1); ++i) {
      if (i == 1) {
        sign();
        lose_pipeline();
        start(running_.back());
      }
      ReceiptRequest request = running_.back().request;
      request.epoch = epoch_;
      const std::uint64_t tokens = request.prompt_tokens + 1 + pick(running_.back().max_tokens);
      request.tokens.assign(tokens, 7);
      const bool silent = pick(6) == 0;
      for (ReceiptStage& stage : stages_) {
        if (silent && &stage == &stages_[1]) continue;
        desk_->take(stage.node, stage.claim(request));
      }
      credits_->over(request.order.request);
      desk_->over(request);
    }
    running_.pop_back();
  }
  void lose_pipeline() {
    desk_->end(epoch_);
    ++epoch_.value;
    desk_->begin(testing::receipt_pipeline(stages_, epoch_));
    for (const Running& one : running_) start(one);
  }
  void forget() {
    if (running_.empty()) return;
    running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(pick(running_.size())));
  }
  void sweep() {
    credits_->sweep([this] { return desk_->unsettled(); }, clock_.now());
  }
  void sign() {
    for (int i = 0; i < 100; ++i) {
      const auto messages = desk_->take_messages();
      if (messages.empty()) return;
      for (const ReceiptCollector::Message& message : messages) {
        if (pick(10) == 0) {
          desk_->lose(message.node);
          continue;
        }
        ReceiptStage& stage = message.node == "a" ? stages_[0] : stages_[1];
        desk_->take(stage.node, stage.sign(message.body));
      }
    }
  }
  void restart() {
    if (desk_) check();
    running_.clear();
    credits_ = std::make_shared<Credits>();
    credits_->begin(books_);
    desk_ = std::make_unique<ReceiptCollector>(testing::receipt_cluster(), clock_, credits_);
    for (const Bytes& entry : entries_) ASSERT_TRUE(desk_->recall(entry));
    ++epoch_.value;
    desk_->begin(testing::receipt_pipeline(stages_, epoch_));
  }

  SeededRandom random_;
  testing::FakeClock clock_;
  std::vector<ReceiptStage> stages_ = testing::receipt_stages();
  std::shared_ptr<Credits> credits_;
  std::unique_ptr<ReceiptCollector> desk_;
  ledger::Books books_;
  std::vector<Bytes> entries_;
  std::vector<Running> running_;
  Epoch epoch_ = Epoch(4);
  std::uint32_t number_ = 0;
};

TEST(CreditsMarketTest, TheBooksNeverRefuseAReceiptForLackOfCredit) {
  std::size_t paid = 0;
  std::size_t unpaid = 0;
  std::size_t cached = 0;
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    Market market(seed);
    for (int i = 0; i < 600; ++i) {
      market.step();
      market.check();
      if (::testing::Test::HasFatalFailure()) {
        FAIL() << "seed " << seed << ", step " << i;
      }
    }
    market.settle();
    paid += market.paid;
    unpaid += market.unpaid;
    cached += market.cached;
  }
  EXPECT_GT(paid, 200u);
  EXPECT_GT(unpaid, 0u) << "what was computed twice is paid once";
  EXPECT_GT(cached, 100u) << "receipts of prompts that were cached in part";
}

}  // namespace
}  // namespace hearth::coordinator
