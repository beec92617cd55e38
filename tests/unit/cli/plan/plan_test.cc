#include "cli/plan/plan.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli/plan/words.h"
namespace hearth::cli {
namespace {

using placement::Plan;
using placement::Problem;

// Eight layers that two cards hold together, and an old machine.
Problem problem() {
  Problem problem;
  problem.model = {std::vector<std::uint64_t>(8, 1'000'000), 0, 0, 1'000, 100};
  problem.kv_tokens = 1'000;
  problem.nodes = {{"den", 0.0, {1e-3, 2e-3}, {0.0, 0.0}, 5'000'000},
                   {"loft", 0.0, {1e-3, 2e-3}, {0.0, 0.0}, 5'000'000},
                   {"old\x1b[31m", 0.0, {1e-2, 4e-2}, {0.0, 0.0}, 5'000'000}};
  problem.links.assign(9, {1e-4, 1e9});
  return problem;
}

std::string all_of(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

TEST(PlanVerb, ShowsPlacementMemoryFiguresAndWhoIsSpare) {
  const Problem given = problem();
  const auto plans = placement::plan_replicas(given);
  ASSERT_TRUE(plans.ok());
  const std::string text = all_of(
      plan_lines(given, *plans, gain_texts(given, placement::improvements(given, plans->front()))));
  for (const char* part :
       {"8 layers, 8.0 MB of weights, KV for 1000 positions; planned for the latency of one stream",
        "STAGE", "1      den   0-3", "2      loft  4-7", "4.0 MB", "tokens/s for one stream",
        "48 streams together", "room for 2500 positions", "spare old\\x1b[31m: adding it makes",
        "what would make it faster:"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
}

TEST(PlanVerb, WhoStandsInTheSecondPipelineIsNoSpare) {
  Problem given = problem();
  given.nodes[0].memory_bytes = given.nodes[2].memory_bytes = 20'000'000;
  given.nodes[1].memory_bytes = 500'000;
  const auto plans = placement::plan_replicas(given);
  ASSERT_TRUE(plans.ok());
  ASSERT_EQ(plans->size(), 2U);
  const std::string text = all_of(plan_lines(given, *plans, {}));
  EXPECT_NE(text.find("a second pipeline, of spares:"), std::string::npos) << text;
  EXPECT_EQ(text.find("spare old"), std::string::npos) << text;
  EXPECT_NE(text.find("spare loft"), std::string::npos) << text;
  const auto json = nlohmann::json::parse(plan_json(given, *plans, {}));
  ASSERT_EQ(json["spares"].size(), 1U);
  EXPECT_EQ(json["spares"][0]["node"], "loft");
}

TEST(PlanVerb, AGroupStandsInOneRow) {
  Problem given = problem();
  given.model.exchanges = {1, 1'000, 0, 0.0};
  given.islands = {0, 0, placement::kNoIsland};
  const auto plans = placement::plan_replicas(given);
  ASSERT_TRUE(plans.ok());
  const std::string text = all_of(plan_lines(given, *plans, {}));
  // Half of each layer is half a millisecond; an exchange takes the delay of a tenth.
  EXPECT_NE(text.find("1      den+loft  0-7"), std::string::npos) << text;
  EXPECT_NE(text.find("10.0 MB"), std::string::npos) << text;
  EXPECT_NE(text.find("spare old"), std::string::npos) << text;
  EXPECT_EQ(text.find("spare loft"), std::string::npos) << text;
  const auto json = nlohmann::json::parse(plan_json(given, *plans, {}));
  const auto& group = json["pipelines"][0]["stages"][0]["group"];
  ASSERT_EQ(group.size(), 2U);
  EXPECT_EQ(group[1]["node"], "loft");
  EXPECT_EQ(group[1]["part"], 0.5);
}

TEST(PlanVerb, JsonHasTheSame) {
  const Problem given = problem();
  const auto plans = placement::plan_replicas(given);
  ASSERT_TRUE(plans.ok());
  const auto json = nlohmann::json::parse(plan_json(given, *plans, {"a"}));
  EXPECT_EQ(json["objective"], "latency");
  const auto& stages = json["pipelines"][0]["stages"];
  ASSERT_EQ(stages.size(), 2U);
  EXPECT_EQ(stages[1]["node"], "loft");
  EXPECT_EQ(stages[1]["layers"], nlohmann::json({4, 8}));
  EXPECT_EQ(stages[1]["weight_bytes"], 4'000'000);
  EXPECT_EQ(stages[1]["kv_bytes"], 400'000);
  EXPECT_EQ(json["pipelines"][0]["kv_tokens"], 2'500);
  EXPECT_EQ(json["spares"][0]["node"], "old\x1b[31m");
  EXPECT_EQ(json["improvements"][0], "a");
}

}  // namespace
}  // namespace hearth::cli
