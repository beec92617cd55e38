#include "coordinator/scheduling/scheduler.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/limits.h"

namespace hearth::coordinator {
namespace {

std::shared_ptr<Sequence> new_sequence(std::uint64_t id, std::uint32_t prompt,
                                       std::uint32_t tokens) {
  auto made = std::make_shared<Sequence>();
  made->id = SequenceId(id);
  made->prompt_tokens = prompt;
  made->request.sampling.max_tokens = tokens;
  return made;
}

TEST(Scheduler, ReservesRoundedPagesAndGivesThemBackOnRelease) {
  Scheduler scheduler;
  scheduler.add_pool(Epoch(1), 4, 32, {"a", "b"});
  ASSERT_TRUE(scheduler.enqueue(new_sequence(1, 30, 3)).ok());
  const auto admitted = scheduler.admit();
  ASSERT_TRUE(admitted);
  EXPECT_EQ(admitted->pages, 2u);
  EXPECT_EQ(scheduler.pools().at(Epoch(1)).reserved, 2u);
  scheduler.end(*admitted);
  EXPECT_EQ(scheduler.running(), 1u) << "its KV is still held";
  scheduler.release(*admitted);
  scheduler.release(*admitted);
  EXPECT_EQ(scheduler.pools().at(Epoch(1)).reserved, 0u);
  EXPECT_EQ(scheduler.pools().at(Epoch(1)).running, 0u);
  EXPECT_EQ(scheduler.running(), 0u);
}

TEST(Scheduler, APipelineRunsNoMoreSequencesThanItHasStatesFor) {
  Scheduler scheduler;
  scheduler.add_pool(Epoch(1), 40, 32, {"a", "b"}, false, 2);
  for (std::uint64_t id = 1; id <= 3; ++id) {
    ASSERT_TRUE(scheduler.enqueue(new_sequence(id, 20, 4)).ok());
  }
  const auto first = scheduler.admit();
  ASSERT_TRUE(first);
  ASSERT_TRUE(scheduler.admit());
  EXPECT_FALSE(scheduler.admit()) << "pages are left, and no state";
  scheduler.add_pool(Epoch(2), 40, 32, {"c"}, false, 1);
  scheduler.close_pool(Epoch(2), false);
  EXPECT_FALSE(scheduler.others_have_room(Epoch(1))) << "one state for two sequences";
  scheduler.close_pool(Epoch(2), true);
  scheduler.end(*first);
  EXPECT_FALSE(scheduler.admit()) << "its state is still held";
  scheduler.release(*first);
  const auto third = scheduler.admit();
  ASSERT_TRUE(third);
  EXPECT_EQ(third->epoch, Epoch(1));
}

TEST(Scheduler, CountsWhatRunsAndWaitsForOneOwner) {
  Scheduler scheduler;
  scheduler.add_pool(Epoch(1), 2, 32, {"a", "b"});
  for (std::uint64_t id = 1; id <= 3; ++id) {
    const auto one = new_sequence(id, 20, 4);
    one->request.policy.owner = id == 1 ? "the audits" : "";
    ASSERT_TRUE(scheduler.enqueue(one).ok());
  }
  EXPECT_EQ(scheduler.waiting_of("the audits"), 1u);
  while (scheduler.admit()) {
  }
  EXPECT_EQ(scheduler.running(), 2u);
  EXPECT_EQ(scheduler.running_of("the audits") + scheduler.waiting_of("the audits"), 1u);
  EXPECT_EQ(scheduler.running_of("") + scheduler.waiting_of(""), 2u);
}

TEST(Scheduler, FirstComeFirstServedEvenWhenALaterOneWouldFit) {
  Scheduler scheduler;
  scheduler.add_pool(Epoch(1), 4, 32, {"a", "b"});
  ASSERT_TRUE(scheduler.enqueue(new_sequence(1, 64, 32)).ok());
  ASSERT_TRUE(scheduler.enqueue(new_sequence(2, 64, 32)).ok());
  ASSERT_TRUE(scheduler.enqueue(new_sequence(3, 1, 1)).ok());
  const auto first = scheduler.admit();
  EXPECT_EQ(first->id, SequenceId(1));
  EXPECT_FALSE(scheduler.admit()) << "3 fits, but 2 came before it";
  scheduler.release(*first);
  EXPECT_EQ(scheduler.admit()->id, SequenceId(2));
  EXPECT_EQ(scheduler.admit()->id, SequenceId(3));
}

TEST(Scheduler, ChoosesThePipelineWithTheMostFreePages) {
  Scheduler scheduler;
  scheduler.add_pool(Epoch(1), 4, 32, {"a", "b"});
  scheduler.add_pool(Epoch(2), 6, 32, {"a", "b"});
  std::vector<std::uint64_t> epochs;
  for (std::uint64_t id = 1; id <= 4; ++id) {
    ASSERT_TRUE(scheduler.enqueue(new_sequence(id, 32, 32)).ok());
    epochs.push_back(scheduler.admit()->epoch.value);
  }
  EXPECT_EQ(epochs, (std::vector<std::uint64_t>{2, 1, 2, 1}));
}

// A conversation of a scope, `turn` times as long as its first turn.
std::shared_ptr<Sequence> conversation(std::uint64_t id, std::uint32_t turn) {
  auto made = new_sequence(id, 64 * turn, 32);
  for (std::uint32_t i = 0; i < made->prompt_tokens; ++i) {
    made->request.prompt.push_back(static_cast<TokenId>(i));
  }
  made->scope = blake2b({});
  return made;
}

TEST(Scheduler, ARequestGoesWhereItsBeginningWasComputed) {
  Scheduler scheduler;
  scheduler.add_pool(Epoch(1), 8, 32, {"a", "b"});
  scheduler.add_pool(Epoch(2), 20, 32, {"c", "d"});
  ASSERT_TRUE(scheduler.enqueue(conversation(1, 1)).ok());
  const auto first = scheduler.admit();
  ASSERT_EQ(first->epoch, Epoch(2)) << "the one with more room";
  ASSERT_TRUE(scheduler.enqueue(new_sequence(2, 400, 100)).ok());
  const auto other = scheduler.admit();
  ASSERT_EQ(other->epoch, Epoch(2)) << "the only one with enough room";
  scheduler.end(*first);
  scheduler.release(*first);
  ASSERT_TRUE(scheduler.enqueue(new_sequence(3, 64, 32)).ok());
  const auto plain = scheduler.admit();
  EXPECT_EQ(plain->epoch, Epoch(1)) << "that has more room now";
  scheduler.end(*plain);
  scheduler.release(*plain);
  ASSERT_TRUE(scheduler.enqueue(conversation(4, 1)).ok());
  EXPECT_EQ(scheduler.admit()->epoch, Epoch(2)) << "that computed its beginning";
}

// Its pages are there, but what a client pays rests on clients' requests.
TEST(Scheduler, ARequestGoesWhereAnAuditComputedItsBeginning) {
  Scheduler scheduler;
  scheduler.add_pool(Epoch(1), 8, 32, {"a", "b"});
  const auto audit = conversation(1, 1);
  audit->request.origin = Origin::kAudit;
  ASSERT_TRUE(scheduler.enqueue(audit).ok());
  ASSERT_EQ(scheduler.admit(), audit);
  scheduler.end(*audit);
  scheduler.release(*audit);
  scheduler.add_pool(Epoch(2), 20, 32, {"c", "d"});
  ASSERT_TRUE(scheduler.enqueue(conversation(2, 1)).ok());
  const auto client = scheduler.admit();
  EXPECT_EQ(client->epoch, Epoch(1)) << "the other has more room";
  EXPECT_EQ(scheduler.cached_most(*client), kPrefixPage - 1);
}

TEST(Scheduler, APipelineThatKeepsNoPrefixesAttractsNoConversation) {
  Scheduler scheduler;
  scheduler.add_pool(Epoch(1), 8, 32, {"a", "b"}, false, 8, false);
  ASSERT_TRUE(scheduler.enqueue(conversation(1, 1)).ok());
  const auto first = scheduler.admit();
  scheduler.end(*first);
  scheduler.release(*first);
  scheduler.add_pool(Epoch(2), 20, 32, {"c", "d"}, false, 8, false);
  ASSERT_TRUE(scheduler.enqueue(conversation(2, 1)).ok());
  const auto second = scheduler.admit();
  EXPECT_EQ(second->epoch, Epoch(2)) << "that has more room";
  EXPECT_EQ(scheduler.cached_most(*second), 0U);
}

TEST(Scheduler, WhoHoldsABeginningAndHasNoRoomIsNotWaitedFor) {
  Scheduler scheduler;
  scheduler.add_pool(Epoch(1), 7, 32, {"a", "b"});
  scheduler.add_pool(Epoch(2), 8, 32, {"c", "d"});
  ASSERT_TRUE(scheduler.enqueue(conversation(1, 1)).ok());
  const auto first = scheduler.admit();
  ASSERT_EQ(first->epoch, Epoch(2));
  scheduler.end(*first);
  scheduler.release(*first);
  ASSERT_TRUE(scheduler.enqueue(new_sequence(2, 40, 20)).ok());
  const auto busy = scheduler.admit();
  ASSERT_EQ(busy->epoch, Epoch(2));
  ASSERT_TRUE(scheduler.enqueue(conversation(3, 2)).ok());
  const auto second = scheduler.admit();
  EXPECT_EQ(second->epoch, Epoch(2)) << "6 pages are free there, and it has 2 of the 5 it needs";
  ASSERT_TRUE(scheduler.enqueue(conversation(4, 2)).ok());
  EXPECT_EQ(scheduler.admit()->epoch, Epoch(1)) << "there it starts sooner";
}

using std::chrono::milliseconds;

// Epoch 1 has the least room.
Scheduler two_measured(milliseconds first, milliseconds second) {
  Scheduler scheduler;
  scheduler.add_pool(Epoch(1), 100, 32, {"a", "b"});
  scheduler.add_pool(Epoch(2), 200, 32, {"c", "d"});
  const TimePoint now = TimePoint() + std::chrono::hours(1);
  scheduler.take_pace(Epoch(1), first, now);
  scheduler.take_pace(Epoch(2), second, now);
  return scheduler;
}

Epoch next(Scheduler& scheduler, std::uint64_t id) {
  EXPECT_TRUE(scheduler.enqueue(new_sequence(id, 32, 32)).ok());
  return scheduler.admit()->epoch;
}

TEST(Scheduler, ChoosesThePipelineThatIsExpectedToBeTheQuickest) {
  Scheduler scheduler = two_measured(milliseconds(10), milliseconds(45));
  // With one more each: 10 ms, 20 and 30, all far from 45.
  for (std::uint64_t id = 1; id <= 3; ++id) EXPECT_EQ(next(scheduler, id), Epoch(1)) << id;
  EXPECT_EQ(next(scheduler, 4), Epoch(2)) << "40 and 45 are alike, and it has more room";
  EXPECT_EQ(next(scheduler, 5), Epoch(1)) << "two on the other would take 90";
}

TEST(Scheduler, NoPipelineIsPassedOverForOneThatIsHardlyQuicker) {
  Scheduler scheduler = two_measured(milliseconds(10), milliseconds(11));
  EXPECT_EQ(next(scheduler, 1), Epoch(2));
}

TEST(Scheduler, APipelineThatIsNotMeasuredIsTriedWhereItRunsNoMore) {
  Scheduler scheduler = two_measured(milliseconds(10), milliseconds(11));
  scheduler.add_pool(Epoch(3), 300, 32, {"e"});
  EXPECT_EQ(next(scheduler, 1), Epoch(3));
  EXPECT_EQ(next(scheduler, 2), Epoch(2)) << "3 is being measured";
}

TEST(Scheduler, WhatWasMeasuredLongAgoIsNotBelieved) {
  Scheduler scheduler = two_measured(milliseconds(10), milliseconds(500));
  EXPECT_EQ(next(scheduler, 1), Epoch(1));
  const TimePoint later = TimePoint() + std::chrono::hours(1) + std::chrono::seconds(61);
  scheduler.take_pace(Epoch(1), milliseconds(10), later);
  EXPECT_EQ(next(scheduler, 2), Epoch(2));
}

TEST(Scheduler, TheQuickestWithoutRoomIsPassedOver) {
  Scheduler scheduler = two_measured(milliseconds(10), milliseconds(500));
  ASSERT_TRUE(scheduler.enqueue(new_sequence(1, 32 * 99, 1)).ok());
  EXPECT_EQ(scheduler.admit()->epoch, Epoch(1));
  EXPECT_EQ(next(scheduler, 2), Epoch(2));
}

std::uint32_t fill(Scheduler& scheduler, const std::string& owner, std::uint64_t first_id) {
  for (std::uint32_t count = 0;; ++count) {
    auto one = new_sequence(first_id + count, 1, 1);
    one->request.policy.owner = owner;
    const Status queued = scheduler.enqueue(std::move(one));
    if (queued.ok()) continue;
    EXPECT_EQ(queued.error().code, ErrorCode::kNoCapacity);
    EXPECT_NE(queued.error().message.find("512"), std::string::npos);
    return count;
  }
}

TEST(Scheduler, NobodyFillsTheQueueAndItsLimitIsNamed) {
  Scheduler scheduler;
  EXPECT_EQ(fill(scheduler, "a", 1), 342u) << "two thirds of 512";
  EXPECT_EQ(fill(scheduler, "a", 1'000), 0u);
  EXPECT_EQ(fill(scheduler, "b", 2'000), 114u) << "two thirds of what was left";
  std::uint32_t others = 0;
  for (std::uint64_t id = 3'000; id < 4'000; ++id) {
    others += fill(scheduler, std::to_string(id), id * 1'000);
  }
  EXPECT_EQ(scheduler.waiting(), limits::kWaitingSequences);
  EXPECT_EQ(others, limits::kWaitingSequences - 342 - 114);
  // Whose wait is over gives the place back.
  scheduler.remove_waiting(SequenceId(1));
  EXPECT_EQ(fill(scheduler, "a", 10'000'000), 0u) << "it still has most of them";
  EXPECT_EQ(fill(scheduler, "c", 20'000'000), 1u);
}

TEST(Scheduler, WhatFitsNowhereIsTakenOutOfTheWay) {
  Scheduler scheduler;
  ASSERT_TRUE(scheduler.enqueue(new_sequence(1, 100, 100)).ok());
  ASSERT_TRUE(scheduler.enqueue(new_sequence(2, 1, 1)).ok());
  EXPECT_FALSE(scheduler.pop_unfit()) << "nothing serves: wait";
  scheduler.add_pool(Epoch(1), 4, 32, {"a", "b"});
  EXPECT_EQ(scheduler.pop_unfit()->id, SequenceId(1));
  EXPECT_FALSE(scheduler.pop_unfit());
  EXPECT_EQ(scheduler.admit()->id, SequenceId(2));
  EXPECT_NE(scheduler.fits_somewhere(*new_sequence(3, 128, 1)).error().message.find("room for 128"),
            std::string::npos);
  EXPECT_TRUE(scheduler.fits_somewhere(*new_sequence(3, 127, 1)).ok());
}

std::shared_ptr<Sequence> trusting(std::uint64_t id, std::uint32_t prompt,
                                   std::vector<std::string> nodes) {
  auto made = new_sequence(id, prompt, 32);
  made->request.policy.trust = std::move(nodes);
  return made;
}

TEST(Scheduler, ATrustSetKeepsASequenceOffPipelinesWithAnyOtherNode) {
  Scheduler scheduler;
  scheduler.add_pool(Epoch(1), 9, 32, {"a", "b"});
  scheduler.add_pool(Epoch(2), 4, 32, {"b", "c"});
  const auto inside = trusting(1, 32, {"c", "x", "b"});
  EXPECT_TRUE(scheduler.fits_somewhere(*inside).ok());
  ASSERT_TRUE(scheduler.enqueue(inside).ok());
  EXPECT_EQ(scheduler.admit()->epoch, Epoch(2)) << "although the other has more room";
  for (const auto& nodes : {std::vector<std::string>{"b"}, {"a", "c"}, {"A", "B"}}) {
    const Status refused = scheduler.fits_somewhere(*trusting(2, 32, nodes));
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code, ErrorCode::kRefused);
  }
  EXPECT_EQ(scheduler.fits_somewhere(*trusting(2, 200, {"b", "c"})).error().code,
            ErrorCode::kNoCapacity)
      << "it may not use the larger pipeline";
}

TEST(Scheduler, APrivatePromptReachesNoNodeBelowItsLevel) {
  using ledger::Level;
  Scheduler scheduler;
  scheduler.add_pool(Epoch(1), 9, 32, {"a"});
  scheduler.add_pool(Epoch(2), 4, 32, {"b"});
  scheduler.set_standing(Epoch(1), Level::kProbation, false);
  scheduler.set_standing(Epoch(2), Level::kRegular, false);
  const auto at_least = [](std::uint64_t id, Level level) {
    auto made = new_sequence(id, 32, 32);
    made->request.policy.min_level = level;
    return made;
  };
  ASSERT_TRUE(scheduler.enqueue(at_least(1, Level::kRegular)).ok());
  EXPECT_EQ(scheduler.admit()->epoch, Epoch(2)) << "although the other has more room";
  EXPECT_TRUE(scheduler.may_all_run_on(Epoch(2), {"c"}, Level::kRegular));
  EXPECT_FALSE(scheduler.may_all_run_on(Epoch(2), {"c"}, Level::kProbation));
  EXPECT_FALSE(scheduler.others_have_room(Epoch(2))) << "only below its level";
  const Status refused = scheduler.fits_somewhere(*at_least(2, Level::kVeteran));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kRefused);
  EXPECT_NE(refused.error().message.find("min_level is veteran"), std::string::npos)
      << refused.error().message;
  EXPECT_NE(refused.error().message.find("at level regular"), std::string::npos)
      << refused.error().message;
  // It waits for its own, and a sequence that may go elsewhere does not wait for it.
  ASSERT_TRUE(scheduler.enqueue(at_least(3, Level::kRegular)).ok());
  ASSERT_TRUE(scheduler.enqueue(at_least(4, Level::kRegular)).ok());
  EXPECT_EQ(scheduler.admit()->id, SequenceId(3));
  ASSERT_TRUE(scheduler.enqueue(new_sequence(5, 32, 32)).ok());
  EXPECT_EQ(scheduler.admit()->epoch, Epoch(1));
  EXPECT_FALSE(scheduler.admit());
  scheduler.set_standing(Epoch(2), Level::kNewcomer, false);
  EXPECT_EQ(scheduler.pop_unfit()->id, SequenceId(4)) << "a verdict took the standing away";
}

TEST(Scheduler, WhatIsToBeVerifiedGoesWhereItCanBeAndToStanding) {
  using ledger::Level;
  Scheduler scheduler;
  scheduler.add_pool(Epoch(1), 90, 32, {"a"});
  scheduler.add_pool(Epoch(2), 40, 32, {"b"});
  scheduler.add_pool(Epoch(3), 4, 32, {"c"});
  scheduler.set_standing(Epoch(1), Level::kVeteran, false);
  scheduler.set_standing(Epoch(2), Level::kProbation, true);
  scheduler.set_standing(Epoch(3), Level::kRegular, true);
  const auto placed = [&](std::uint64_t id, Verify verify) {
    auto made = new_sequence(id, 32, 32);
    made->request.policy.verify = verify;
    EXPECT_TRUE(scheduler.enqueue(std::move(made)).ok());
    return scheduler.admit()->epoch;
  };
  EXPECT_EQ(placed(1, Verify::kNone), Epoch(1)) << "the most room";
  EXPECT_EQ(placed(2, Verify::kFull), Epoch(3));
  EXPECT_EQ(placed(3, Verify::kSpot), Epoch(3));
  EXPECT_EQ(placed(4, Verify::kFull), Epoch(2)) << "a preference: no sequence waits for it";
}

TEST(Scheduler, OnlyWhoeverMayNotGoThereIsOvertaken) {
  Scheduler scheduler;
  scheduler.add_pool(Epoch(1), 4, 32, {"a"});
  scheduler.add_pool(Epoch(2), 4, 32, {"b"});
  ASSERT_TRUE(scheduler.enqueue(trusting(1, 96, {"a"})).ok());
  const auto first = scheduler.admit();
  ASSERT_TRUE(scheduler.enqueue(trusting(2, 96, {"a"})).ok());
  ASSERT_TRUE(scheduler.enqueue(new_sequence(3, 64, 32)).ok());
  ASSERT_TRUE(scheduler.enqueue(new_sequence(4, 64, 32)).ok());
  ASSERT_TRUE(scheduler.enqueue(trusting(5, 1, {"b"})).ok());
  const auto third = scheduler.admit();
  EXPECT_EQ(third->id, SequenceId(3)) << "2 waits for a, and 3 went to b";
  EXPECT_EQ(third->epoch, Epoch(2));
  EXPECT_FALSE(scheduler.admit()) << "5 fits on b, but 4 came before it";
  scheduler.release(*first);
  EXPECT_EQ(scheduler.admit()->id, SequenceId(2));
}

TEST(Scheduler, WhoeverIsLeftOutsideByALossIsTakenOutOfTheQueue) {
  Scheduler scheduler;
  scheduler.add_pool(Epoch(1), 4, 32, {"a"});
  scheduler.add_pool(Epoch(2), 4, 32, {"b"});
  ASSERT_TRUE(scheduler.enqueue(new_sequence(1, 96, 32)).ok());
  ASSERT_TRUE(scheduler.enqueue(new_sequence(2, 96, 32)).ok());
  ASSERT_TRUE(scheduler.admit());
  ASSERT_TRUE(scheduler.admit());
  ASSERT_TRUE(scheduler.enqueue(new_sequence(3, 96, 32)).ok());
  ASSERT_TRUE(scheduler.enqueue(trusting(4, 1, {"b"})).ok());
  EXPECT_FALSE(scheduler.pop_unfit());
  scheduler.remove_pool(Epoch(2));
  EXPECT_EQ(scheduler.pop_unfit()->id, SequenceId(4)) << "though it is not the oldest";
  EXPECT_FALSE(scheduler.pop_unfit());
}

TEST(Scheduler, TheInterruptedComeFirstInTheirOrderAndWaitForNobodyElsesPipeline) {
  Scheduler scheduler;
  scheduler.add_pool(Epoch(1), 8, 32, {"a"});
  std::vector<std::shared_ptr<Sequence>> all;
  for (std::uint64_t id = 1; id <= 4; ++id) {
    all.push_back(new_sequence(id, 64, 64));
    ASSERT_TRUE(scheduler.enqueue(all.back()).ok());
  }
  for (int i = 0; i < 2; ++i) scheduler.admit()->admitted = true;
  std::vector<std::shared_ptr<Sequence>> lost = scheduler.remove_pool(Epoch(1));
  ASSERT_EQ(lost.size(), 2u);
  std::reverse(lost.begin(), lost.end());
  for (const auto& one : lost) one->interrupt(TimePoint{}, Duration{}, true);
  scheduler.requeue(lost);
  EXPECT_EQ(scheduler.interrupted(), (std::vector{all[0], all[1]}));
  scheduler.add_pool(Epoch(2), 2, 32, {"b"});  // too small for all of them
  EXPECT_EQ(scheduler.pop_unfit(), all[2]) << "who never ran does not wait for a larger one";
  EXPECT_EQ(scheduler.pop_unfit(), all[3]);
  EXPECT_FALSE(scheduler.pop_unfit());
  ASSERT_TRUE(scheduler.enqueue(new_sequence(5, 8, 8)).ok());
  EXPECT_EQ(scheduler.admit()->id, SequenceId(5)) << "no sequence ahead of it could ever run there";
  scheduler.add_pool(Epoch(3), 4, 32, {"c"});
  EXPECT_EQ(scheduler.admit(), all[0]);
  EXPECT_EQ(all[0]->epoch, Epoch(3));
  EXPECT_FALSE(scheduler.admit());
  EXPECT_EQ(scheduler.take_waiting().size(), 0u) << "of those that never ran";
  EXPECT_EQ(scheduler.waiting(), 1u);
}

TEST(Scheduler, ALostPipelineGivesUpItsSequencesOnly) {
  Scheduler scheduler;
  scheduler.add_pool(Epoch(1), 4, 32, {"a", "b"});
  scheduler.add_pool(Epoch(2), 4, 32, {"a", "b"});
  for (std::uint64_t id = 1; id <= 4; ++id) {
    ASSERT_TRUE(scheduler.enqueue(new_sequence(id, 32, 32)).ok());
    ASSERT_TRUE(scheduler.admit());
  }
  ASSERT_TRUE(scheduler.enqueue(new_sequence(5, 1, 1)).ok());
  const auto lost = scheduler.remove_pool(Epoch(1));
  ASSERT_EQ(lost.size(), 2u);
  for (const auto& one : lost) EXPECT_EQ(one->epoch, Epoch(1));
  EXPECT_EQ(scheduler.running(), 2u);
  EXPECT_EQ(scheduler.waiting(), 1u);
  EXPECT_FALSE(scheduler.find(lost[0]->id));
}

}  // namespace
}  // namespace hearth::coordinator
