#include "cli/plan/nodes_file.h"

#include <gtest/gtest.h>

namespace hearth::cli {
namespace {

const placement::Model kModel{{100, 300}, 50, 400, 10, 1};

const std::string kFile = R"({"batch_rows": 8,
  "nodes": [{"name": "den", "memory_bytes": 21e3,
             "kv_budget_bytes": 500, "layer_seconds": [0.001, 0.004],
             "head_seconds": [0.002, 0.003], "step_seconds": 0.00005},
            {"name": "attic", "memory_bytes": 8000, "weight_bytes_per_second": [2000, 1000]}],
  "links": [{"from": "den", "to": "attic", "seconds": 0.0001, "bytes_per_second": 110e6}],
  "link": {"seconds": 0.5, "bytes_per_second": 1000}})";

std::string with(const std::string& from, const std::string& to) {
  std::string text = kFile;
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(PlanNodes, WhatIsThereTwiceIsRefused) {
  const auto key = read_plan_nodes(
      with("\"memory_bytes\": 8000", "\"memory_bytes\": 8000, \"memory_bytes\": 9000"), kModel);
  ASSERT_FALSE(key.ok());
  EXPECT_EQ(key.error().message, "an object has \"memory_bytes\" twice");
  const std::string link =
      R"({"from": "den", "to": "attic", "seconds": 0.0001, "bytes_per_second": 110e6})";
  const auto twice = read_plan_nodes(with(link, link + ", " + link), kModel);
  ASSERT_FALSE(twice.ok());
  EXPECT_EQ(twice.error().message, "the link from \"den\" to \"attic\" is listed twice");
}

TEST(PlanNodes, ReadsNodesAndLinks) {
  const auto problem = read_plan_nodes(kFile, kModel);
  ASSERT_TRUE(problem.ok()) << problem.error().message;
  EXPECT_EQ(problem->batch_rows, 8U);
  ASSERT_EQ(problem->nodes.size(), 2U);
  EXPECT_EQ(problem->nodes[0].name, "den");
  EXPECT_EQ(problem->nodes[0].memory_bytes, 21'000U);
  EXPECT_EQ(problem->nodes[0].kv_budget_bytes, 500U);
  EXPECT_EQ(problem->nodes[1].kv_budget_bytes, placement::Node().kv_budget_bytes);
  EXPECT_EQ(problem->nodes[0].layer.batch, 0.004);
  EXPECT_EQ(problem->nodes[0].head.one, 0.002);
  EXPECT_EQ(problem->nodes[0].step_seconds, 0.00005);
  // A mean layer of 200 bytes and a head of 400.
  EXPECT_DOUBLE_EQ(problem->nodes[1].layer.one, 0.1);
  EXPECT_DOUBLE_EQ(problem->nodes[1].layer.batch, 0.2);
  EXPECT_DOUBLE_EQ(problem->nodes[1].head.batch, 0.4);
  EXPECT_EQ(problem->link(0, 1).delay_seconds, 0.0001);
  EXPECT_EQ(problem->link(0, 1).bytes_per_second, 110e6);
  EXPECT_EQ(problem->link(1, 0).delay_seconds, 0.5) << "that no line names";
}

TEST(PlanNodes, NodesOfOneIslandMayFormAGroup) {
  const auto none = read_plan_nodes(kFile, kModel);
  ASSERT_TRUE(none.ok());
  EXPECT_TRUE(none->islands.empty());
  const std::string one =
      with("\"memory_bytes\": 8000", "\"memory_bytes\": 8000, \"island\": \"x\"");
  const auto problem = read_plan_nodes(one, kModel);
  ASSERT_TRUE(problem.ok()) << problem.error().message;
  EXPECT_EQ(problem->islands, (std::vector<std::uint32_t>{placement::kNoIsland, 0}));
  const auto wrong = read_plan_nodes(
      with("\"memory_bytes\": 8000", "\"memory_bytes\": 8000, \"island\": 1"), kModel);
  ASSERT_FALSE(wrong.ok());
  EXPECT_EQ(wrong.error().message, "a node must have a string island");
}

TEST(PlanNodes, WithoutALinkForAllAPairMayHaveNone) {
  const auto problem = read_plan_nodes(
      with(",\n  \"link\": {\"seconds\": 0.5, \"bytes_per_second\": 1000}", ""), kModel);
  ASSERT_TRUE(problem.ok()) << problem.error().message;
  EXPECT_EQ(problem->link(1, 0).bytes_per_second, 0.0);
}

TEST(PlanNodes, RefusesWithTheFieldThatIsWrong) {
  const std::pair<std::string, std::string> cases[] = {
      {"", "not valid JSON"},
      {"{", "not valid JSON"},
      {"[]", "must be an object"},
      {"{}", "\"nodes\""},
      {with("\"batch_rows\": 8", "\"batch_rows\": 1"), "a batch has 1 rows; it must have 2"},
      {with("\"batch_rows\": 8", "\"batch_rows\": 1e9"), "batch_rows"},
      {with("\"batch_rows\": 8", "\"batch_rows\": 4294967296"), "a batch of 4294967296 rows"},
      {with("\"memory_bytes\": 8000", "\"memory_bytes\": 0"), "memory_bytes must be above 0"},
      {with("\"to\": \"attic\"", "\"to\": \"den\""), "from \"den\" to itself"},
      {with("\"batch_rows\": 8", "\"rows\": 8"), "\"rows\", which is not a known field"},
      {with("\"memory_bytes\": 8000", "\"memory_bytes\": -1"), "node \"attic\""},
      {with("\"memory_bytes\": 8000", "\"memory_bytes\": 1e30"), "memory_bytes"},
      {with("\"memory_bytes\": 8000", "\"memory_bytes\": 8000.5"), "a whole number memory_bytes"},
      {with("\"kv_budget_bytes\": 500", "\"kv_budget_bytes\": -5"), "kv_budget_bytes"},
      {with("[2000, 1000]", "[2000, 0]"), "above 0"},
      {with("[2000, 1000]", "[2000]"), "two numbers"},
      {with("[2000, 1000]", "[2000, 1e-300]"), "node attic: the seconds of a layer in a batch"},
      {with("\"step_seconds\": 0.00005", "\"weight_bytes_per_second\": [1, 1]"), "one of them"},
      {with("0.00005", "-1"), "the seconds of a step"},
      {with("\"attic\", \"memory", "\"den\", \"memory"), "two nodes"},
      {with("\"to\": \"attic\"", "\"to\": \"cellar\""), "\"cellar\" names a node that is not in"},
      {with("110e6", "0"), "above 0"},
      {with("110e6", "1e300"), "from den to attic"},
      {with("\"seconds\": 0.5", "\"second\": 0.5"), "is not a known field"},
  };
  for (const auto& [text, word] : cases) {
    const auto problem = read_plan_nodes(text, kModel);
    ASSERT_FALSE(problem.ok()) << text;
    EXPECT_EQ(problem.error().code, ErrorCode::kInvalidInput);
    EXPECT_NE(problem.error().message.find(word), std::string::npos)
        << problem.error().message << "\n"
        << text;
  }
}

TEST(PlanNodes, RefusesNodesWithoutEnd) {
  std::string text = "{\"nodes\": [{}";
  for (int i = 0; i < 2'000; ++i) text += ",{}";
  const auto problem = read_plan_nodes(text + "]}", kModel);
  ASSERT_FALSE(problem.ok());
  EXPECT_NE(problem.error().message.find("1024"), std::string::npos) << problem.error().message;
}

}  // namespace
}  // namespace hearth::cli
