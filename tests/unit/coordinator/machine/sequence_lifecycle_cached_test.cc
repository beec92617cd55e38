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
  SequenceOpen submit(Origin origin) {
    GenerateRequest request{{1, 2, 3}, {}, false, {}};
    request.sampling.max_tokens = 8;
    request.origin = origin;
    owner = std::make_shared<Owner>();
    owner->prompt = 3;
    owner->id = swarm.machine->submit(std::move(request), owner)->value;
    EXPECT_TRUE(owner->admitted);
    const Ring& ring = swarm.rings.rbegin()->second;
    return decode_submit(swarm.data.sent[ring.first].back().payload, swarm.options.shape)->open;
  }
  void answer(TokenId token, std::uint32_t cached) {
    Ring& ring = swarm.rings.rbegin()->second;
    SampledToken one;
    one.sequence = SequenceId(owner->id);
    one.position = 3 + owner->tokens;
    one.token = token;
    swarm.data.receive(ring.last, FrameType::kTokens,
                       encode(StepTokens{Epoch(swarm.rings.rbegin()->first),
                                         StepId(ring.step++),
                                         {one},
                                         {},
                                         {},
                                         {{SequenceId(owner->id), cached}}}));
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

TEST_F(CachedPromptsTest, ShareWithNoneWhereTheServerHasNoCache) {
  EXPECT_FALSE(open(false).scope);
  answer(5, 2);
  EXPECT_EQ(owner->cached, 0U);
  EXPECT_EQ(owner->tokens, 0U);
}

// A stage that knew an audit by its open could compute rightly only then.
TEST_F(CachedPromptsTest, AuditsHaveScopesLikeClientsAndShareNothing) {
  serve(true);
  const auto client = submit(Origin::kClient).scope;
  const auto audit = submit(Origin::kAudit).scope;
  const auto canary = submit(Origin::kCanary).scope;
  ASSERT_TRUE(client && audit && canary);
  EXPECT_NE(audit, client);
  EXPECT_NE(canary, client);
  EXPECT_NE(audit, canary);
  EXPECT_EQ(swarm.machine->status().prefix_queries_total, 3U) << "the client's";
}

}  // namespace
}  // namespace hearth::coordinator
