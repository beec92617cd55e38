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
  made->request.owner = owner;
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
  shares.refund("nobody", 5);
}

TEST(FairShare, AFullQueueOfOneOwnerDelaysAnotherByOneTurn) {
  Scheduler scheduler;
  scheduler.add_pool(Epoch(1), 4, 32, {"a"});
  for (std::uint64_t id = 1; id <= 100; ++id) {
    ASSERT_TRUE(scheduler.enqueue(of("busy", id, 10, 10)).ok());
  }
  for (int i = 0; i < 5; ++i) EXPECT_EQ(serve(scheduler, 10)->request.owner, "busy");
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
      --waiting[next->request.owner];
      used[next->request.owner] += fair_cost(next->prompt_tokens, next->answer.size());
      const auto [least, largest] =
          std::minmax_element(used.begin(), used.end(),
                              [](const auto& a, const auto& b) { return a.second < b.second; });
      ASSERT_LE(largest->second - least->second, 2 * most) << "seed " << seed << " turn " << turn;
    }
  }
}

TEST(FairShare, TheBackgroundYieldsToItsOwnerAloneAndNotForEver) {
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
  EXPECT_EQ(serve(scheduler, 10)->request.owner, "you") << "it yields to its own owner's alone";
}

std::vector<std::uint64_t> yielding(Scheduler& scheduler) {
  std::vector<std::uint64_t> ids;
  for (const auto& one : scheduler.to_yield()) ids.push_back(one->id.value);
  return ids;
}

TEST(FairShare, TheBackgroundGivesItsRoomToItsOwnersNext) {
  Scheduler scheduler;
  scheduler.add_pool(Epoch(1), 8, 32, {"a"});
  const auto run = [&](const std::string& owner, std::uint64_t id, bool background, bool yields) {
    const auto one = of(owner, id, 32, 32, background);
    one->request.yields = yields;
    EXPECT_TRUE(scheduler.enqueue(one).ok());
    EXPECT_EQ(scheduler.admit(), one);
    return one;
  };
  run("me", 1, true, false);
  const auto oldest = run("me", 2, true, true);
  const auto newest = run("me", 3, true, true);
  run("you", 4, true, true);
  ASSERT_TRUE(scheduler.enqueue(of("me", 5, 32, 32, true)).ok());
  EXPECT_FALSE(scheduler.admit());
  EXPECT_EQ(yielding(scheduler), (std::vector<std::uint64_t>{})) << "it may wait itself";
  ASSERT_TRUE(scheduler.enqueue(of("me", 6, 64, 32)).ok());
  EXPECT_FALSE(scheduler.admit());
  EXPECT_EQ(yielding(scheduler), (std::vector<std::uint64_t>{3, 2})) << "three pages are lacking";
  EXPECT_EQ(yielding(scheduler), (std::vector<std::uint64_t>{})) << "each is asked once";
  for (const auto& one : {oldest, newest}) {
    scheduler.end(*one);
    scheduler.release(*one);
  }
  EXPECT_EQ(scheduler.admit()->id, SequenceId(6));
}

TEST(FairShare, NobodyYieldsInVain) {
  Scheduler scheduler;
  scheduler.add_pool(Epoch(1), 6, 32, {"a"});
  std::vector<std::shared_ptr<Sequence>> ran;
  for (std::uint64_t id = 1; id <= 3; ++id) {
    ran.push_back(of(id == 3 ? "you" : "me", id, 32, 32, true));
    ran.back()->request.yields = true;
    ASSERT_TRUE(scheduler.enqueue(ran.back()).ok());
    ASSERT_TRUE(scheduler.admit());
  }
  const auto large = of("me", 4, 128, 64);
  ASSERT_TRUE(scheduler.enqueue(large).ok());
  EXPECT_EQ(yielding(scheduler), (std::vector<std::uint64_t>{})) << "all of theirs is too little";
  scheduler.end(*ran[2]);
  EXPECT_EQ(yielding(scheduler), (std::vector<std::uint64_t>{2, 1})) << "what ends leaves room too";
  scheduler.remove_waiting(large->id);
  const auto small = of("me", 5, 32, 32);
  ASSERT_TRUE(scheduler.enqueue(small).ok());
  EXPECT_EQ(yielding(scheduler), (std::vector<std::uint64_t>{})) << "their room is coming";
}

}  // namespace
}  // namespace hearth::coordinator
