#include "ledger/books.h"

#include <gtest/gtest.h>

#include "base/limits.h"
#include "ledger/history.h"
#include "tests/unit/ledger/test_keys.h"

namespace hearth::ledger {
namespace {

constexpr std::int64_t kDay = 24 * 3'600;

Account spendable(const PublicKey& key) { return {Account::Kind::kSpendable, key}; }
Account escrow(const PublicKey& key) { return {Account::Kind::kEscrow, key}; }

// A ledger being written: a client, two vouched workers of two stages, an auditor, a newcomer.
class BooksTest : public ::testing::Test {
 protected:
  BooksTest() {
    add(RulesEntry{policy_hash(Policy()), cluster_.public_key()});
    for (const SecretKey* key : {&upper_, &lower_, &auditor_}) {
      add(MemberEntry{key->public_key(), hash_of(key->public_key().hex()), true});
    }
    add(MemberEntry{newcomer_.public_key(), hash_of("newcomer"), false});
    add(GrantEntry{client_.public_key(), 1'000'000'000});
  }

  Status apply(const EntryBody& body) {
    const Bytes bytes = write_entry({now_, body});
    const Status applied = books_.apply(bytes);
    if (!applied) return applied;
    log_.push_back(bytes);
    std::int64_t sum = 0;
    for (const Posting& one : books_.postings()) sum += one.amount;
    EXPECT_EQ(sum, 0) << "entry " << log_.size() - 1;
    for (const SecretKey* key : {&upper_, &lower_, &auditor_, &newcomer_}) {
      const Standing* standing = books_.standing(key->public_key());
      if (standing == nullptr) continue;
      EXPECT_EQ(standing->escrow(), books_.balance(escrow(key->public_key())));
    }
    return applied;
  }
  // The index of the entry.
  std::uint64_t add(const EntryBody& body) {
    const Status applied = apply(body);
    EXPECT_TRUE(applied) << applied.error().message;
    return books_.entries() - 1;
  }
  // What books that never see it again would say of this entry.
  std::string refusal(const EntryBody& body, std::int64_t time = -1) const {
    Books copy = books_;
    const Status applied = copy.apply(write_entry({time < 0 ? now_ : time, body}));
    return applied ? "" : applied.error().message;
  }

  Receipt window(std::uint16_t stage, std::uint32_t number) {
    Receipt r;
    r.slot.request.fill(std::byte{5});
    r.slot.request[14] = static_cast<std::byte>(number >> 8);  // a choice of one window each
    r.slot.request[15] = static_cast<std::byte>(number);
    r.slot.stage = stage;
    r.program = hash_of("program");
    r.layer_begin = static_cast<std::uint16_t>(stage * 4);
    r.layer_end = static_cast<std::uint16_t>(stage * 4 + 4);
    r.stages = 2;
    r.positions = 64;
    r.prompt_positions = number == 0 ? 24 : 0;
    r.tokens = hash_of("tokens " + std::to_string(number));
    const Hash256 boundary = hash_of("boundary " + std::to_string(number));
    r.in_root = stage == 0 ? r.tokens : boundary;
    r.out_root = stage == 0 ? boundary : r.tokens;
    r.begun_ms = static_cast<std::uint64_t>(now_) * 1'000;
    r.previous = latest_[stage];
    r.in_edge = sign_edge(in_edge(r), cluster_key(), stage == 0 ? cluster_ : upper_);
    r.out_edge = sign_edge(out_edge(r), cluster_key(), stage == 0 ? lower_ : cluster_);
    return r;
  }
  ReceiptEntry entry_of(const Receipt& r) const {
    const Bytes bytes = *sign_receipt(r, cluster_key(), r.slot.stage == 0 ? upper_ : lower_);
    ReceiptEntry entry{client_.public_key(), {}};
    std::copy(bytes.begin(), bytes.end(), entry.receipt.begin());
    return entry;
  }
  std::uint64_t add_window(std::uint16_t stage, std::uint32_t number) {
    const ReceiptEntry entry = entry_of(window(stage, number));
    latest_[stage] = blake2b(entry.receipt);
    return add(entry);
  }
  SealEntry seal(std::uint64_t receipt, const SecretKey& by, const Hash256& root) const {
    return sign_seal(receipt, seal_of(receipt, by.public_key(), root, salt_), cluster_key(), by);
  }
  OpeningEntry opening(std::uint64_t receipt, const SecretKey& by, const Hash256& root) const {
    return {receipt, by.public_key(), root, salt_};
  }
  void audit(std::uint64_t receipt, const SecretKey& by, const Hash256& root) {
    add(seal(receipt, by, root));
    add(opening(receipt, by, root));
  }
  const Standing& of(const SecretKey& key) const { return *books_.standing(key.public_key()); }
  PublicKey cluster_key() const { return cluster_.public_key(); }

  const SecretKey cluster_ = key_of(1);
  const SecretKey client_ = key_of(2);
  const SecretKey upper_ = key_of(3);
  const SecretKey lower_ = key_of(4);
  const SecretKey auditor_ = key_of(5);
  const SecretKey newcomer_ = key_of(6);
  const Hash256 salt_ = hash_of("salt");
  std::int64_t now_ = 20'000 * kDay;
  Hash256 latest_[2];
  Books books_;
  std::vector<Bytes> log_;
};

TEST_F(BooksTest, AWindowIsPaidByWhoAskedAndHeldInEscrow) {
  add_window(0, 0);
  // 4 layers, 24 tokens of the prompt at 1 and 40 generated at 5; a tenth on top.
  EXPECT_EQ(books_.balance(escrow(upper_.public_key())), 4 * (24 + 40 * 5));
  EXPECT_EQ(books_.balance(spendable(client_.public_key())), 1'000'000'000 - 896 - 89);
  EXPECT_EQ(books_.balance({}), -1'000'000'000 + 89);
  EXPECT_EQ(books_.balance(spendable(upper_.public_key())), 0);
  add_window(1, 0);
  EXPECT_EQ(of(lower_).served(), 1);
}

TEST_F(BooksTest, AnAuditCountsWhenItAgrees) {
  const std::uint64_t receipt = add_window(0, 0);
  audit(receipt, auditor_, hash_of("boundary 0"));
  EXPECT_EQ(of(upper_).audited_right(), 1);
  EXPECT_EQ(of(auditor_).escrow(), 4 * 64);
  EXPECT_TRUE(books_.disputes().empty());
}

TEST_F(BooksTest, CachedPositionsCostATenth) {
  const Policy policy;
  Receipt r = window(0, 0);
  r.prompt_positions = 64;
  EXPECT_EQ(window_price(policy, r), 4 * 64);
  EXPECT_EQ(window_price(policy, r, 64), 4 * 64 / 10);
  EXPECT_EQ(window_price(policy, r, 40), 4 * 24 + 4 * 40 / 10);
  ReceiptEntry entry = entry_of(r);
  entry.cached = 65;
  EXPECT_NE(refusal(entry).find("65 cached positions in a window with 64"), std::string::npos);
  entry.cached = 40;
  const std::uint64_t receipt = add(entry);
  EXPECT_EQ(of(upper_).escrow(), 4 * 24 + 4 * 40 / 10);
  audit(receipt, auditor_, hash_of("boundary 0"));
  EXPECT_EQ(of(auditor_).escrow(), (4 * 24 + 4 * 40 / 10) * 100 / 330)
      << "an audit pays by what was paid";
}

TEST_F(BooksTest, FriendsWhoAreAllowedForGetNoMoreBackThanTheFee) {
  const Policy policy;
  for (const std::uint32_t prompt : {0U, 1U, 40U, 63U, 64U}) {
    Receipt r = window(0, 0);
    r.prompt_positions = prompt;
    const std::int64_t fee = window_price(policy, r) * policy.price_fee / kMillion;
    const std::int64_t price = window_price(policy, r);
    EXPECT_LE(check_price(policy, r, price) * policy.assumed_collusion / kMillion, fee) << prompt;
  }
  Receipt prompts = window(0, 0);
  prompts.prompt_positions = 64;
  latest_[0] = {};
  const std::uint64_t receipt = add(entry_of(prompts));
  audit(receipt, auditor_, hash_of("boundary 0"));
  EXPECT_EQ(of(auditor_).escrow(), 4 * 64 * 100 / 330) << "a prefill of it is 256";
}

TEST_F(BooksTest, ANewcomersWordMovesOnlyItself) {
  const std::uint64_t receipt = add_window(0, 0);
  audit(receipt, newcomer_, hash_of("boundary 0"));
  EXPECT_EQ(of(upper_).audited_right(), 0);
  EXPECT_EQ(of(newcomer_).escrow(), 4 * 64);
  const std::uint64_t second = add_window(0, 1);
  audit(second, newcomer_, hash_of("something else"));
  EXPECT_EQ(books_.disputes(), std::vector<std::uint64_t>{second}) << "but it calls a referee";
  EXPECT_EQ(of(upper_).escrow(), 896 + 1'280) << "and costs no account anything";
}

TEST_F(BooksTest, AFaultIsMildAndAFraudIsNot) {
  for (std::uint32_t i = 0; i < 80; ++i) {
    audit(add_window(0, i), auditor_, hash_of("boundary " + std::to_string(i)));
  }
  const std::int64_t before = of(upper_).escrow();
  std::uint64_t receipt = add_window(0, 80);
  audit(receipt, auditor_, hash_of("other"));
  add(VerdictEntry{receipt, upper_.public_key(), Verdict::kFault, hash_of("concession")});
  EXPECT_EQ(of(upper_).escrow(), before + 1'280 - 80 * 1'280);
  EXPECT_EQ(of(upper_).audited_right(), 40);
  EXPECT_TRUE(books_.disputes().empty());
  receipt = add_window(0, 81);
  audit(receipt, auditor_, hash_of("other"));
  EXPECT_NE(refusal(VestEntry{upper_.public_key()}).find("in dispute"), std::string::npos);
  add(VerdictEntry{receipt, upper_.public_key(), Verdict::kFraud, hash_of("dispute")});
  EXPECT_EQ(of(upper_).escrow(), 0);
  EXPECT_TRUE(of(upper_).is_tombstoned());
  EXPECT_NE(refusal(entry_of(window(0, 82))).find("lost its standing"), std::string::npos);
  EXPECT_NE(refusal(MemberEntry{upper_.public_key(), {}, true}).find("already"), std::string::npos);
}

TEST_F(BooksTest, AnAuditorWhoWasWrongIsJudgedByTheSameRules) {
  audit(add_window(0, 0), auditor_, hash_of("boundary 0"));
  const std::uint64_t receipt = add_window(0, 1);
  audit(receipt, auditor_, hash_of("a lie"));
  add(VerdictEntry{receipt, auditor_.public_key(), Verdict::kFraud, hash_of("dispute")});
  EXPECT_TRUE(of(auditor_).is_tombstoned());
  EXPECT_EQ(of(auditor_).escrow(), 0);
  EXPECT_EQ(of(upper_).escrow(), 896 + 1'280);
}

TEST_F(BooksTest, ADisputeThatNobodyCanJudgeEndsAndBlamesNobody) {
  audit(add_window(0, 0), auditor_, hash_of("boundary 0"));
  const std::uint64_t receipt = add_window(0, 1);
  const VerdictEntry end{receipt, {}, Verdict::kUnjudged, hash_of("why")};
  EXPECT_NE(refusal(end).find("nothing is in dispute"), std::string::npos);
  audit(receipt, auditor_, hash_of("other"));
  const std::int64_t right = of(upper_).audited_right();
  const std::int64_t escrow_of_both = of(upper_).escrow() + of(auditor_).escrow();
  add(end);
  EXPECT_TRUE(books_.postings().empty());
  EXPECT_EQ(of(upper_).escrow() + of(auditor_).escrow(), escrow_of_both);
  EXPECT_EQ(of(upper_).audited_right(), right) << "nor is it right";
  EXPECT_EQ(of(upper_).faults(books_.policy(), now_), 0);
  EXPECT_TRUE(books_.disputes().empty());
  EXPECT_EQ(books_.audits().unjudged, 1u);
  EXPECT_EQ(books_.unjudged(upper_.public_key()), 1u);
  EXPECT_EQ(books_.unjudged(auditor_.public_key()), 1u);
  EXPECT_EQ(books_.unjudged(lower_.public_key()), 0u);
  EXPECT_NE(refusal(end).find("nothing is in dispute"), std::string::npos) << "it ends once";
  EXPECT_EQ(refusal(VestEntry{upper_.public_key()}).find("in dispute"), std::string::npos)
      << "and holds no escrow";
}

TEST_F(BooksTest, EquivocationProvesItself) {
  add_window(0, 0);
  Receipt one = window(0, 1);
  Receipt other = one;
  other.out_root = hash_of("other");
  const auto bytes = [this](const Receipt& r) { return entry_of(r).receipt; };
  EXPECT_NE(refusal(EquivocationEntry{bytes(one), bytes(one)}), "");
  add(EquivocationEntry{bytes(one), bytes(other)});
  EXPECT_TRUE(of(upper_).is_tombstoned());
  EXPECT_EQ(books_.balance(escrow(upper_.public_key())), 0);
}

TEST_F(BooksTest, EscrowBecomesSpendableBehindTheLatestWindows) {
  for (std::uint32_t i = 0; i < 300; ++i) {
    const std::uint64_t receipt = add_window(0, i);
    if (i < 90) audit(receipt, auditor_, hash_of("boundary " + std::to_string(i)));
    now_ += 20;
  }
  now_ += 4 * kDay;
  const std::int64_t before = of(upper_).escrow();
  add(VestEntry{upper_.public_key()});
  EXPECT_EQ(books_.balance(spendable(upper_.public_key())), 896 + 99 * 1'280);
  EXPECT_EQ(of(upper_).escrow(), before - 896 - 99 * 1'280);
}

TEST_F(BooksTest, RefusesWhatTheRulesDoNotAllow) {
  add_window(0, 0);
  const std::uint64_t receipt = add_window(1, 0);
  const auto refused = [this](const EntryBody& body, const char* why, std::int64_t time = -1) {
    const std::string message = refusal(body, time);
    EXPECT_NE(message.find(why), std::string::npos) << why << ": " << message;
  };
  refused(RulesEntry{policy_hash(Policy()), cluster_key()}, "has them once");
  refused(ChangeEntry{upper_.public_key()}, "before its predecessor's", now_ - 1);
  refused(ChangeEntry{client_.public_key()}, "not a member's");
  refused(GrantEntry{client_.public_key(), 0}, "a grant of 0");
  refused(GrantEntry{client_.public_key(), -5}, "a grant of -5");
  refused(GrantEntry{client_.public_key(), INT64_MAX}, "a grant of");
  refused(entry_of(window(0, 0)), "has one already");
  Receipt wrong = window(0, 1);
  wrong.previous = hash_of("other");
  refused(entry_of(wrong), "does not follow");
  wrong = window(0, 1);
  wrong.begun_ms -= 3'601'000;
  refused(entry_of(wrong), "was begun at");
  wrong = window(0, 1);
  wrong.in_edge = wrong.out_edge;
  refused(entry_of(wrong), "not signed by the cluster");
  ReceiptEntry poor = entry_of(window(0, 1));
  poor.payer = auditor_.public_key();
  refused(poor, "falls to -");
  ReceiptEntry forged = entry_of(window(0, 1));
  forged.receipt[100] ^= std::byte{1};
  refused(forged, "signature is not its worker's");
  refused(seal(receipt, lower_, salt_), "audited by its own owner");
  refused(seal(receipt + 1, auditor_, salt_), "not a receipt that can be audited");
  refused(opening(receipt, auditor_, salt_), "has no seal");
  SealEntry other = seal(receipt, auditor_, salt_);
  other.seal = salt_;
  refused(other, "not its auditor's");
  refused(VerdictEntry{receipt, lower_.public_key(), Verdict::kFraud, {}}, "nothing is in dispute");
  add(seal(receipt, auditor_, salt_));
  refused(seal(receipt, auditor_, salt_), "twice");
  refused(opening(receipt, auditor_, hash_of("other")), "differs from its seal");
  add(opening(receipt, auditor_, salt_));
  refused(opening(receipt, auditor_, salt_), "opened twice");
  refused(seal(receipt, newcomer_, salt_), "after an opening");
  refused(VerdictEntry{receipt, newcomer_.public_key(), Verdict::kFraud, {}}, "not a party");
  now_ += 3'601;
  refused(seal(receipt - 1, auditor_, salt_), "not a receipt that can be audited");
}

TEST_F(BooksTest, WindowsOfARequestStandOneBehindTheOther) {
  const auto at = [this](std::uint32_t number, std::uint32_t positions, std::uint32_t prompt) {
    Receipt r = window(0, 0);
    r.slot.window = number;
    r.first_position = limits::kWindowPositions * number;
    r.positions = positions;
    r.prompt_positions = prompt;
    r.in_edge = sign_edge(in_edge(r), cluster_key(), cluster_);
    const ReceiptEntry entry = entry_of(r);
    latest_[0] = blake2b(entry.receipt);
    return entry;
  };
  const auto refused = [&](std::uint32_t number, std::uint32_t positions, std::uint32_t prompt) {
    const Hash256 latest = latest_[0];
    const std::string message = refusal(at(number, positions, prompt));
    latest_[0] = latest;
    return message.find("the first has ") != std::string::npos;
  };
  constexpr std::uint32_t kFull = limits::kWindowPositions;
  add(at(1, kFull, 7));
  EXPECT_TRUE(refused(0, kFull - 1, kFull - 1)) << "it ends before the next begins";
  EXPECT_TRUE(refused(0, kFull, kFull - 1)) << "a prompt behind what was generated";
  EXPECT_TRUE(refused(2, 5, 1));
  EXPECT_TRUE(refused(3, 5, 1)) << "and it need not be the next one";
  add(at(0, kFull, kFull));
  add(at(2, 5, 0));
  EXPECT_TRUE(refused(3, 5, 0)) << "one that is not full was the last";
}

TEST_F(BooksTest, ANewcomerServesNobodyAndEdgesMustHold) {
  Receipt r = window(0, 0);
  const Bytes bytes = *sign_receipt(r, cluster_key(), newcomer_);
  ReceiptEntry entry{client_.public_key(), {}};
  std::copy(bytes.begin(), bytes.end(), entry.receipt.begin());
  EXPECT_NE(refusal(entry).find("a newcomer may not serve"), std::string::npos);
  add_window(0, 0);
  r = window(1, 0);
  r.in_root = hash_of("what never came");
  EXPECT_NE(refusal(entry_of(r)).find("between stage 0 and stage 1: what went out"),
            std::string::npos);
}

TEST_F(BooksTest, WhereNobodyPaysNothingMoves) {
  const std::int64_t before = books_.balance({});
  ReceiptEntry entry = entry_of(window(0, 0));
  entry.payer = PublicKey();
  add(entry);
  EXPECT_TRUE(books_.postings().empty());
  EXPECT_EQ(books_.balance({}), before);
  EXPECT_EQ(books_.balance({Account::Kind::kEscrow, upper_.public_key()}), 0);
  latest_[0] = blake2b(entry.receipt);
  EXPECT_NE(refusal(entry).find("has one already"), std::string::npos);
  const std::uint64_t receipt = books_.entries() - 1;
  entry = entry_of(window(0, 1));
  entry.payer = PublicKey();
  add(entry);
  audit(receipt, auditor_, hash_of("boundary 0"));
  EXPECT_EQ(of(upper_).audited_right(), 1);
  EXPECT_TRUE(books_.postings().empty()) << "checking it is free as well";
}

TEST_F(BooksTest, OtherRulesAreSaid) {
  Policy policy;
  policy.veteran_rate = 1;
  Books other(policy);
  const Status applied = other.apply(log_[0]);
  ASSERT_FALSE(applied);
  EXPECT_NE(applied.error().message.find("other rules"), std::string::npos);
  EXPECT_FALSE(Books().apply(log_[1])) << "a ledger begins with its rules";
}

// From nothing, by anybody: the same books.
TEST_F(BooksTest, ADrawSelectsByStandingAndAnybodyDrawsAgain) {
  const std::uint64_t first = add_window(0, 0);
  const auto draw = [this](const SecretKey& by) {
    return DrawEntry{vrf_prove(by, draw_message(books_.entries(), books_.root(), cluster_key()))};
  };
  EXPECT_NE(refusal(draw(upper_)), "") << "not the cluster's";
  const DrawEntry early = draw(cluster_);
  const std::uint64_t second = add_window(1, 0);
  EXPECT_NE(refusal(early), "") << "over another checkpoint than the newest";
  EXPECT_EQ(books_.drawn(), 0u);
  EXPECT_EQ(add(draw(cluster_)), second + 1);
  EXPECT_EQ(books_.drawn(), second + 1);
  EXPECT_EQ(books_.selected(), (std::vector<std::uint64_t>{first, second}))
      << "of the first windows on probation all";
  EXPECT_TRUE(books_.draw()->selects(first, kMillion));

  // Those that were drawn over before are not drawn again; an audit that never came is counted.
  const std::uint64_t third = add_window(0, 1);
  add(draw(cluster_));
  EXPECT_EQ(books_.selected(), std::vector<std::uint64_t>{third});
  audit(first, auditor_, hash_of("boundary 0"));
  audit(third, auditor_, hash_of("something else"));
  now_ += 2 * Policy().audit_seconds;
  add_window(0, 2);
  EXPECT_EQ(books_.audits().draws, 2u);
  EXPECT_EQ(books_.audits().selected, 3u);
  EXPECT_EQ(books_.audits().agreed, 1u);
  EXPECT_EQ(books_.audits().disagreed, 1u);
  EXPECT_EQ(books_.audits().missed, 1u);

  Books again;
  for (const Bytes& entry : log_) ASSERT_TRUE(again.apply(entry));
  EXPECT_EQ(again.root(), books_.root());
  EXPECT_EQ(again.audits().missed, 1u);
}

TEST_F(BooksTest, ANewcomersAgreementDischargesNoDraw) {
  const std::uint64_t agreed = add_window(0, 0);
  const std::uint64_t both = add_window(0, 1);
  const std::uint64_t doubted = add_window(0, 2);
  add(DrawEntry{vrf_prove(cluster_, draw_message(books_.entries(), books_.root(), cluster_key()))});
  ASSERT_EQ(books_.audits().selected, 3u);
  audit(agreed, newcomer_, hash_of("boundary 0"));
  const Hash256 root = hash_of("boundary 1");
  for (const SecretKey* one : {&newcomer_, &auditor_}) add(seal(both, *one, root));
  for (const SecretKey* one : {&newcomer_, &auditor_}) add(opening(both, *one, root));
  audit(doubted, newcomer_, hash_of("something else"));
  now_ += 2 * Policy().audit_seconds;
  add_window(0, 3);
  EXPECT_EQ(books_.audits().missed, 1u) << "that to which only a newcomer agreed";
}

TEST_F(BooksTest, ADrawTakesTheRateThatAWorkerHasEarned) {
  for (std::uint32_t i = 0; i < 100; ++i) {
    audit(add_window(0, i), auditor_, hash_of("boundary " + std::to_string(i)));
  }
  const auto draw = [this] {
    return DrawEntry{
        vrf_prove(cluster_, draw_message(books_.entries(), books_.root(), cluster_key()))};
  };
  add(draw());
  std::vector<std::uint64_t> windows;
  for (std::uint32_t i = 100; i < 200; ++i) windows.push_back(add_window(0, i));
  add(draw());
  const std::int64_t rate = of(upper_).audit_rate(Policy(), now_);
  EXPECT_LT(rate, kMillion / 2);
  std::vector<std::uint64_t> expected;
  for (const std::uint64_t one : windows) {
    if (books_.draw()->selects(one, rate)) expected.push_back(one);
  }
  EXPECT_EQ(books_.selected(), expected);
  EXPECT_LT(expected.size(), 60u);
}

TEST_F(BooksTest, TheStagesOfAWindowAreDrawnTogether) {
  for (std::uint32_t i = 0; i < 60; ++i) {
    audit(add_window(0, i), auditor_, hash_of("boundary " + std::to_string(i)));
    audit(add_window(1, i), auditor_, hash_of("tokens " + std::to_string(i)));
  }
  const auto draw = [this] {
    return DrawEntry{
        vrf_prove(cluster_, draw_message(books_.entries(), books_.root(), cluster_key()))};
  };
  add(draw());
  ASSERT_EQ(of(upper_).audit_rate(Policy(), now_), of(lower_).audit_rate(Policy(), now_));
  const std::int64_t rate = of(upper_).audit_rate(Policy(), now_);
  std::vector<std::uint64_t> uppers;
  for (std::uint32_t i = 60; i < 260; ++i) {
    uppers.push_back(add_window(0, i));
    add_window(1, i);
  }
  add(draw());
  std::vector<std::uint64_t> expected;
  for (const std::uint64_t one : uppers) {
    if (!books_.draw()->selects(one, rate)) continue;
    expected.push_back(one);
    expected.push_back(one + 1);
  }
  EXPECT_EQ(books_.selected(), expected);
  EXPECT_LT(expected.size(), 2 * 200u);
  EXPECT_FALSE(expected.empty());
}

TEST_F(BooksTest, TheRefereesDrawIsSharedByStagesAndWhatItLeavesIsCounted) {
  add(MemberEntry{cluster_key(), hash_of("cluster"), true});
  std::vector<std::uint64_t> expected;
  std::vector<std::uint64_t> all;
  for (std::uint32_t i = 0; i < 800; ++i) {
    all.push_back(add_window(0, i));
    all.push_back(add_window(1, i));
  }
  add(DrawEntry{vrf_prove(cluster_, draw_message(books_.entries(), books_.root(), cluster_key()))});
  const std::int64_t rate = Policy().coordinator_rate;
  for (std::size_t i = 0; i < all.size(); i += 2) {
    if (!books_.draw()->selects_referee(all[i], rate)) continue;
    expected.push_back(all[i]);
    expected.push_back(all[i] + 1);
  }
  EXPECT_EQ(books_.refereed(rate), expected);
  EXPECT_EQ(books_.refereed(kMillion), all);
  EXPECT_TRUE(books_.refereed(0).empty());
  EXPECT_EQ(books_.audits().refereed, expected.size());
  ASSERT_GE(expected.size(), 2u) << "of 800 windows some";
  audit(expected[0], cluster_, hash_of("boundary 0"));  // whatever it says, it was computed
  audit(expected[1], auditor_, hash_of("another's"));
  add(VerdictEntry{expected[0], cluster_key(), Verdict::kFault, {}});
  add(VerdictEntry{expected[1], auditor_.public_key(), Verdict::kFault, {}});
  now_ += 2 * Policy().audit_seconds;
  add(ChangeEntry{upper_.public_key()});
  EXPECT_EQ(books_.audits().referee_missed, expected.size() - 1) << "an auditor is not the referee";
}

TEST_F(BooksTest, WhoCheckedSignaturesBeforeNeedNotAgain) {
  const std::uint64_t receipt = add_window(0, 0);
  audit(receipt, auditor_, hash_of("boundary 0"));
  Books own({}, EntrySignatures::kTrusted);
  for (const Bytes& entry : log_) ASSERT_TRUE(own.apply(entry));
  EXPECT_EQ(own.hash(), books_.hash());
  EXPECT_FALSE(own.apply(log_.back())) << "every other rule holds";
}

TEST_F(BooksTest, AFoldFromNothingComesToTheSame) {
  for (std::uint32_t i = 0; i < 5; ++i) {
    audit(add_window(0, i), auditor_, hash_of("boundary " + std::to_string(i)));
    add_window(1, i);
    now_ += 100;
  }
  add(ChangeEntry{lower_.public_key()});
  Books again;
  for (const Bytes& entry : log_) ASSERT_TRUE(again.apply(entry));
  EXPECT_EQ(again.hash(), books_.hash());
  std::int64_t sum = books_.balance({});
  for (const SecretKey* key : {&client_, &upper_, &lower_, &auditor_, &newcomer_}) {
    sum += books_.balance(spendable(key->public_key())) + books_.balance(escrow(key->public_key()));
  }
  EXPECT_EQ(sum, 0) << "credit is neither made nor lost";
  Books fewer;
  for (std::size_t i = 0; i + 1 < log_.size(); ++i) ASSERT_TRUE(fewer.apply(log_[i]));
  EXPECT_NE(fewer.hash(), books_.hash());
}

// "kind count credits" of each event of a key.
std::vector<std::string> history_of(const PublicKey& key, const std::vector<Bytes>& log) {
  Books books;
  History history(key);
  for (std::size_t i = 0; i < log.size(); ++i) {
    EXPECT_TRUE(books.apply(log[i]).ok());
    history.add(i, parse_entry(log[i]).value(), books);
  }
  std::vector<std::string> lines;
  for (const Event& event : history.events()) {
    lines.push_back(std::string(event_name(event.kind)) + " " + std::to_string(event.count) + " " +
                    std::to_string(event.credits));
  }
  return lines;
}

TEST_F(BooksTest, AHistoryTellsWhatHappenedToAKey) {
  add_window(0, 0);
  const std::uint64_t lower = add_window(1, 0);
  add_window(0, 1);
  audit(lower, auditor_, window(1, 0).out_root);
  audit(lower - 1, auditor_, salt_);
  add(VerdictEntry{lower - 1, upper_.public_key(), Verdict::kFraud, {}});
  now_ += 2 * kDay;
  add(ChangeEntry{lower_.public_key()});
  add_window(1, 1);

  const std::int64_t first = 4 * (24 + 40 * 5);
  const std::int64_t second = 4 * 64 * 5;
  const auto text = [](const std::string& what, std::int64_t count, std::int64_t credits) {
    return what + " " + std::to_string(count) + " " + std::to_string(credits);
  };
  EXPECT_EQ(history_of(upper_.public_key(), log_),
            (std::vector<std::string>{"vouched 1 0", text("served", 2, first + second),
                                      "was_doubted 1 0", text("fraud", 1, -first - second)}));
  EXPECT_EQ(history_of(lower_.public_key(), log_),
            (std::vector<std::string>{"vouched 1 0", text("served", 1, first), "was_right 1 0",
                                      "changed 1 0", text("served", 1, second)}));
  EXPECT_EQ(history_of(auditor_.public_key(), log_),
            (std::vector<std::string>{"vouched 1 0", text("checked", 1, 4 * 64),
                                      text("disagreed", 1, 0)}));
  const std::int64_t paid = 2 * first + second + 2 * (first / 10) + second / 10;
  EXPECT_EQ(history_of(client_.public_key(), log_),
            (std::vector<std::string>{"granted 1 1000000000", text("paid", 3, -paid),
                                      text("paid", 1, -second - second / 10)}));
}

TEST_F(BooksTest, AHistoryHasTheDisputesThatEndedUnjudged) {
  audit(add_window(0, 0), auditor_, hash_of("other"));
  add(VerdictEntry{books_.disputes().front(), {}, Verdict::kUnjudged, {}});
  for (const SecretKey& party : {upper_, auditor_}) {
    EXPECT_EQ(history_of(party.public_key(), log_).back(), "unjudged 1 0");
  }
  EXPECT_EQ(history_of(lower_.public_key(), log_), std::vector<std::string>{"vouched 1 0"});
}

TEST_F(BooksTest, AHistoryOfEscrowSetFree) {
  add_window(0, 0);
  now_ += Policy().escrow_idle_seconds + 1;
  add(VestEntry{upper_.public_key()});
  const std::int64_t free = 4 * (24 + 40 * 5) / 2;  // half waits for a regular's standing
  EXPECT_EQ(history_of(upper_.public_key(), log_).back(), "vested 1 " + std::to_string(free));
}

TEST_F(BooksTest, AHistoryIsBounded) {
  for (std::size_t i = 0; i < History::kMost + 5; ++i) {
    now_ += kDay;
    add(ChangeEntry{upper_.public_key()});
  }
  Books books;
  History history(upper_.public_key());
  for (std::size_t i = 0; i < log_.size(); ++i) {
    ASSERT_TRUE(books.apply(log_[i]).ok());
    history.add(i, parse_entry(log_[i]).value(), books);
  }
  EXPECT_EQ(history.events().size(), History::kMost);
  EXPECT_EQ(history.forgotten(), 6U);  // the changes and the joining, less what is kept
}

}  // namespace
}  // namespace hearth::ledger
