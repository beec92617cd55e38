#include "coordinator/proof/audit_case.h"

#include <gtest/gtest.h>

#include <numeric>
#include <string>

#include "base/limits.h"
#include "proto/committed_sampling.h"
#include "tests/unit/coordinator/proof/receipt_stage.h"

namespace hearth::coordinator {
namespace {

constexpr std::uint32_t kWindow = limits::kWindowPositions;

Hash256 root(const std::string& what, std::uint32_t window) {
  return blake2b(as_bytes(what + std::to_string(window)));
}

// A request of two windows and some, on two stages: 3,000 prompt tokens, the others sampled.
struct AuditCaseTest : ::testing::Test {
  AuditCaseTest() {
    ReceiptRequest request = testing::receipt_request(1);
    request.prompt_tokens = 3'000;
    request.tokens.resize(2 * kWindow + 10);
    std::iota(request.tokens.begin(), request.tokens.end(), 0);
    request.sampling.max_tokens = 2 * kWindow + 10 - 3'000;
    kept = std::make_unique<AuditCase>(claimed_by, request);
  }

  // What the pipeline claims; `lie`: of the first stage's output, from that window on.
  static StageClaim claim(std::uint32_t window, std::uint16_t stage, std::uint32_t lie) {
    StageClaim claim;
    claim.positions = window < 2 ? kWindow : 9;
    const Hash256 between = root(window >= lie ? "lie" : "between", window);
    claim.in_root = stage == 0 ? root("tokens", window) : between;
    claim.out_root = stage == 0 ? between : root("tokens", window);
    return claim;
  }
  void add_all(std::uint32_t lie = 9) {
    for (std::uint32_t window = 0; window < 3; ++window) {
      for (std::uint16_t stage = 0; stage < 2; ++stage) add(window, stage, lie);
    }
  }
  void add(std::uint32_t window, std::uint16_t stage, std::uint32_t lie = 9) {
    const StageClaim said = claim(window, stage, lie);
    ledger::Receipt receipt;
    receipt.slot.stage = stage;
    receipt.slot.window = window;
    receipt.positions = said.positions;
    receipt.in_root = said.in_root;
    receipt.out_root = said.out_root;
    kept->add(100 + 10 * window + stage, receipt);
  }
  AuditCase::Run run(std::uint32_t lie = 9) const {
    AuditCase::Run run;
    run.pipeline = audited_by;
    run.tokens = kept->request().tokens;
    for (std::uint32_t window = 0; window < 3; ++window) {
      for (std::uint16_t stage = 0; stage < 2; ++stage) {
        run.windows[window].push_back(claim(window, stage, lie));
      }
    }
    return run;
  }

  std::shared_ptr<const ReceiptPipeline> claimed_by =
      std::make_shared<ReceiptPipeline>(testing::receipt_pipeline(testing::receipt_stages()));
  std::shared_ptr<const ReceiptPipeline> audited_by = std::make_shared<ReceiptPipeline>(
      testing::receipt_pipeline(testing::other_receipt_stages(), Epoch(5)));
  std::unique_ptr<AuditCase> kept;
};

TEST_F(AuditCaseTest, WaitsForAllReceiptsOfAllWindows) {
  for (std::uint32_t window = 0; window < 3; ++window) {
    for (std::uint16_t stage = 0; stage < 2; ++stage) {
      EXPECT_FALSE(kept->is_logged());
      add(window, stage);
    }
  }
  EXPECT_TRUE(kept->is_logged());
  EXPECT_EQ(kept->positions(), 2 * kWindow + 9);
  EXPECT_EQ(kept->entries(), (std::vector<std::uint64_t>{100, 101, 110, 111, 120, 121}));
  EXPECT_TRUE(kept->ended_by_itself());
}

TEST_F(AuditCaseTest, AgreesWindowByWindowAndStageByStage) {
  add_all();
  const auto findings = kept->judge(run(), nullptr);
  ASSERT_TRUE(findings);
  ASSERT_EQ(findings->all.size(), 6u);
  for (const auto& one : findings->all) EXPECT_TRUE(one.agrees);
  EXPECT_EQ(findings->all[5].entry, 121u);
}

// Its commitments do not say how many tokens it might have had.
TEST_F(AuditCaseTest, TheLastStageOfARequestThatItsClientEndedIsJudgedToo) {
  ReceiptRequest ended = kept->request();
  ended.sampling.max_tokens = 100'000;
  kept = std::make_unique<AuditCase>(claimed_by, ended);
  add_all();
  ASSERT_FALSE(kept->ended_by_itself());
  const AuditRun again = kept->generate({});
  EXPECT_EQ(again.sampling.max_tokens, kept->positions() - ended.prompt_tokens + 1);
  EXPECT_EQ(encode_committed(again.sampling), encode_committed(ended.sampling));
  const auto findings = kept->judge(run(), nullptr);
  ASSERT_TRUE(findings);
  ASSERT_EQ(findings->all.size(), 6u);
  for (const auto& one : findings->all) EXPECT_TRUE(one.agrees);
}

TEST_F(AuditCaseTest, NothingIsJudgedBehindTheFirstThatDiffers) {
  add_all(1);
  const auto findings = kept->judge(run(), nullptr);
  ASSERT_TRUE(findings);
  ASSERT_EQ(findings->all.size(), 3u);
  EXPECT_TRUE(findings->all[0].agrees && findings->all[1].agrees);
  EXPECT_EQ(findings->all[2].entry, 110u);
  EXPECT_FALSE(findings->all[2].agrees);
}

TEST_F(AuditCaseTest, SampledOtherwiseIsInTheWindowThatWasFedIt) {
  add_all();
  AuditCase::Run generated = run();
  (*generated.tokens)[kWindow + 3] = 7;
  EXPECT_FALSE(kept->same_tokens(generated));
  generated.windows[1][1]->out_root = root("other tokens", 1);
  const AuditCase::Run fed = run();
  const auto findings = kept->judge(generated, &fed);
  ASSERT_TRUE(findings);
  ASSERT_EQ(findings->all.size(), 4u) << "the first stage's three, and the last stage's one";
  EXPECT_EQ(findings->all[3].entry, 111u);
  EXPECT_FALSE(findings->all[3].agrees);
}

TEST_F(AuditCaseTest, ARunThatDoesNotAddUpIsNoAudit) {
  add_all();
  AuditCase::Run fewer = run();
  fewer.windows[2][0]->positions = 8;
  EXPECT_FALSE(kept->judge(fewer, nullptr));
  AuditCase::Run missing = run();
  missing.windows.erase(1);
  EXPECT_FALSE(missing.is_whole());
  EXPECT_FALSE(kept->judge(missing, nullptr));
}

TEST_F(AuditCaseTest, ClaimsFitEachOtherAndTheTokensThatCameOfThem) {
  add_all();
  AuditCase::Run fits = run();
  for (auto& [window, stages] : fits.windows) {
    const std::uint32_t first = window * kWindow;
    std::vector<std::uint32_t> tokens(stages[0]->positions);
    std::iota(tokens.begin(), tokens.end(), first);
    stages[0]->in_root = stages[1]->out_root = ledger::commit_tokens(
        kept->request().order.salt, first, tokens, encode_committed(kept->request().sampling));
  }
  EXPECT_TRUE(kept->check_whole(fits).ok());
  EXPECT_FALSE(kept->has_read_tokens(fits));
  AuditCase::Run torn = fits;
  torn.windows[2][1]->in_root = root("neither", 2);
  EXPECT_FALSE(kept->check_whole(torn).ok());
  AuditCase::Run other = fits;
  (*other.tokens)[kWindow + 3] = 7;
  EXPECT_FALSE(kept->check_whole(other).ok());
  EXPECT_FALSE(kept->has_read_tokens(other)) << "it commits to what no stage claimed";
  other.windows[1][1]->out_root = root("tokens", 1);
  EXPECT_TRUE(kept->has_read_tokens(other)) << "to what the log has";
  AuditCase::Run shorter = fits;
  shorter.tokens->resize(2 * kWindow);
  EXPECT_FALSE(kept->check_whole(shorter).ok());
}

TEST_F(AuditCaseTest, IsAskedForAgainFromItsPromptOrWithItsTokens) {
  add_all();
  const AuditRun generate = kept->generate({});
  EXPECT_EQ(generate.prompt.size(), 3'000u);
  EXPECT_EQ(generate.sampling, kept->request().sampling);
  const AuditRun feed = kept->feed({});
  EXPECT_EQ(feed.prompt, generate.prompt);
  EXPECT_EQ(feed.answer.size(), 2 * kWindow + 9 - 3'000u);
  EXPECT_EQ(feed.sampling.max_tokens, feed.answer.size() + 1);
}

TEST_F(AuditCaseTest, MayUseThePagesThatTheRequestMightAndNewcomersUseNone) {
  add_all();
  ReceiptRequest request = kept->request();
  const auto ordered = [&](bool checks) {
    const AuditCase one(claimed_by, request);
    ReceiptPipeline on = *claimed_by;
    on.checks = checks;
    return one.order(std::make_shared<const ReceiptPipeline>(on), false, 0).second;
  };
  request.policy.owner = "key";
  for (const CacheScope cache : {CacheScope::kKey, CacheScope::kShared, CacheScope::kOff}) {
    request.policy.cache = cache;
    EXPECT_EQ(ordered(false).cache, cache);
    EXPECT_EQ(ordered(false).cache_owner, "key");
    EXPECT_EQ(ordered(true).cache, CacheScope::kOff);
  }
  request.policy.cache_owner = "the canaries 1";
  EXPECT_EQ(ordered(false).cache_owner, "the canaries 1");
}

TEST_F(AuditCaseTest, APromptThatWasCutShortIsFedAsFarAsItCame) {
  add(0, 0);
  add(0, 1);
  ReceiptRequest cut = kept->request();
  cut.prompt_tokens = 5'000;
  cut.tokens.resize(5'000);
  AuditCase part(claimed_by, cut);
  ledger::Receipt receipt;
  receipt.positions = kWindow;
  part.add(1, receipt);
  EXPECT_FALSE(part.ended_by_itself());
  const AuditRun run = part.generate({});
  EXPECT_EQ(run.prompt.size(), kWindow);
  EXPECT_EQ(run.sampling.max_tokens, 1u);
}

}  // namespace
}  // namespace hearth::coordinator
