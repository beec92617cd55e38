// The planner over the API.
#include <gtest/gtest.h>

#include "tests/unit/coordinator/http/routes/managed.h"

namespace hearth::coordinator::http {
namespace {

struct PlanRouteTest : ManagedTest {
  PlanRouteTest() {
    NodeStatus node;
    node.name = "desk";
    node.state = "serving";
    node.measured = placement::Node{"desk", 0.0, {1e-3, 2e-3}, {1e-3, 2e-3}, 5'000'000};
    port.swarm.nodes = {node};
    port.swarm.objective = placement::Objective::kThroughput;
    api->options.planner =
        Planner{[] {
                  return std::vector<StoredModel>{{"tiny", 7, true}, {"large", 9, false}};
                },
                [this](const PlanQuestion& question) {
                  asked.push_back(question);
                  return answer;
                }};
  }
  Json get(const std::string& path) { return ask("GET", path, "", Access::kState); }

  std::vector<PlanQuestion> asked;
  Result<std::string> answer = std::string(R"({"pipelines": [{"tokens_per_second": 5.5}]})");
};

TEST_F(PlanRouteTest, ListsTheModelsOfTheDisk) {
  const Json told = get("/api/v1/plan");
  ASSERT_EQ(told["models"].size(), 2u);
  EXPECT_EQ(told["models"][1], Json({{"id", "large"}, {"bytes", 9}, {"served", false}}));
}

TEST_F(PlanRouteTest, PlansForTheConnectedNodes) {
  const Json told = get("/api/v1/plan/large");
  ASSERT_EQ(status(), 200u) << told;
  EXPECT_EQ(told["fits"], true);
  EXPECT_EQ(told["plan"]["pipelines"][0]["tokens_per_second"], 5.5);
  EXPECT_EQ(told["measured_with"], "tiny");
  ASSERT_EQ(asked.size(), 1u);
  EXPECT_EQ(asked[0].model, "large");
  EXPECT_EQ(asked[0].objective, placement::Objective::kThroughput);
  EXPECT_EQ(Json::parse(asked[0].nodes)["nodes"][0]["name"], "desk");
  EXPECT_EQ(Json::parse(asked[0].nodes)["nodes"][0]["layer_seconds"][0], 1e-3);
}

TEST_F(PlanRouteTest, AModelThatDoesNotFitIsAnAnswer) {
  answer = Error{ErrorCode::kNoCapacity, "4 GB are missing"};
  const Json told = get("/api/v1/plan/large");
  EXPECT_EQ(status(), 200u);
  EXPECT_EQ(told["fits"], false);
  EXPECT_EQ(told["why"], "4 GB are missing");
}

TEST_F(PlanRouteTest, WhatCannotBePlannedIsRefused) {
  answer = Error{ErrorCode::kNotFound, "the server has no model of this name on its disk"};
  EXPECT_EQ(get("/api/v1/plan/../../etc/passwd")["error"]["code"], "model_not_found");
  EXPECT_EQ(status(), 404u);
  EXPECT_TRUE(api->slow_reads.empty()) << "the next one may be made";
  port.swarm.nodes[0].measured.reset();
  EXPECT_EQ(get("/api/v1/plan/large")["error"]["code"], "not_measured");
  EXPECT_EQ(asked.size(), 1u);
  api->options.planner.reset();
  EXPECT_EQ(get("/api/v1/plan/large")["error"]["code"], "no_planner");
  EXPECT_EQ(get("/api/v1/plan")["error"]["code"], "no_planner");
}

}  // namespace
}  // namespace hearth::coordinator::http
