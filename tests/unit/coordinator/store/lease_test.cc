#include "coordinator/store/lease.h"

#include <gtest/gtest.h>

#include "tests/unit/coordinator/store/lease_world.h"

namespace hearth::coordinator {
namespace {

class LeaseClock final : public Clock {
 public:
  TimePoint now() const override { return time; }
  std::int64_t unix_seconds() const override { return 0; }
  TimePoint time = 1h;
};

class LeaseCandidateTest : public ::testing::Test {
 protected:
  LeaseView held_by(const std::string& holder, std::uint64_t epoch, Duration left,
                    bool is_watched = true) const {
    LeaseView view;
    view.epoch = epoch;
    view.holder = holder;
    view.left = left;
    if (is_watched) view.standbys.push_back({"another one", "", ""});
    return view;
  }
  LeaseAsk asks() {
    const auto question = mine.next();
    EXPECT_TRUE(question.has_value());
    return question ? question->kind : LeaseAsk::kRelease;
  }
  // Leads in epoch 8.
  void lead(bool is_watched = true) {
    EXPECT_EQ(asks(), LeaseAsk::kWatch);
    mine.on_answer(held_by("other", 7, 0s));
    const auto take = mine.next();
    ASSERT_TRUE(take && take->kind == LeaseAsk::kTake && take->epoch == 7);
    mine.on_answer(held_by("me", 8, 2s, is_watched));
    EXPECT_TRUE(mine.leads());
    EXPECT_EQ(mine.epoch(), 8U);
  }

  LeaseClock clock;
  LeaseCandidate mine{"me", clock};
};

TEST_F(LeaseCandidateTest, WaitsForTheEndOfALease) {
  EXPECT_EQ(asks(), LeaseAsk::kWatch);
  EXPECT_FALSE(mine.next().has_value()) << "one question at a time";
  mine.on_answer(held_by("other", 7, 300ms));
  EXPECT_FALSE(mine.leads());
  EXPECT_FALSE(mine.next().has_value());
  clock.time = mine.wake_at();
  EXPECT_EQ(asks(), LeaseAsk::kTake);
  mine.on_answer(held_by("other", 7, 2s));
  EXPECT_FALSE(mine.leads()) << "it was renewed at the last moment";
  mine.on_notice();
  EXPECT_EQ(asks(), LeaseAsk::kWatch);
}

TEST_F(LeaseCandidateTest, RenewsAndStopsWhenItsLeaseHasEnded) {
  lead();
  clock.time = mine.wake_at();
  EXPECT_EQ(asks(), LeaseAsk::kRenew);
  const TimePoint asked = clock.time;
  clock.time += 700ms;
  mine.on_answer(held_by("me", 8, 2s));
  clock.time = asked + 2s - 1ms;
  EXPECT_TRUE(mine.leads());
  clock.time = asked + 2s;
  EXPECT_FALSE(mine.leads()) << "the lease counts from the question";
  EXPECT_EQ(asks(), LeaseAsk::kWatch);
  mine.on_answer(held_by("me", 8, 200ms));
  EXPECT_FALSE(mine.leads()) << "an epoch in which it has stopped does not come back";
  clock.time = mine.wake_at();
  EXPECT_EQ(asks(), LeaseAsk::kTake);
  mine.on_answer(held_by("me", 9, 2s));
  EXPECT_TRUE(mine.leads());
  EXPECT_EQ(mine.epoch(), 9U);
}

TEST_F(LeaseCandidateTest, WhatIsGivenBackIsForAnotherOneFirst) {
  lead();
  mine.give_back();
  EXPECT_FALSE(mine.leads());
  const auto back = mine.next();
  ASSERT_TRUE(back.has_value());
  EXPECT_EQ(back->kind, LeaseAsk::kRelease);
  EXPECT_EQ(back->epoch, 8U);
  mine.on_answer(held_by("me", 8, 0s));
  mine.on_notice();
  EXPECT_FALSE(mine.next().has_value()) << "others take it meanwhile";
  EXPECT_FALSE(mine.is_over());
  clock.time += 2s;
  EXPECT_EQ(asks(), LeaseAsk::kWatch);
  mine.on_answer(held_by("me", 8, -2s));
  clock.time = mine.wake_at();
  EXPECT_EQ(asks(), LeaseAsk::kTake);
  mine.on_answer(held_by("me", 9, 2s));
  EXPECT_TRUE(mine.leads()) << "there is no other one";
  mine.give_back();
  EXPECT_EQ(asks(), LeaseAsk::kRelease);
  mine.release();
  mine.on_answer(held_by("me", 9, 0s));
  EXPECT_TRUE(mine.is_over());
}

TEST_F(LeaseCandidateTest, ALeaderAloneLeadsOnWhileTheStoreIsAway) {
  lead(false);
  for (int i = 0; i < 100; ++i) {
    clock.time = mine.wake_at();
    EXPECT_EQ(asks(), LeaseAsk::kRenew);
    mine.on_answer(Error{ErrorCode::kUnavailable, "away"});
    EXPECT_TRUE(mine.leads());
  }
  EXPECT_FALSE(mine.holds());
  clock.time = mine.wake_at();
  EXPECT_EQ(asks(), LeaseAsk::kRenew);
  mine.on_answer(held_by("other", 9, 1s));
  EXPECT_FALSE(mine.leads()) << "another coordinator started, and took the lease that had ended";
}

TEST_F(LeaseCandidateTest, ATakeWhoseAnswerWasLostCounts) {
  EXPECT_EQ(asks(), LeaseAsk::kWatch);
  mine.on_answer(held_by("", 0, 0s));
  EXPECT_EQ(asks(), LeaseAsk::kTake);
  mine.on_answer(Error{ErrorCode::kUnavailable, "away"});
  EXPECT_FALSE(mine.leads());
  clock.time = mine.wake_at();
  mine.next();
  mine.on_answer(held_by("me", 1, 1s));
  EXPECT_TRUE(mine.leads());
}

TEST_F(LeaseCandidateTest, AnOlderCopyOfTheStoreIsNotFollowed) {
  lead();
  clock.time = mine.wake_at();
  EXPECT_EQ(asks(), LeaseAsk::kRenew);
  mine.on_answer(held_by("me", 3, 100s));
  EXPECT_TRUE(mine.leads());
  clock.time += 2s;
  EXPECT_FALSE(mine.leads()) << "its answer did not renew the lease";
}

TEST_F(LeaseCandidateTest, ReleasesWhatItHolds) {
  lead();
  mine.release();
  EXPECT_FALSE(mine.leads());
  const auto question = mine.next();
  ASSERT_TRUE(question && question->kind == LeaseAsk::kRelease);
  EXPECT_EQ(question->epoch, 8U);
  mine.on_answer(Error{ErrorCode::kUnavailable, "away"});
  clock.time += 10s;
  EXPECT_FALSE(mine.next().has_value()) << "it is the last question";
}

TEST(LeaseScheduleTest, OneLeaderActsInAnEpochAndNoAcknowledgedEntryIsLost) {
  LeaseWorld::Counts all;
  for (std::uint64_t seed = 1; seed <= 100 && !::testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const LeaseWorld::Counts one = LeaseWorld(seed).run();
    EXPECT_LE(one.longest_without_leader, 6s) << "a start, a late question and a lease";
    all.epochs += one.epochs;
    all.acknowledged += one.acknowledged;
    all.refused += one.refused;
  }
  // Otherwise the schedules have shown nothing.
  EXPECT_GT(all.epochs, 500U);
  EXPECT_GT(all.acknowledged, 20'000U);
  EXPECT_GT(all.refused, 20U) << "late writes of deposed leaders";
  RecordProperty("epochs", std::to_string(all.epochs));
  RecordProperty("acknowledged", std::to_string(all.acknowledged));
  RecordProperty("refused", std::to_string(all.refused));
}

}  // namespace
}  // namespace hearth::coordinator
