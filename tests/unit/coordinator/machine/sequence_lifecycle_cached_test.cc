// What stages tell of prompts that they had computed before.
#include <gtest/gtest.h>

#include "coordinator/scheduling/sequence.h"
#include "tests/unit/coordinator/machine/swarm.h"

namespace hearth::coordinator {
namespace {

struct CachedPromptsTest : ::testing::Test {
  Swarm swarm{2};
  std::shared_ptr<Owner> owner;  // of the sequence that was submitted last

  // A prompt of three tokens on a pipeline that serves.
  SequenceOpen open(bool shares) {
    serve(shares);
    return submit(Origin::kClient);
  }
  void serve(bool shares) {
    if (shares) swarm.options.cache_secret = Hash256();
    swarm.machine =
        Coordinator::start(swarm.options, swarm.clock, swarm.random, swarm.control, swarm.data);
    swarm.join("a");
    swarm.join("b");
    swarm.complete_all(8);
  }
  SequenceOpen submit(Origin origin, std::vector<TokenId> prompt = {1, 2, 3},
                      RequestPolicy policy = {}) {
    const auto length = static_cast<std::uint32_t>(prompt.size());
    GenerateRequest request{std::move(prompt), {}, false, std::move(policy)};
    request.sampling.max_tokens = 8;
    request.origin = origin;
    owner = std::make_shared<Owner>();
    owner->prompt = length;
    owner->id = swarm.machine->submit(std::move(request), owner)->value;
    EXPECT_TRUE(owner->admitted);
    const Ring& ring = swarm.rings.rbegin()->second;
    return decode_submit(swarm.data.sent[ring.first].back().payload, swarm.options.shape)->open;
  }
  void answer(TokenId token, std::uint32_t cached, bool last = false) {
    Ring& ring = swarm.rings.rbegin()->second;
    SampledToken one;
    one.sequence = SequenceId(owner->id);
    one.position = static_cast<Position>(owner->prompt + owner->tokens);
    one.token = token;
    if (last) one.finish = FinishReason::kStop;
    std::vector<SequenceId> released;
    if (last) released.push_back(SequenceId(owner->id));
    std::vector<CachedPrefix> told;
    if (cached > 0) told.push_back({SequenceId(owner->id), cached});
    swarm.data.receive(
        ring.last, FrameType::kTokens,
        encode(StepTokens{
            Epoch(swarm.rings.rbegin()->first), StepId(ring.step++), {one}, released, {}, told}));
  }
};

TEST_F(CachedPromptsTest, AreToldBeforeTheFirstTokenAndCounted) {
  EXPECT_EQ(open(true).scope, cache_scope(Hash256(), {}));
  answer(5, 2);
  EXPECT_EQ(owner->cached, 2U);
  EXPECT_EQ(owner->tokens, 1U);
  EXPECT_EQ(swarm.machine->status().prefix_queries_total, 3U);
  EXPECT_EQ(swarm.machine->status().prefix_hits_total, 2U);
  answer(6, 2);
  EXPECT_EQ(owner->tokens, 1U) << "a stage that tells it again breaks the protocol";
  EXPECT_EQ(swarm.machine->status().prefix_hits_total, 2U);
}

// Its last stage tells what it likes: what it gives away is the other stages'.
TEST_F(CachedPromptsTest, CountNoFurtherThanRequestsThatEndedBeganLikeThem) {
  serve(true);
  const std::vector<TokenId> prompt(40, 1);
  submit(Origin::kClient, prompt);
  answer(5, 39, true);
  EXPECT_EQ(owner->cached, 31U) << "no page of it was computed before";
  submit(Origin::kClient, prompt);
  answer(5, 39, true);
  EXPECT_EQ(owner->cached, 39U);
}

TEST_F(CachedPromptsTest, ShareWithNoneWhereTheServerHasNoCache) {
  EXPECT_FALSE(open(false).scope);
  answer(5, 2);
  EXPECT_EQ(owner->cached, 0U);
  EXPECT_EQ(owner->tokens, 0U);
}

// A stage that knew an audit by its open could compute rightly only then.
TEST_F(CachedPromptsTest, AnAuditHasTheScopeOfTheRequestThatItRepeats) {
  serve(true);
  const auto scope_of = [this](Origin origin, RequestPolicy policy) {
    const auto scope = submit(origin, {1, 2, 3}, std::move(policy)).scope;
    answer(5, 0, true);
    return scope;
  };
  RequestPolicy client;
  client.owner = "key";
  RequestPolicy audit;
  audit.owner = "the auditor";
  audit.cache_owner = "key";
  for (const CacheScope cache : {CacheScope::kKey, CacheScope::kShared, CacheScope::kOff}) {
    client.cache = audit.cache = cache;
    const auto scope = scope_of(Origin::kClient, client);
    EXPECT_EQ(scope.has_value(), cache != CacheScope::kOff);
    EXPECT_EQ(scope_of(Origin::kAudit, audit), scope);
  }
  EXPECT_EQ(swarm.machine->status().prefix_queries_total, 6U) << "the client's";
}

TEST_F(CachedPromptsTest, WhatAnAuditFindsIsNoClientsHit) {
  serve(true);
  const std::vector<TokenId> prompt(40, 1);
  submit(Origin::kClient, prompt);
  answer(5, 0, true);
  submit(Origin::kAudit, prompt);
  answer(5, 39, true);
  EXPECT_EQ(swarm.machine->status().prefix_queries_total, 40U);
  EXPECT_EQ(swarm.machine->status().prefix_hits_total, 0U);
}

}  // namespace
}  // namespace hearth::coordinator
