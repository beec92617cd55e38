#include "node/proof/dispute_player.h"

#include <gtest/gtest.h>

#include "disputed.h"

namespace hearth::node {
namespace {

using ledger::DisputeGame;
using ledger::DisputeMove;
using ledger::DisputeRound;
using ledger::DisputeSide;
using ledger::TraceOp;
using ledger::TraceSlot;

constexpr std::uint64_t kStart = 1'000'000;

struct DisputePlayerTest : ::testing::Test {
  DisputePlayerTest() {
    liar = of.liar([](std::uint32_t position, const TraceSlot& slot, Bytes& value) {
      if (position == 5 && slot == TraceSlot{TraceOp::kGate, 1}) value[2] ^= std::byte{0xFF};
    });
    EXPECT_TRUE(of.differ(*liar, *of.honest));
    game.emplace(ledger::check_case(of.case_of(*liar, *of.honest)).value());
    game->begin(kStart);
  }
  DisputeMove honest_move() {
    return DisputePlayer(*of.honest, DisputeSide::kAuditor, of.auditor).move(*game).value();
  }
  DisputeMove liars_move() {
    return DisputePlayer(*liar, DisputeSide::kWorker, of.worker).move(*game).value();
  }
  // Both move until the round has come.
  void play_until(DisputeRound round) {
    while (!game->outcome() && game->round() != round) {
      ASSERT_TRUE(game->take(honest_move(), kStart).ok());
      ASSERT_TRUE(game->take(liars_move(), kStart).ok());
    }
  }

  Disputed of{disputed_model("llama"), {0, 2}};
  std::unique_ptr<Tracer> liar;
  std::optional<DisputeGame> game;
};

TEST_F(DisputePlayerTest, WhoMissesAMoveTwiceLoses) {
  ASSERT_TRUE(game->take(honest_move(), kStart).ok());
  game->expire(kStart + ledger::kMoveMs - 1);
  EXPECT_FALSE(game->outcome());
  game->expire(kStart + ledger::kMoveMs);
  EXPECT_FALSE(game->outcome()) << "it may be the network";
  EXPECT_EQ(game->deadline_ms(), kStart + 2 * ledger::kMoveMs);
  game->expire(kStart + 2 * ledger::kMoveMs);
  ASSERT_TRUE(game->outcome());
  EXPECT_TRUE(game->outcome()->lost[0]);
  EXPECT_FALSE(game->outcome()->lost[1]);
}

TEST_F(DisputePlayerTest, ALateMoveWithinTheRetryCounts) {
  ASSERT_TRUE(game->take(honest_move(), kStart).ok());
  game->expire(kStart + ledger::kMoveMs);
  ASSERT_TRUE(game->take(liars_move(), kStart + ledger::kMoveMs + 1).ok());
  EXPECT_EQ(game->number(), 1U);
  EXPECT_EQ(game->deadline_ms(), kStart + 2 * ledger::kMoveMs + 1);
  game->expire(kStart + 2 * ledger::kMoveMs + 1);
  EXPECT_FALSE(game->outcome()) << "the next round has its own retry";
}

TEST_F(DisputePlayerTest, WhoNeverMovesLosesOnEitherSide) {
  game->expire(kStart + ledger::kMoveMs);
  game->expire(kStart + 2 * ledger::kMoveMs);
  ASSERT_TRUE(game->outcome());
  EXPECT_TRUE(game->outcome()->lost[0] && game->outcome()->lost[1]);
}

TEST_F(DisputePlayerTest, OnlyItsOwnSignatureMakesAMove) {
  DisputeMove move = liars_move();
  move.payload[0] ^= std::byte{1};
  EXPECT_FALSE(game->take(move, kStart).ok());
  move = liars_move();
  move.side = DisputeSide::kAuditor;
  EXPECT_FALSE(game->take(move, kStart).ok()) << "signed by the other side";
  EXPECT_FALSE(game->outcome());
  EXPECT_EQ(game->moves(), 0U);
  const DisputeMove first = liars_move();
  ASSERT_TRUE(game->take(first, kStart).ok());
  EXPECT_FALSE(game->take(first, kStart).ok()) << "twice in a round";
  ASSERT_TRUE(game->take(honest_move(), kStart).ok());
  EXPECT_FALSE(game->take(first, kStart).ok()) << "of an earlier round";
}

TEST_F(DisputePlayerTest, WhoContradictsWhatItSignedLosesInEveryRound) {
  for (const DisputeRound round :
       {DisputeRound::kRows, DisputeRound::kTrace, DisputeRound::kPositions, DisputeRound::kSlots,
        DisputeRound::kChunks, DisputeRound::kElement}) {
    for (const bool longer : {false, true}) {
      game.emplace(ledger::check_case(of.case_of(*liar, *of.honest)).value());
      play_until(round);
      ASSERT_EQ(game->round(), round);
      Bytes payload = liars_move().payload;
      if (longer) payload.push_back(std::byte{});
      // Of kTrace behind root and shape, of the others at the beginning.
      if (!longer) payload[round == DisputeRound::kTrace ? 70 : 0] ^= std::byte{1};
      const auto move = ledger::sign_move(game->dispute().id, game->number(), DisputeSide::kWorker,
                                          std::move(payload), of.worker);
      ASSERT_TRUE(game->take(*move, kStart).ok());
      ASSERT_TRUE(game->outcome());
      EXPECT_TRUE(game->outcome()->lost[0]);
      EXPECT_FALSE(game->outcome()->lost[1]);
      EXPECT_NE(game->outcome()->why.find("contradicts"), std::string::npos);
    }
  }
}

// Its receipt is false and it opens the honest trace: that does not end in the row it signed.
TEST_F(DisputePlayerTest, ATraceOfAnotherRowIsNoWayOut) {
  play_until(DisputeRound::kTrace);
  DisputePlayer penitent(*of.honest, DisputeSide::kWorker, of.worker);
  ASSERT_TRUE(game->take(penitent.move(*game).value(), kStart).ok());
  ASSERT_TRUE(game->outcome());
  EXPECT_TRUE(game->outcome()->lost[0]);
}

TEST_F(DisputePlayerTest, ACaseThatIsNoneIsRefused) {
  const ledger::DisputeCase right = of.case_of(*liar, *of.honest);
  EXPECT_TRUE(ledger::check_case(right).ok());
  ledger::DisputeCase wrong = right;
  wrong.receipts.clear();
  EXPECT_FALSE(ledger::check_case(wrong).ok());
  wrong = right;
  wrong.receipts.push_back(wrong.receipts.front());
  EXPECT_FALSE(ledger::check_case(wrong).ok()) << "one window twice";
  wrong = right;
  wrong.receipts[0][120] ^= std::byte{1};
  EXPECT_FALSE(ledger::check_case(wrong).ok());
  wrong = right;
  wrong.opened_root.bytes[0] ^= std::byte{1};
  EXPECT_FALSE(ledger::check_case(wrong).ok()) << "not what was sealed";
  wrong = right;
  wrong.seal.receipt += 1;
  EXPECT_FALSE(ledger::check_case(wrong).ok());
  wrong = right;
  wrong.shape.layer_end = 3;
  EXPECT_FALSE(ledger::check_case(wrong).ok());
  wrong = of.case_of(*of.honest, *of.honest);
  EXPECT_FALSE(ledger::check_case(wrong).ok()) << "they say the same";
}

}  // namespace
}  // namespace hearth::node
