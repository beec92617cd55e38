#include "cli/plan/stored_plan.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "model/synthetic.h"

namespace hearth::cli {
namespace {

using Json = nlohmann::json;

Json nodes_of(std::uint64_t memory) {
  return {{"batch_rows", 16},
          {"nodes",
           {{{"name", "den"},
             {"memory_bytes", memory},
             {"layer_seconds", {1e-3, 2e-3}},
             {"head_seconds", {1e-3, 2e-3}},
             {"step_seconds", 0.0}}}},
          {"links", Json::array()}};
}

struct StoredPlanTest : ::testing::Test {
  StoredPlanTest() { std::filesystem::create_directory(folder); }
  ~StoredPlanTest() override { std::filesystem::remove_all(folder); }

  std::string write(const std::string& name, std::uint32_t layers) const {
    model::SyntheticOptions options;
    options.layers = layers;
    const std::string path = (folder / name).string();
    EXPECT_TRUE(model::write_synthetic_model(path, options).ok());
    return path;
  }
  Json plan(const StoredPlan& wish) const {
    const auto text = plan_stored(wish);
    EXPECT_TRUE(text.ok()) << (text.ok() ? "" : text.error().message);
    return text.ok() ? Json::parse(*text) : Json();
  }

  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("hearth-stored-plan-" + std::to_string(getpid()));
};

TEST_F(StoredPlanTest, AnotherModelIsPlannedByTheRateOfTheMeasuredOne) {
  const std::string small = write("small.gguf", 4);
  const std::string large = write("large.gguf", 8);
  const std::string nodes = nodes_of(1'000'000'000).dump();
  const Json own = plan({small, nodes, small});
  const Json other = plan({large, nodes, small});
  EXPECT_EQ(own["pipelines"][0]["stages"][0]["node"], "den");
  EXPECT_EQ(other["pipelines"][0]["stages"][0]["layers"], Json({0, 8}));
  // Twice the layers of the same size: of the time, only the head is the same.
  const double seconds = own["pipelines"][0]["stages"][0]["seconds"];
  EXPECT_NEAR(seconds, 5e-3, 1e-6) << "the measured seconds stand";
  EXPECT_GT(other["pipelines"][0]["stages"][0]["seconds"].get<double>(), 8e-3 - 1e-6);
}

TEST_F(StoredPlanTest, SaysWhatTheNodesLack) {
  const std::string small = write("small.gguf", 4);
  const auto text = plan_stored({small, nodes_of(1'000).dump(), small});
  ASSERT_FALSE(text.ok());
  EXPECT_EQ(text.error().code, ErrorCode::kNoCapacity);
}

TEST(NodesByRate, RefusesWhatIsNotTheServers) {
  placement::Model model;
  model.layer_bytes = {1'000, 3'000};
  const auto rates = nodes_by_rate(nodes_of(9).dump(), model);
  ASSERT_TRUE(rates.ok());
  const Json node = Json::parse(*rates)["nodes"][0];
  EXPECT_EQ(node["weight_bytes_per_second"], Json({2e6, 1e6}));
  EXPECT_FALSE(node.contains("layer_seconds"));
  EXPECT_FALSE(nodes_by_rate("{", model).ok());
  EXPECT_FALSE(nodes_by_rate("{}", model).ok());
  Json zero = nodes_of(9);
  zero["nodes"][0]["layer_seconds"] = {0.0, 0.0};
  EXPECT_FALSE(nodes_by_rate(zero.dump(), model).ok());
}

}  // namespace
}  // namespace hearth::cli
