// What a coordinator may try (CATALOGUE.md, K): against each reader of the log that it writes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "ledger/selection.h"
#include "tests/attacks/ledger_world.h"

namespace hearth::attacks {
namespace {

using namespace ledger;

struct CoordinatorAttack : ::testing::Test {
  LedgerWorld world;
};

TEST_F(CoordinatorAttack, K01_SplitViewIsTwoSignedCheckpoints) {
  world.add_window(0, 0);
  std::vector<Bytes> other = world.log;
  world.add_window(1, 0);
  other.push_back(write_entry({world.now, GrantEntry{world.lower.public_key(), 5}}));
  const Image one = written(world.cluster, world.log);
  const Image two = written(world.cluster, other);
  EXPECT_EQ(fault_of(one), "") << "each alone is sound";
  EXPECT_EQ(fault_of(two), "");
  const Checkpoint here = checkpoint_of(one);
  const Checkpoint there = checkpoint_of(two);
  EXPECT_EQ(here.size, there.size);
  EXPECT_NE(here.root, there.root);
  EXPECT_EQ(here.log, there.log) << "and both are signed: that is the proof";
  EXPECT_TRUE(parse_checkpoint(as_bytes(here.text())) && parse_checkpoint(as_bytes(there.text())));
  EXPECT_NE(fault_of(two, here), "") << "who kept the one is not shown the other";
  EXPECT_NE(fault_of(one, there), "");
  // A witness signs no checkpoint that its own does not lead to.
  auto log = Log::open(std::make_unique<CrashDisk>(two), world.cluster).value();
  EXPECT_NE(log->offer(here.size)->old_root, here.root);
}

TEST_F(CoordinatorAttack, K02_ReceiptThatWasTakenAwayOrWrittenAnewIsSeen) {
  for (std::uint32_t i = 0; i < 6; ++i) world.add_window(0, i);
  const Image before = written(world.cluster, world.log);
  const Checkpoint kept = checkpoint_of(before);
  world.add_window(1, 0);
  EXPECT_EQ(fault_of(written(world.cluster, world.log), kept), "");
  const std::size_t receipts = world.log.size() - 7;
  for (std::size_t i = receipts; i + 1 < world.log.size(); ++i) {
    std::vector<Bytes> fewer = world.log;
    fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
    EXPECT_NE(fault_of(written(world.cluster, fewer), kept), "") << "entry " << i;
    Books books;
    if (i + 2 < world.log.size()) {
      EXPECT_NE(fault_of(written(world.cluster, fewer), {}, &books), "")
          << "without a checkpoint the worker's own chain shows it, entry " << i;
    }
  }
  EXPECT_NE(fault_of(written(world.cluster, {world.log.begin(), world.log.end() - 3}), kept), "");
}

TEST_F(CoordinatorAttack, K03_SparedFriendIsCountedByWhoeverReads) {
  // The first windows on probation are all drawn, a friend's too: it has no other draw to show.
  const std::uint64_t friends = world.add_window(0, 0);
  const std::uint64_t others = world.add_window(1, 0);
  DrawEntry forged = world.draw();
  forged.proof[5] ^= std::byte{1};
  EXPECT_NE(world.refusal(forged), "");
  world.add(world.draw());
  EXPECT_EQ(world.books.selected(), (std::vector<std::uint64_t>{friends, others}));
  world.audit(others, world.auditor, hash_of("tokens 0"));
  world.now += 2 * Policy().audit_seconds;
  world.add(GrantEntry{world.client.public_key(), 1});
  Books reader;
  EXPECT_EQ(fault_of(written(world.cluster, world.log), {}, &reader), "") << "the log is sound";
  EXPECT_EQ(reader.audits().selected, 2u);
  EXPECT_EQ(reader.audits().missed, 1u) << "and says what was not audited";
}

TEST_F(CoordinatorAttack, K04_GrindingTheOrderChoosesADrawWithoutWitnesses) {
  // An entry of no meaning in front of a draw, until the friend's window is not in it: this works.
  for (std::uint32_t i = 0; i < 60; ++i) world.audited(i, world.auditor);
  world.add(world.draw());
  const std::uint64_t friends = world.add_window(0, 60);
  const std::int64_t rate = world.of(world.upper).audit_rate(Policy(), world.now);
  ASSERT_LT(rate, kMillion);
  unsigned spared = 0;
  constexpr unsigned kTries = 200;
  for (unsigned i = 1; i <= kTries; ++i) {
    LedgerWorld tried = world;
    tried.add(GrantEntry{world.client.public_key(), i});
    tried.add(tried.draw());
    const std::vector<std::uint64_t>& selected = tried.books.selected();
    if (std::ranges::find(selected, friends) == selected.end()) ++spared;
  }
  EXPECT_GT(spared, 0u) << "a coordinator that tries orders finds one that suits it";
  // That each order draws anew, it cannot change: of 200 tries about as many select the window as
  // its rate says (99 %: 2.6 deviations).
  const double p = static_cast<double>(rate) / kMillion;
  const double deviation = std::sqrt(p * (1 - p) * kTries);
  EXPECT_NEAR(kTries - spared, p * kTries, 2.6 * deviation + 0.5);
}

TEST_F(CoordinatorAttack, K05_InventedVerdictIsRefusedWhereNobodyDisagreed) {
  const std::uint64_t entry = world.audited(0, world.auditor);
  const auto verdict = [](std::uint64_t at, const SecretKey& guilty) {
    return VerdictEntry{at, guilty.public_key(), Verdict::kFraud, hash_of("nothing")};
  };
  EXPECT_NE(world.refusal(verdict(entry, world.upper)).find("nothing is in dispute"),
            std::string::npos);
  EXPECT_NE(world.refusal(verdict(0, world.upper)), "") << "of no receipt";
  const std::uint64_t second = world.audited(1, world.auditor, false);
  EXPECT_NE(world.refusal(verdict(second, world.lower)).find("not a party"), std::string::npos);
  EXPECT_NE(world.refusal(EquivocationEntry{world.entry_of(world.window(0, 2)).receipt,
                                            world.entry_of(world.window(1, 2)).receipt}),
            "")
      << "two receipts that do not contradict each other";
  // With a friend who disagrees and evidence that no reader has seen, it gets its way: the books
  // know of the evidence only its hash.
  EXPECT_EQ(world.refusal(verdict(second, world.upper)), "");
}

TEST_F(CoordinatorAttack, K06_CreditIsMintedByGrantsAloneAndTheyShow) {
  world.add_window(0, 0);
  const std::uint64_t checked = world.add_window(1, 0);
  world.audit(checked, world.auditor, hash_of("tokens 0"));
  const auto total = [this] {
    std::int64_t sum = world.books.balance({});
    for (const SecretKey* key : {&world.client, &world.upper, &world.lower, &world.auditor,
                                 &world.newcomer, &world.cluster}) {
      sum +=
          world.spendable(*key) + world.books.balance({Account::Kind::kEscrow, key->public_key()});
    }
    return sum;
  };
  EXPECT_EQ(total(), 0);
  const std::int64_t before = -world.books.balance({});
  EXPECT_NE(world.refusal(GrantEntry{world.upper.public_key(), -1}), "");
  EXPECT_NE(world.refusal(GrantEntry{world.upper.public_key(), INT64_MAX}), "");
  world.add(GrantEntry{world.upper.public_key(), 77});
  EXPECT_EQ(-world.books.balance({}), before + 77) << "credit in circulation, which anybody reads";
  EXPECT_EQ(total(), 0);
  // Nothing else states an amount: any other bytes in an entry make it another one or none.
  ReceiptEntry receipt = world.entry_of(world.window(0, 1));
  Bytes longer = write_entry({world.now, receipt});
  longer.push_back(std::byte{1});
  Books copy = world.books;
  EXPECT_FALSE(copy.apply(longer));
  receipt.payer = world.newcomer.public_key();
  EXPECT_NE(world.refusal(receipt).find("falls to -"), std::string::npos)
      << "and no account pays what it does not have";
}

TEST_F(CoordinatorAttack, K08_CrashBetweenSequencingAndCheckpointLosesAndDoublesNothing) {
  for (std::uint32_t i = 0; i < 4; ++i) world.add_window(0, i);
  auto disk = std::make_unique<CrashDisk>();
  CrashDisk& written = *disk;
  auto log = Log::create(std::move(disk), world.cluster).value();
  std::vector<std::pair<std::size_t, std::uint64_t>> acknowledged;  // by steps of the disk
  for (const Bytes& entry : world.log) {
    ASSERT_TRUE(log->append(ByteSpan(entry)));
    acknowledged.emplace_back(written.steps(), log->size());
  }
  const std::size_t begun = acknowledged.front().first;
  for (std::size_t step = begun; step <= written.steps(); ++step) {
    std::uint64_t least = 0;
    for (const auto& [steps, size] : acknowledged) {
      if (steps <= step) least = size;
    }
    for (const unsigned choice : {0u, 1u, 3u, 4u}) {
      Books books;
      auto again =
          Log::open(std::make_unique<CrashDisk>(written.crash(step, choice)), world.cluster,
                    [&books](std::uint64_t, ByteSpan entry, const Hash256& leaf) {
                      return books.apply(entry, leaf);
                    });
      ASSERT_TRUE(again) << "step " << step << ": " << again.error().message;
      ASSERT_GE((*again)->size(), least) << "what was acknowledged is there";
      // It goes on where it stopped, and the books find nothing twice.
      for (std::uint64_t i = (*again)->size(); i < world.log.size(); ++i) {
        ASSERT_TRUE(books.apply(world.log[i]));
      }
      ASSERT_EQ(books.hash(), world.books.hash());
    }
  }
}

TEST_F(CoordinatorAttack, K09_LogThatWasRolledBackIsRefusedByWhoKeptACheckpoint) {
  for (std::uint32_t i = 0; i < 3; ++i) world.add_window(0, i);
  const Image older = written(world.cluster, {world.log.begin(), world.log.end() - 1});
  const Checkpoint newest = checkpoint_of(written(world.cluster, world.log));
  EXPECT_EQ(fault_of(older), "") << "it is a log like any other";
  EXPECT_NE(fault_of(older, newest).find("taken away"), std::string::npos);
  // A witness that had cosigned more: of the older log nothing, and of one that goes on from it the
  // proof that there are two.
  ledger::Offer offer;
  offer.checkpoint = checkpoint_of(older);
  const PublicKey log = world.cluster.public_key();
  EXPECT_EQ(judge(offer, newest, log).kind, Judgement::Kind::kRefused);
  auto went_on = Log::open(std::make_unique<CrashDisk>(older), world.cluster).value();
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(went_on->append(as_bytes("another")));
  const Judgement judged = judge(went_on->offer(newest.size).value(), newest, log);
  ASSERT_EQ(judged.kind, Judgement::Kind::kFork) << judged.why;
  EXPECT_TRUE(check_fork(*judged.fork));
  // Set back itself, it has nothing to hold against it.
  EXPECT_EQ(judge(went_on->offer(0).value(), std::nullopt, log).kind, Judgement::Kind::kExtends);
}

}  // namespace
}  // namespace hearth::attacks
