#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/limits.h"
#include "cli/plan/plan.h"
#include "cli/plan/words.h"

namespace hearth::cli {
namespace {

using placement::Problem;
using placement::RangePlan;

// Twenty cards that hold half of eight layers each, one far slower, and one that holds no layer.
Problem range_problem() {
  Problem problem;
  problem.model = {std::vector<std::uint64_t>(8, 1'000'000), 0, 0, 1'000, 100};
  problem.kv_tokens = 1'000;
  problem.objective = placement::Objective::kLatency;
  for (int i = 0; i < 20; ++i) {
    problem.nodes.push_back({"card-" + std::to_string(i), 0.0, {1e-3, 2e-3}, {0, 0}, 5'000'000});
  }
  problem.nodes.push_back({"old\x1b[31m", 0.0, {1e-2, 4e-2}, {0.0, 0.0}, 5'000'000});
  problem.nodes.push_back({"tiny", 0.0, {1e-3, 2e-3}, {0.0, 0.0}, 10});
  problem.links.assign(22 * 22, {1e-4, 1e9});
  return problem;
}

TEST(PlanRanges, ShowsRangesReplicasMemoryFiguresAndWhoIsSpare) {
  const Problem given = range_problem();
  ASSERT_GT(given.nodes.size(), limits::kExactNodes);
  const auto plan = placement::plan_ranges(given);
  ASSERT_TRUE(plan.ok());
  const auto chains = placement::plan_chains(given);
  ASSERT_TRUE(chains.ok());
  std::string text;
  for (const auto& line : range_plan_lines(
           given, *plan, *chains, gain_texts(given, placement::improvements(given, *plan)))) {
    text += line + "\n";
  }
  for (const char* part :
       {"8 layers, 8.0 MB of weights, KV for 1000 positions; planned for the latency of one stream",
        "RANGE  LAYERS  REPLICAS  WEIGHTS  KV", "1      0-3     10        4.0 MB   400 kB",
        "2      4-7     10        4.0 MB   400 kB", "tokens/s for one stream",
        "room for 25000 positions", "no placement of these 22 nodes gives more than",
        "a server forms 10 pipelines of these layers: 0-3, 4-7; ",
        "the fastest pipeline for one stream: card-", "NODE", "4.0 MB   400 kB  5.0 MB  4 ms",
        "spare old\\x1b[31m: a stream through it would be too slow",
        "spare tiny: its memory of 0.00 GB holds no layer",
        "what would make it faster:\n  machines twice as fast in place of the 20 machines like "
        "card-0"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
}

TEST(PlanRanges, JsonHasTheSame) {
  const Problem given = range_problem();
  const auto plan = placement::plan_ranges(given);
  ASSERT_TRUE(plan.ok());
  const auto chains = placement::plan_chains(given);
  ASSERT_TRUE(chains.ok());
  const auto json = nlohmann::json::parse(range_plan_json(given, *plan, *chains, {"a"}));
  EXPECT_EQ(json["pipelines"].size(), chains->pipelines.size());
  EXPECT_EQ(json["pipelines"][0]["stages"][1]["layers"], nlohmann::json({4, 8}));
  EXPECT_GT(json["pipelines_tokens_per_second"], 15'000.0);
  EXPECT_EQ(json["objective"], "latency");
  ASSERT_EQ(json["ranges"].size(), 2U);
  EXPECT_EQ(json["ranges"][1]["layers"], nlohmann::json({4, 8}));
  EXPECT_EQ(json["ranges"][1]["weight_bytes"], 4'000'000);
  EXPECT_EQ(json["ranges"][1]["kv_bytes"], 400'000);
  ASSERT_EQ(json["ranges"][1]["replicas"].size(), 10U);
  EXPECT_EQ(json["ranges"][1]["replicas"][0]["memory_bytes"], 5'000'000);
  EXPECT_EQ(json["way"].size(), 2U);
  // Ten replicas that take 8 ms for 16 rows.
  EXPECT_NEAR(json["all_tokens_per_second"], 20'000.0, 1.0);
  EXPECT_GE(json["all_tokens_per_second_bound"], 20'000.0);
  EXPECT_EQ(json["spares"][0]["node"], "old\x1b[31m");
  EXPECT_EQ(json["spares"][1]["node"], "tiny");
  EXPECT_EQ(json["improvements"][0], "a");
}

}  // namespace
}  // namespace hearth::cli
