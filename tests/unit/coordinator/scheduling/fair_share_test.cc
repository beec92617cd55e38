#include "coordinator/scheduling/fair_share.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <vector>

#include "base/random.h"
#include "coordinator/scheduling/scheduler.h"

namespace hearth::coordinator {
namespace {

std::shared_ptr<Sequence> of(const std::string& owner, std::uint64_t id, std::uint32_t prompt,
                             std::uint32_t tokens, bool background = false) {
  auto made = std::make_shared<Sequence>();
  made->id = SequenceId(id);
  made->prompt_tokens = prompt;
  made->request.sampling.max_tokens = tokens;
  made->request.policy.owner = owner;
  made->request.background = background;
  return made;
}

// The next one starts and is over at once, with so many of its tokens.
std::shared_ptr<Sequence> serve(Scheduler& scheduler, std::uint32_t generated) {
  const auto one = scheduler.admit();
  if (!one) return one;
  one->admitted = true;
  one->answer.resize(generated);
  scheduler.end(*one);
  scheduler.release(*one);
  return one;
}

TEST(FairShare, WhoComesAfterAPauseHasSavedUpNothing) {
  FairShare shares;
  shares.arrive("a");
  for (int i = 0; i < 10; ++i) shares.charge("a", 100);
  shares.arrive("b");
  EXPECT_EQ(shares.served("b"), 900u) << "where the last one was when it went";
  shares.charge("b", 50);
  EXPECT_EQ(shares.served("b"), 950u);
  EXPECT_EQ(shares.served("a"), 1'000u);
  EXPECT_EQ(shares.waiting("a"), 1u);
  shares.leave("a");
  EXPECT_EQ(shares.waiting("a"), 0u);
}

TEST(FairShare, WhatWasNotNeededComesBackButNoMore) {
  FairShare shares;
  shares.arrive("a");
  shares.charge("a", 1'000);
  shares.refund("a", 900);
  EXPECT_EQ(shares.served("a"), 100u);
  shares.arrive("b");
  shares.charge("b", 500);
  shares.charge("b", 1);  // the floor is at 500 now
  shares.refund("b", 400);
  EXPECT_EQ(shares.served("b"), 500u);
  shares.refund("unknown", 5);
}

TEST(FairShare, AFullQueueOfOneOwnerDelaysAnotherByOneTurn) {
  Scheduler scheduler;
  scheduler.add_pool(Epoch(1), 4, 32, {"a"});
  for (std::uint64_t id = 1; id <= 100; ++id) {
    ASSERT_TRUE(scheduler.enqueue(of("busy", id, 10, 10)).ok());
  }
  for (int i = 0; i < 5; ++i) EXPECT_EQ(serve(scheduler, 10)->request.policy.owner, "busy");
  ASSERT_TRUE(scheduler.enqueue(of("guest", 200, 10, 10)).ok());
  EXPECT_EQ(serve(scheduler, 10)->id, SequenceId(200));
  EXPECT_EQ(serve(scheduler, 10)->id, SequenceId(6)) << "of one owner the first comes first";
}

// The bound of the paper: two owners who always wait are never further apart than twice what one
// sequence may cost, whatever they ask for, use of it, and how many they are.
TEST(FairShare, OwnersWhoAlwaysWaitGetTheSame) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SeededRandom random(seed);
    Scheduler scheduler;
    scheduler.add_pool(Epoch(1), 64, 32, {"a"});
    std::map<std::string, std::uint64_t> used;
    std::map<std::string, std::uint32_t> waiting;
    const std::uint64_t owners = 2 + random.next() % 5;
    for (std::uint64_t i = 0; i < owners; ++i) used[std::string(1, static_cast<char>('a' + i))] = 0;
    std::uint64_t id = 0;
    std::uint64_t most = 0;
    for (int turn = 0; turn < 2'000; ++turn) {
      for (const auto& [owner, _] : used) {
        while (waiting[owner] < 3) {
          const bool greedy = owner == "a";
          const auto prompt = static_cast<std::uint32_t>(1 + random.next() % (greedy ? 400 : 40));
          const auto tokens = static_cast<std::uint32_t>(1 + random.next() % (greedy ? 300 : 30));
          most = std::max(most, fair_cost(prompt, tokens));
          ASSERT_TRUE(scheduler.enqueue(of(owner, ++id, prompt, tokens)).ok());
          ++waiting[owner];
        }
      }
      const auto next = scheduler.admit();
      ASSERT_TRUE(next);
      next->admitted = true;
      const std::uint32_t tokens = next->request.sampling.max_tokens;
      next->answer.resize(1 + random.next() % tokens);
      scheduler.end(*next);
      scheduler.release(*next);
      --waiting[next->request.policy.owner];
      used[next->request.policy.owner] += fair_cost(next->prompt_tokens, next->answer.size());
      const auto [least, largest] =
          std::minmax_element(used.begin(), used.end(),
                              [](const auto& a, const auto& b) { return a.second < b.second; });
      ASSERT_LE(largest->second - least->second, 2 * most) << "seed " << seed << " turn " << turn;
    }
  }
}

TEST(FairShare, TheBackgroundWaitsForItsOwnerAloneAndNotForEver) {
  Scheduler scheduler;
  scheduler.add_pool(Epoch(1), 4, 32, {"a"});
  std::uint64_t id = 0;
  ASSERT_TRUE(scheduler.enqueue(of("me", ++id, 10, 10, true)).ok());
  ASSERT_TRUE(scheduler.enqueue(of("me", ++id, 10, 10, true)).ok());
  for (int i = 0; i < 9; ++i) ASSERT_TRUE(scheduler.enqueue(of("me", ++id, 10, 10)).ok());
  std::vector<std::uint64_t> order;
  while (const auto one = serve(scheduler, 10)) order.push_back(one->id.value);
  EXPECT_EQ(order, (std::vector<std::uint64_t>{3, 4, 5, 6, 1, 7, 8, 9, 10, 2, 11}));

  ASSERT_TRUE(scheduler.enqueue(of("you", ++id, 10, 10, true)).ok());
  ASSERT_TRUE(scheduler.enqueue(of("me", ++id, 10, 10)).ok());
  EXPECT_EQ(serve(scheduler, 10)->request.policy.owner, "you")
      << "it waits for requests of its own key alone";
}

// An owner pays for the tokens that it got, wherever its sequence ended.
TEST(FairShare, ALostSequenceThatEndsIsRefunded) {
  enum class End { kCancelledWhileWaiting, kExpired, kEndedBeforeTheLoss, kEndedWithThePipeline };
  for (const End end : {End::kCancelledWhileWaiting, End::kExpired, End::kEndedBeforeTheLoss,
                        End::kEndedWithThePipeline}) {
    Scheduler scheduler;
    scheduler.add_pool(Epoch(1), 100, 32, {"a"});
    const auto one = of("me", 1, 10, 1'000);
    ASSERT_TRUE(scheduler.enqueue(one).ok());
    ASSERT_EQ(scheduler.admit(), one);
    one->admitted = true;
    one->answer.resize(5);
    EXPECT_EQ(scheduler.served("me"), fair_cost(10, 1'000));
    if (end == End::kEndedBeforeTheLoss) scheduler.end(*one);
    ASSERT_EQ(scheduler.remove_pool(Epoch(1)).size(), 1U);
    if (end == End::kEndedWithThePipeline) scheduler.end(*one);
    if (end == End::kCancelledWhileWaiting || end == End::kExpired) {
      scheduler.requeue({one});
      EXPECT_EQ(scheduler.served("me"), fair_cost(10, 1'000)) << "it may still have them";
      scheduler.remove_waiting(one->id);
      if (end == End::kExpired) scheduler.end(*one);
    }
    EXPECT_EQ(scheduler.served("me"), fair_cost(10, 5)) << static_cast<int>(end);
  }
}

// Every token frame asks for admission; only what changes it is worth putting the queue in order.
TEST(FairShare, AdmissionCostsNothingWhileNothingChanges) {
  Scheduler scheduler;
  scheduler.add_pool(Epoch(1), 2, 32, {"a"});
  const auto runs = of("me", 1, 10, 10);
  ASSERT_TRUE(scheduler.enqueue(runs).ok());
  ASSERT_EQ(scheduler.admit(), runs);
  for (std::uint64_t id = 2; id <= 100; ++id) {
    ASSERT_TRUE(scheduler.enqueue(of("me", id, 32, 32)).ok());
  }
  EXPECT_FALSE(scheduler.admit());
  const std::uint64_t before = scheduler.orderings();
  for (int frame = 0; frame < 1'000; ++frame) {
    scheduler.take_pace(Epoch(1), std::chrono::milliseconds(5), {});
    EXPECT_FALSE(scheduler.pop_unfit());
    EXPECT_FALSE(scheduler.admit());
  }
  EXPECT_EQ(scheduler.orderings(), before);
  scheduler.end(*runs);
  scheduler.release(*runs);
  EXPECT_EQ(scheduler.admit()->id, SequenceId(2));
}

}  // namespace
}  // namespace hearth::coordinator
