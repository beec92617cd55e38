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
  void pass(Duration time, const std::vector<std::string>& alive) {
    for (Duration passed{}; passed < time; passed += milliseconds(50)) {
      swarm.clock.advance(milliseconds(50));
      for (const std::string& name : alive) swarm.beat(name);
      swarm.machine->on_timer();
    }
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

// As where a cable is pulled for a moment: its client asks as if nothing had happened.
TEST_F(SequenceLifecycleTest, ARequestWaitsForASilentNodeThatMayReturn) {
  serve();
  pass(seconds(2), {"a"});
  ASSERT_FALSE(swarm.machine->status().ready) << "b is missed";
  const SubmitAnswer waits = submit({1'000}, true);
  ASSERT_TRUE(waits.sequences.ok()) << waits.sequences.error().message;
  EXPECT_FALSE(waits.bounds.serves);
  EXPECT_EQ(waits.max_tokens, std::vector<std::uint32_t>{62}) << "as of the pipeline that was";
  const SubmitAnswer large = submit({64});
  EXPECT_EQ(large.sequences.error().code, ErrorCode::kInvalidInput);
  const auto owner = owners.front();
  pass(seconds(18), {"a"});
  EXPECT_FALSE(owner->admitted || owner->over);
  swarm.join("b");
  swarm.complete_all(8);
  EXPECT_TRUE(owner->admitted);
  EXPECT_TRUE(submit({8}).bounds.serves);
}

TEST_F(SequenceLifecycleTest, ARequestEndsWhenTheSilentNodeDoesNotReturn) {
  serve();
  pass(seconds(2), {"a"});
  ASSERT_TRUE(submit({8}).sequences.ok());
  pass(seconds(21), {"a"});
  EXPECT_EQ(owners[0]->code, ErrorCode::kUnavailable);
  EXPECT_NE(owners[0]->message.find("worker b (stage 2 of 2"), std::string::npos)
      << owners[0]->message;
  EXPECT_EQ(swarm.machine->status().waiting, 0U);
  const SubmitAnswer late = submit({8});
  ASSERT_FALSE(late.sequences.ok()) << "the wait is over";
  EXPECT_EQ(late.sequences.error().code, ErrorCode::kUnavailable);
}

// Its supervisor may start it again.
TEST_F(SequenceLifecycleTest, ARequestWaitsForAWorkerThatFailedLately) {
  serve();
  swarm.control.lose(swarm.sessions["b"]);
  ASSERT_TRUE(submit({8}).sequences.ok());
  pass(seconds(18), {"a"});
  EXPECT_FALSE(owners[0]->over);
  swarm.join("b");
  swarm.complete_all(8);
  EXPECT_TRUE(owners[0]->admitted);
}

// As one that came after the loss does.
TEST_F(SequenceLifecycleTest, ARunningAnswerWaitsForAWorkerThatFailed) {
  serve();
  ASSERT_TRUE(submit({8}).sequences.ok());
  swarm.control.lose(swarm.sessions["b"]);
  pass(seconds(18), {"a"});
  EXPECT_FALSE(owners[0]->over);
  swarm.join("b");
  swarm.complete_all(8);
  pass(seconds(6), {"a", "b"});
  EXPECT_FALSE(owners[0]->over);
  EXPECT_EQ(swarm.machine->status().resumed_total, 1U);
}

TEST_F(SequenceLifecycleTest, ARequestWaitsWhileThePipelineForms) {
  swarm.join("a");
  EXPECT_FALSE(submit({8}).sequences.ok()) << "one of two";
  swarm.join("b");
  ASSERT_TRUE(submit({8}).sequences.ok());
  pass(seconds(12), {"a", "b"});
  EXPECT_FALSE(owners[1]->over);
  swarm.complete_all(8);
  EXPECT_TRUE(owners[1]->admitted);
}

TEST_F(SequenceLifecycleTest, ARequestThatIsToBeVerifiedWaitsWithoutAWordOfIt) {
  swarm.join("a");
  swarm.join("b");
  RequestPolicy policy;
  policy.verify = Verify::kFull;
  const SubmitAnswer waits = submit({8}, false, policy);
  ASSERT_TRUE(waits.sequences.ok());
  EXPECT_NE(waits.bounds.unverifiable.find("audits are off"), std::string::npos)
      << "which is so whatever pipeline comes";
}

// Its nodes died, and no client had an error.
TEST_F(SequenceLifecycleTest, AnAuditThatFailsIsNoFailedRequest) {
  serve();
  GenerateRequest request{{1, 1}, {}, false, {}};
  request.sampling.max_tokens = 8;
  request.origin = Origin::kAudit;
  const auto audit = std::make_shared<Owner>();
  ASSERT_TRUE(swarm.machine->submit(std::move(request), audit).ok());
  ASSERT_TRUE(submit({8}).sequences.ok());
  swarm.control.lose(swarm.sessions["b"]);
  pass(seconds(23), {"a"});
  EXPECT_TRUE(audit->failed);
  EXPECT_TRUE(owners[0]->failed);
  EXPECT_EQ(swarm.machine->status().finished_error_total, 1U);
}

struct ScoresTest : SequenceLifecycleTest {
  static SampledToken score(std::uint64_t id, Position position, TokenId token) {
    return {SequenceId(id), position, token, FinishReason::kNone, ErrorCode::kNumeric, -1.0F, {}};
  }
  // A prompt of three tokens, to be scored or not.
  std::shared_ptr<Owner> ask(bool scored) {
    GenerateRequest request{{1, 2, 3}, {}, false, {}};
    request.sampling.max_tokens = 8;
    request.score_prompt = scored;
    auto owner = std::make_shared<Owner>();
    owner->prompt = 3;
    owner->id = swarm.machine->submit(std::move(request), owner)->value;
    return owner;
  }
  void answer(std::vector<SampledToken> scores, std::vector<SampledToken> tokens = {}) {
    const PipelineStatus pipeline = swarm.machine->status().pipelines.front();
    Ring& ring = swarm.rings.at(pipeline.epoch.value);
    swarm.data.receive(
        ring.last, FrameType::kTokens,
        encode(StepTokens{
            pipeline.epoch, StepId(ring.step++), std::move(tokens), {}, std::move(scores)}));
  }
  SequenceOpen opened() {
    const Ring& ring = swarm.rings.rbegin()->second;
    return decode_submit(swarm.data.sent[ring.first].back().payload, swarm.options.shape)->open;
  }
};

TEST_F(ScoresTest, GoToTheirOwnerBeforeTheFirstToken) {
  serve();
  ask(false);
  EXPECT_TRUE(opened().scored.empty());
  const auto owner = ask(true);
  EXPECT_EQ(opened().scored, (std::vector<TokenId>{1, 2, 3}));
  answer({score(owner->id, 1, 2)});
  answer({score(owner->id, 2, 3)}, {score(owner->id, 3, 5)});
  ASSERT_EQ(owner->scores.size(), 2U);
  EXPECT_EQ(owner->scores[1], score(owner->id, 2, 3));
  EXPECT_EQ(owner->tokens, 1U);
  EXPECT_TRUE(swarm.machine->status().ready);
}

TEST_F(ScoresTest, AfterALossTheyAreAskedForUntilTheFirstTokenIsThere) {
  for (const bool has_token : {false, true}) {
    swarm.join("a");
    swarm.join("b");
    swarm.complete_all(8);
    const auto owner = ask(true);
    if (has_token)
      answer({score(owner->id, 1, 2), score(owner->id, 2, 3)}, {score(owner->id, 3, 5)});
    swarm.control.lose(swarm.sessions["b"]);
    swarm.join("b");
    swarm.complete_all(8);
    EXPECT_EQ(opened().scored.empty(), has_token);
    swarm.machine->cancel(SequenceId(owner->id));
    swarm.control.lose(swarm.sessions["a"]);
    swarm.control.lose(swarm.sessions["b"]);
  }
}

// What no stage that keeps the protocol says ends its pipeline, not the process.
TEST_F(ScoresTest, ThoseThatNobodyAskedForEndThePipeline) {
  using Make = std::function<std::vector<SampledToken>(std::uint64_t id, std::uint64_t unscored)>;
  const Make wrong[] = {
      [](auto id, auto) { return std::vector{score(id, 0, 1)}; },
      [](auto id, auto) { return std::vector{score(id, 3, 1)}; },
      [](auto id, auto) { return std::vector{score(id, 1, 7)}; },
      [](auto, auto unscored) { return std::vector{score(unscored, 1, 2)}; },
      [](auto, auto) { return std::vector{score(999, 1, 2)}; },
  };
  for (const Make& make : wrong) {
    swarm.join("a");
    swarm.join("b");
    swarm.complete_all(8);
    const auto plain = ask(false);
    const auto owner = ask(true);
    ASSERT_TRUE(swarm.machine->status().ready);
    answer(make(owner->id, plain->id));
    EXPECT_FALSE(swarm.machine->status().ready);
    EXPECT_TRUE(owner->scores.empty());
    for (const auto& each : {plain, owner}) swarm.machine->cancel(SequenceId(each->id));
    for (const char* name : {"a", "b"}) swarm.control.lose(swarm.sessions[name]);
  }
}

struct EmbeddingTest : ScoresTest {
  // A prompt of three tokens, to be embedded or not.
  std::shared_ptr<Owner> embed(std::uint32_t values) {
    GenerateRequest request{{1, 2, 3}, {}, false, {}};
    request.sampling.max_tokens = 1;
    request.embedding = values;
    auto owner = std::make_shared<Owner>();
    owner->prompt = 3;
    owner->id = swarm.machine->submit(std::move(request), owner)->value;
    return owner;
  }
  void told(std::vector<PromptEmbedding> embeddings, std::vector<SampledToken> tokens = {}) {
    const PipelineStatus pipeline = swarm.machine->status().pipelines.front();
    Ring& ring = swarm.rings.at(pipeline.epoch.value);
    StepTokens step{pipeline.epoch, StepId(ring.step++), std::move(tokens), {}};
    step.embeddings = std::move(embeddings);
    swarm.data.receive(ring.last, FrameType::kTokens, encode(step));
  }
  static SampledToken last(std::uint64_t id) {
    return {SequenceId(id), 3, 5, FinishReason::kLength, ErrorCode::kNumeric, 0.0F, {}};
  }
};

TEST_F(EmbeddingTest, GoesToItsOwnerWithTheOnlyToken) {
  serve();
  const auto owner = embed(2);
  EXPECT_EQ(opened().embedding, 2U);
  told({{SequenceId(owner->id), {0.6F, 0.8F}}}, {last(owner->id)});
  EXPECT_EQ(owner->embedding, (std::vector<float>{0.6F, 0.8F}));
  EXPECT_TRUE(owner->over && !owner->failed);
  EXPECT_TRUE(swarm.machine->status().ready);
}

TEST_F(EmbeddingTest, AuditsAreOpenedAsClientsRequestsAre) {
  serve();
  const auto audit = [this] {
    GenerateRequest request{{1, 2, 3}, {}, false, {}};
    request.sampling.max_tokens = 1;
    request.origin = Origin::kAudit;
    EXPECT_TRUE(swarm.machine->submit(std::move(request), std::make_shared<Owner>()).ok());
    return opened();
  };
  EXPECT_EQ(audit().embedding, 0U);
  embed(2);
  EXPECT_EQ(audit().embedding, 2U);
  GenerateRequest plain{{1, 2, 3}, {}, false, {}};
  plain.sampling.max_tokens = 1;
  plain.drafts = false;
  ASSERT_TRUE(swarm.machine->submit(std::move(plain), std::make_shared<Owner>()).ok());
  EXPECT_FALSE(audit().drafts);
  EXPECT_EQ(audit().embedding, 0U);
}

// What no stage that keeps the protocol says ends its pipeline, not the process.
TEST_F(EmbeddingTest, WhatNobodyAskedForEndsThePipeline) {
  using Say = std::function<void(EmbeddingTest&, std::uint64_t id, std::uint64_t plain)>;
  const Say wrong[] = {
      [](auto& t, auto id, auto) {
        t.told({{SequenceId(id), {1.0F}}});
      },
      [](auto& t, auto, auto plain) {
        t.told({{SequenceId(plain), {0.6F, 0.8F}}});
      },
      [](auto& t, auto, auto) {
        t.told({{SequenceId(999), {0.6F, 0.8F}}});
      },
      [](auto& t, auto id, auto) { t.told({}, {last(id)}); },
  };
  for (const Say& say : wrong) {
    swarm.join("a");
    swarm.join("b");
    swarm.complete_all(8);
    const auto plain = embed(0);
    const auto owner = embed(2);
    ASSERT_TRUE(swarm.machine->status().ready);
    say(*this, owner->id, plain->id);
    EXPECT_FALSE(swarm.machine->status().ready);
    EXPECT_TRUE(owner->embedding.empty());
    for (const auto& each : {plain, owner}) swarm.machine->cancel(SequenceId(each->id));
    for (const char* name : {"a", "b"}) swarm.control.lose(swarm.sessions[name]);
  }
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
