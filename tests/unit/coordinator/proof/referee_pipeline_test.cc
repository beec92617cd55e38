#include "coordinator/proof/referee_pipeline.h"

#include <gtest/gtest.h>

#include "coordinator/proof/verdict_desk.h"
#include "tests/unit/coordinator/proof/audit_log.h"

namespace hearth::coordinator {
namespace {

using testing::ReceiptStage;

constexpr std::size_t kVerdict = 8;
const std::vector<TokenId> kTokens = {1, 2, 3, 4, 5, 6, 7};

// Three pipelines of the same cut, and nobody with all of the model.
struct RefereePipelineTest : ::testing::Test, testing::AuditLog {
  RefereePipelineTest() {
    begin(testing::receipt_pipeline(third, Epoch(6)));
    for (auto* list : {&stages, &others, &third}) {
      for (const ReceiptStage& one : *list) audits->verdicts().meet(one.node, one.key());
    }
  }
  // On whichever pipeline it is that the run names.
  void compute_there(const AuditRun& run, const std::vector<TokenId>& tokens = kTokens) {
    for (const auto& [epoch, pipeline] :
         std::map<int, std::vector<ReceiptStage>*>{{4, &stages}, {5, &others}, {6, &third}}) {
      if (pipeline->front().node != run.nodes.front()) continue;
      ReceiptRequest again = computed(run, tokens);
      again.epoch = Epoch(static_cast<std::uint64_t>(epoch));
      for (ReceiptStage& one : *pipeline) audits->take(one.node, one.claim(again));
      audits->over(again);
      pump();
    }
  }
  AuditRun next_run() {
    EXPECT_FALSE(runs.empty());
    const AuditRun run = runs.empty() ? AuditRun() : runs.front();
    if (!runs.empty()) runs.erase(runs.begin());
    return run;
  }
  // A request that is audited; its auditors are the pipeline that comes back.
  std::string dispute() {
    answer(request(1));
    const AuditRun audit = next_run();
    compute_there(audit);
    return audit.nodes.front();
  }
  void no_referee() {
    for (const VerdictDesk::Ask& ask : audits->verdicts().take_asks()) {
      audits->verdicts().found(ask.entry, Error{ErrorCode::kUnavailable, "this server has none"});
    }
    pump();
  }
  void lie(std::vector<ReceiptStage>& pipeline, const std::string& boundary = "one unit off") {
    for (ReceiptStage& one : pipeline) one.boundary = boundary;
  }
  std::string accused() const {
    for (const AuditDesk::Message& one : asked) {
      if (one.body.has_accusation()) return one.node;
    }
    return "";
  }
};

TEST_F(RefereePipelineTest, TwoAgainstOneFindTheWorkerFalse) {
  lie(stages);
  const std::string auditor = dispute();
  ASSERT_EQ(books.disputes().size(), 1u);
  no_referee();
  const AuditRun third_run = next_run();
  EXPECT_NE(third_run.nodes.front(), "a");
  EXPECT_NE(third_run.nodes.front(), auditor) << "none of the parties";
  EXPECT_TRUE(third_run.answer.empty()) << "like any other request";
  EXPECT_TRUE(audits->is_run(third_run.order.request)) << "it makes no receipts";
  compute_there(third_run);
  const AuditRun again = next_run();
  EXPECT_EQ(again.nodes.front(), "a") << "the worker computes it once more";
  compute_there(again);
  EXPECT_EQ(accused(), "a");
  audits->verdicts().take("a",
                          stage("a").plead(books.disputes()[0], ledger::Plea::kConceded, true));
  pump();
  ASSERT_EQ(of_kind(kVerdict), 1u);
  EXPECT_TRUE(books.disputes().empty());
  EXPECT_TRUE(books.standing(stages[0].key())->is_tombstoned());
  const std::string text(reinterpret_cast<const char*>(evidence.at(0).data()),
                         evidence.at(0).size());
  const auto& judge = third_run.nodes.front() == "c" ? others : third;
  EXPECT_NE(text.find("referee " + judge[0].key().hex()), std::string::npos) << "says whose word";
}

TEST_F(RefereePipelineTest, TwoAgainstOneFindTheAuditorFalse) {
  lie(others);
  lie(third, "something else");
  const std::string auditor = dispute();
  auto& judge = auditor == "c" ? third : others;
  lie(judge, stages[0].boundary);
  no_referee();
  compute_there(next_run());
  const AuditRun again = next_run();
  EXPECT_EQ(again.nodes.front(), auditor);
  compute_there(again);
  EXPECT_EQ(accused(), auditor);
}

TEST_F(RefereePipelineTest, ThreeResultsJudgeNobody) {
  lie(stages);
  const std::string auditor = dispute();
  lie(auditor == "c" ? third : others, "a third result");
  no_referee();
  compute_there(next_run());
  EXPECT_TRUE(runs.empty());
  EXPECT_EQ(accused(), "");
  EXPECT_EQ(audits->verdicts().open(), 0u);
  EXPECT_EQ(books.disputes().size(), 1u) << "it stays open";
}

TEST_F(RefereePipelineTest, WhoSampledOtherwiseIsFoundWithTheClaimedTokensFed) {
  answer(request(1));
  const std::vector<TokenId> own = {1, 2, 3, 4, 5, 9, 7};
  compute_there(next_run(), own);
  compute_there(next_run());
  ASSERT_EQ(books.disputes().size(), 1u);
  no_referee();
  const AuditRun generated = next_run();
  compute_there(generated, own);
  const AuditRun fed = next_run();
  EXPECT_EQ(fed.nodes, generated.nodes);
  EXPECT_EQ(fed.answer, std::vector<TokenId>{6}) << "what was claimed";
  compute_there(fed);
  const AuditRun again = next_run();
  EXPECT_EQ(again.nodes.front(), "a");
  compute_there(again);
  EXPECT_EQ(accused(), "b") << "the last stage";
}

TEST_F(RefereePipelineTest, WithoutAThirdItStaysOpen) {
  audits->end(Epoch(6));
  lie(stages);
  dispute();
  no_referee();
  EXPECT_TRUE(runs.empty());
  EXPECT_EQ(books.disputes().size(), 1u);
  EXPECT_EQ(audits->verdicts().open(), 0u);
}

TEST_F(RefereePipelineTest, WhoDoesNotComputeIsAskedAgainAFewTimes) {
  lie(stages);
  dispute();
  no_referee();
  for (std::uint32_t i = 0; i < RefereePipeline::kTries; ++i) {
    const AuditRun run = next_run();
    audits->give_up(run.order.request, "its pipeline was lost");
    EXPECT_FALSE(audits->is_run(run.order.request));
    later(RefereePipeline::kPause);
  }
  EXPECT_TRUE(runs.empty());
  EXPECT_EQ(audits->verdicts().open(), 0u) << "and then it stays open";
  EXPECT_EQ(books.disputes().size(), 1u);
}

TEST_F(RefereePipelineTest, ClaimsThatDoNotFitEachOtherAreNoFinding) {
  lie(stages);
  const std::string auditor = dispute();
  no_referee();
  auto& judge = auditor == "c" ? third : others;
  judge[1].boundary = "not what the first one sent";
  compute_there(next_run());
  EXPECT_TRUE(runs.empty()) << "nobody is judged by it";
  EXPECT_EQ(accused(), "");
}

}  // namespace
}  // namespace hearth::coordinator
