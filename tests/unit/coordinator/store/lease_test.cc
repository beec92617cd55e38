#include "coordinator/store/lease.h"

#include <gtest/gtest.h>

#include "tests/unit/coordinator/store/lease_world.h"

namespace hearth::coordinator {
namespace {

class TestClock final : public Clock {
 public:
  TimePoint now() const override { return time; }
  std::int64_t unix_seconds() const override { return 0; }
  TimePoint time = 1h;
};

class LeaseCandidateTest : public ::testing::Test {
 protected:
  static LeaseView held_by(const std::string& holder, std::uint64_t epoch,
                           std::uint64_t renewed = 1, bool is_watched = true) {
    LeaseView view;
    view.epoch = epoch;
    view.holder = holder;
    view.lasts = 2s;
    view.renewed = renewed;
    if (is_watched) view.standbys.push_back({"another one", "", ""});
    return view;
  }
  static LeaseView given_back(const std::string& holder, std::uint64_t epoch) {
    LeaseView view = held_by(holder, epoch, 100, false);
    view.lasts = 0s;
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
    mine.on_answer(given_back("other", 7));
    const auto take = mine.next();
    ASSERT_TRUE(take && take->kind == LeaseAsk::kTake && take->epoch == 7 && take->renewed == 100);
    mine.on_answer(held_by("me", 8, 101, is_watched));
    EXPECT_TRUE(mine.leads());
    EXPECT_EQ(mine.epoch(), 8U);
  }

  TestClock clock;
  LeaseCandidate mine{"me", clock};
  const Duration held = LeaseTimes().held();
};

TEST_F(LeaseCandidateTest, WaitsForTheEndOfALease) {
  EXPECT_EQ(asks(), LeaseAsk::kWatch);
  EXPECT_FALSE(mine.next().has_value()) << "one question at a time";
  const TimePoint begin = clock.time;
  LeaseView stepped = held_by("other", 7, 1);
  stepped.left = -1h;  // by a clock that was set
  mine.on_answer(stepped);
  EXPECT_FALSE(mine.leads());
  EXPECT_EQ(mine.left(), 2s) << "it counts by itself";
  EXPECT_FALSE(mine.next().has_value());
  clock.time = begin + 1900ms;
  EXPECT_EQ(asks(), LeaseAsk::kWatch);
  mine.on_answer(held_by("other", 7, 2));
  clock.time = begin + 3800ms;
  EXPECT_EQ(asks(), LeaseAsk::kWatch) << "it was renewed";
  mine.on_answer(held_by("other", 7, 2));
  clock.time = mine.wake_at();
  EXPECT_EQ(clock.time, begin + 3900ms);
  const auto take = mine.next();
  ASSERT_TRUE(take && take->kind == LeaseAsk::kTake);
  EXPECT_EQ(take->epoch, 7U);
  EXPECT_EQ(take->renewed, 2U);
  mine.on_answer(held_by("other", 7, 3));
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
  mine.on_answer(held_by("me", 8, 102));
  clock.time = asked + held - 1ms;
  EXPECT_TRUE(mine.leads());
  clock.time = asked + held;
  EXPECT_FALSE(mine.leads()) << "the lease counts from the question";
  EXPECT_EQ(asks(), LeaseAsk::kWatch);
  mine.on_answer(held_by("me", 8, 102));
  EXPECT_FALSE(mine.leads()) << "an epoch in which it has stopped does not come back";
  clock.time += 2s;
  EXPECT_EQ(asks(), LeaseAsk::kTake);
  mine.on_answer(held_by("me", 9, 103));
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
  mine.on_answer(given_back("me", 8));
  mine.on_notice();
  EXPECT_FALSE(mine.is_over());
  const TimePoint yields_until = clock.time + 2s;
  for (; clock.time < yields_until; clock.time = mine.wake_at()) {
    ASSERT_EQ(asks(), LeaseAsk::kWatch) << "others take it meanwhile";
    mine.on_answer(given_back("me", 8));
    ASSERT_GT(mine.wake_at(), clock.time);
  }
  EXPECT_EQ(asks(), LeaseAsk::kTake);
  mine.on_answer(held_by("me", 9, 101));
  EXPECT_TRUE(mine.leads()) << "there is no other one";
  mine.give_back();
  EXPECT_EQ(asks(), LeaseAsk::kRelease);
  mine.release();
  mine.on_answer(given_back("me", 9));
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
  mine.on_answer(held_by("other", 9));
  EXPECT_FALSE(mine.leads()) << "another coordinator started, and took the lease that had ended";
}

// A step of the store's clock hides it until it is shown again.
TEST_F(LeaseCandidateTest, AStandbyCountsForAWhileWhenTheStoreShowsNone) {
  lead();
  clock.time = mine.wake_at();
  EXPECT_EQ(asks(), LeaseAsk::kRenew);
  mine.on_answer(held_by("me", 8, 102, false));
  clock.time += 2s;
  EXPECT_FALSE(mine.leads());
}

TEST_F(LeaseCandidateTest, ATakeWhoseAnswerWasLostCountsFromItsQuestion) {
  EXPECT_EQ(asks(), LeaseAsk::kWatch);
  mine.on_answer(given_back("", 0));
  EXPECT_EQ(asks(), LeaseAsk::kTake);
  const TimePoint asked = clock.time;
  mine.on_answer(Error{ErrorCode::kUnavailable, "away"});
  EXPECT_FALSE(mine.leads());
  clock.time = mine.wake_at();
  mine.next();
  mine.on_answer(held_by("me", 1));
  EXPECT_TRUE(mine.leads());
  clock.time = asked + held;
  EXPECT_FALSE(mine.leads());
}

TEST_F(LeaseCandidateTest, ATakeThatIsFoundTooLateIsNotUsed) {
  EXPECT_EQ(asks(), LeaseAsk::kWatch);
  mine.on_answer(given_back("", 0));
  EXPECT_EQ(asks(), LeaseAsk::kTake);
  clock.time += held;
  mine.on_answer(held_by("me", 1));
  EXPECT_FALSE(mine.leads());
  EXPECT_FALSE(mine.holds());
}

TEST_F(LeaseCandidateTest, AnOlderCopyOfTheStoreIsNotFollowed) {
  lead(false);
  clock.time = mine.wake_at();
  EXPECT_EQ(asks(), LeaseAsk::kRenew);
  mine.on_answer(held_by("me", 3, 1, false));
  EXPECT_TRUE(mine.leads());
  clock.time += 2s;
  EXPECT_FALSE(mine.leads()) << "a coordinator that follows the copy may lead";
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
  constexpr std::uint64_t kSchedules = 200;
  LeaseWorld::Counts all;
  for (std::uint64_t seed = 1; seed <= kSchedules && !::testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const LeaseWorld::Counts one = LeaseWorld(seed).run();
    EXPECT_LE(one.longest_without_leader, 10s) << "starts, a late question and leases";
    all.epochs += one.epochs;
    all.acknowledged += one.acknowledged;
    all.refused += one.refused;
    all.copies += one.copies;
    all.alone += one.alone;
  }
  // Otherwise the schedules have shown nothing.
  EXPECT_GT(all.epochs, 5 * kSchedules);
  EXPECT_GT(all.acknowledged, 500 * kSchedules);
  EXPECT_GT(all.refused, kSchedules / 2) << "late writes of deposed leaders";
  EXPECT_GT(all.copies, kSchedules);
  RecordProperty("epochs", std::to_string(all.epochs));
  RecordProperty("acknowledged", std::to_string(all.acknowledged));
  RecordProperty("refused", std::to_string(all.refused));
  RecordProperty("copies", std::to_string(all.copies));
  RecordProperty("alone", std::to_string(all.alone));
}

}  // namespace
}  // namespace hearth::coordinator
