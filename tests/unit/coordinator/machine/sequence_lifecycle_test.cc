// Submissions to the coordinator: what they are answered with.
#include <gtest/gtest.h>

#include "tests/unit/coordinator/machine/swarm.h"

namespace hearth::coordinator {
namespace {

struct SequenceLifecycleTest : ::testing::Test {
  Swarm swarm{2};
  std::vector<std::shared_ptr<Owner>> owners;

  void serve() {
    swarm.join("a");
    swarm.join("b");
    swarm.complete_all(8);  // of eight tokens
  }
  // One submission of so many sequences, all with prompts of two tokens.
  SubmitAnswer submit(const std::vector<std::uint32_t>& lengths, bool may_shorten = false,
                      const RequestPolicy& policy = {}) {
    std::vector<Submission> sequences;
    for (const std::uint32_t length : lengths) {
      GenerateRequest request{{1, 1}, {}, false, policy};
      request.sampling.max_tokens = length;
      request.may_shorten = may_shorten;
      owners.push_back(std::make_shared<Owner>());
      sequences.push_back({std::move(request), owners.back()});
    }
    return swarm.machine->submit(std::move(sequences));
  }
};

TEST_F(SequenceLifecycleTest, ASubmissionIsAnsweredWithItsBounds) {
  const SubmitAnswer early = submit({8});
  EXPECT_EQ(early.sequences.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(early.bounds.positions, swarm.options.shape.context) << "no pipeline serves yet";
  serve();
  const SubmitAnswer shortened = submit({1'000}, true);
  ASSERT_TRUE(shortened.sequences.ok());
  EXPECT_EQ(shortened.bounds.positions, 64U);
  EXPECT_EQ(shortened.max_tokens, std::vector<std::uint32_t>{62});
  EXPECT_TRUE(owners.back()->admitted);
  const SubmitAnswer exact = submit({62});
  ASSERT_TRUE(exact.sequences.ok());
  EXPECT_FALSE(owners.back()->admitted) << "it fits, and waits for room";
  EXPECT_EQ(exact.bounds.running, 1U);
  EXPECT_EQ(exact.bounds.waiting, 0U) << "before it came";
  const SubmitAnswer large = submit({63});
  EXPECT_EQ(large.sequences.error().code, ErrorCode::kInvalidInput) << "beyond the context";
  EXPECT_EQ(large.bounds.positions, 64U);
  EXPECT_EQ(large.bounds.waiting, 1U);
}

TEST_F(SequenceLifecycleTest, ASubmissionIsTakenWholeOrNotAtAll) {
  serve();
  EXPECT_FALSE(submit({8, 8, 63}).sequences.ok());
  for (const auto& owner : owners) EXPECT_FALSE(owner->admitted || owner->over);
  SwarmStatus status = swarm.machine->status();
  EXPECT_EQ(status.running + status.waiting, 0U);
  EXPECT_EQ(status.cancelled_total, 0U);
  const SubmitAnswer both = submit({8, 8});
  ASSERT_TRUE(both.sequences.ok());
  EXPECT_EQ(*both.sequences, (std::vector<SequenceId>{SequenceId(1), SequenceId(2)}));
  EXPECT_EQ(swarm.machine->status().running, 2U);
}

// The last places of the queue are not given to a part of a submission.
TEST_F(SequenceLifecycleTest, AFullQueueTakesNoPartOfASubmission) {
  serve();
  ASSERT_TRUE(submit({62}).sequences.ok());
  RequestPolicy policy;
  for (std::uint32_t i = 0; i + 1 < limits::kWaitingSequences; ++i) {
    policy.owner = "key " + std::to_string(i);
    ASSERT_TRUE(submit({62}, false, policy).sequences.ok());
  }
  policy.owner = "late";
  EXPECT_EQ(submit({62, 62}, false, policy).sequences.error().code, ErrorCode::kNoCapacity);
  EXPECT_EQ(swarm.machine->status().waiting, limits::kWaitingSequences - 1);
  EXPECT_TRUE(submit({62}, false, policy).sequences.ok());
}

TEST_F(SequenceLifecycleTest, VerificationThatIsImpossibleIsToldWithTheBounds) {
  serve();
  RequestPolicy policy;
  policy.verify = Verify::kFull;
  EXPECT_FALSE(submit({8}, false, policy).bounds.unverifiable.empty());
  EXPECT_TRUE(owners.back()->admitted);
}

}  // namespace
}  // namespace hearth::coordinator
