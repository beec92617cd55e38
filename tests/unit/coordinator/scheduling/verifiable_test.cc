#include "coordinator/scheduling/verifiable.h"

#include <gtest/gtest.h>

namespace hearth::coordinator {
namespace {

PipelineStatus pipeline(std::uint64_t epoch, std::string node, ledger::Level level,
                        std::uint64_t twin) {
  PipelineStatus out;
  out.epoch = Epoch(epoch);
  out.state = "serving";
  out.nodes = {std::move(node)};
  out.level = level;
  out.twins = {Epoch(twin)};
  return out;
}

TEST(VerifiableTest, TwoPipelinesThatThePolicyAllowsMustBeAlike) {
  std::vector<PipelineStatus> pipelines = {pipeline(1, "a", ledger::Level::kRegular, 2),
                                           pipeline(2, "b", ledger::Level::kProbation, 1)};
  RequestPolicy policy;
  const auto why = [&] { return why_unverifiable(AuditMode::kSpot, pipelines, policy); };
  EXPECT_EQ(why(), "");
  policy.min_level = ledger::Level::kRegular;
  EXPECT_NE(why(), "") << "the only pipeline that could audit is below min_level";
  policy.min_level = ledger::Level::kProbation;
  EXPECT_EQ(why(), "");
  policy.trust = {"a"};
  EXPECT_NE(why(), "");
  policy.trust = {"a", "b"};
  EXPECT_EQ(why(), "");
  pipelines[1].state = "forming";
  EXPECT_NE(why(), "");
  EXPECT_EQ(why_unverifiable(AuditMode::kOff, pipelines, policy),
            "audits are off on this server (--audit off)");
}

}  // namespace
}  // namespace hearth::coordinator
