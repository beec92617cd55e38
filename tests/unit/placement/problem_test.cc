#include "placement/problem.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/limits.h"

namespace hearth::placement {
namespace {

// Two nodes and four layers, in round numbers: times in seconds that are sums of tenths.
Problem small() {
  Problem problem;
  problem.model = {{100, 100, 100, 100}, 50, 70, 10, 2};
  problem.kv_tokens = 5;
  problem.batch_rows = 11;
  problem.nodes = {{"a", 0.1, {1.0, 2.0}, {0.5, 1.0}, 1'000},
                   {"b", 0.2, {2.0, 4.0}, {0.25, 0.5}, 1'000}};
  problem.links = {{}, {0.01, 100.0}, {0.02, 200.0}, {}};
  return problem;
}

const std::vector<Stage> kHalves = {{0, {0, 2}}, {1, {2, 4}}};

TEST(ProblemTest, AStageTakesItsLayersAndTheHeadWhereItIsLast) {
  const Problem problem = small();
  EXPECT_DOUBLE_EQ(stage_seconds(problem, kHalves[0], 1.0), 0.1 + 2.0);
  EXPECT_DOUBLE_EQ(stage_seconds(problem, kHalves[1], 1.0), 0.2 + 4.0 + 0.25);
  EXPECT_DOUBLE_EQ(stage_seconds(problem, kHalves[0], 11.0), 0.1 + 4.0);
  EXPECT_DOUBLE_EQ(stage_seconds(problem, kHalves[0], 6.0), 0.1 + 3.0);
  EXPECT_DOUBLE_EQ(stage_seconds(problem, kHalves[0], 21.0), 0.1 + 6.0);
}

TEST(ProblemTest, ALargerLayerTakesLonger) {
  Problem problem = small();
  problem.model.layer_bytes = {50, 50, 100, 200};
  EXPECT_DOUBLE_EQ(stage_seconds(problem, {0, {0, 2}}, 1.0), 0.1 + 1.0);
  EXPECT_DOUBLE_EQ(stage_seconds(problem, {1, {2, 4}}, 1.0), 0.2 + 6.0 + 0.25);
}

// Experts: a layer that holds as much as another, and reads less of it.
TEST(ProblemTest, TimeGoesByWhatARowReadsAndMemoryByWhatIsHeld) {
  Problem problem = small();
  problem.model.layer_bytes = {1000, 1000, 1000, 1000};
  problem.model.layer_read_bytes = {50, 50, 100, 200};
  EXPECT_DOUBLE_EQ(stage_seconds(problem, {0, {0, 2}}, 1.0), 0.1 + 1.0);
  EXPECT_DOUBLE_EQ(stage_seconds(problem, {1, {2, 4}}, 1.0), 0.2 + 6.0 + 0.25);
  EXPECT_GE(stage_bytes(problem, {1, 3}), 2000U);
}

void expect_refused(const Problem& problem, const std::string& word) {
  const Status status = check(problem);
  ASSERT_FALSE(status.ok()) << word;
  EXPECT_EQ(status.error().code, ErrorCode::kInvalidInput);
  EXPECT_NE(status.error().message.find(word), std::string::npos) << status.error().message;
}

// Heads of two sizes: KV of a stage is that of its own layers.
TEST(ProblemTest, LayersMayKeepUnequalKv) {
  Problem problem = small();
  problem.kv_tokens = 3;
  problem.model.kv_bytes = 2;
  const std::uint64_t equal = stage_bytes(problem, {1, 3});
  problem.model.layer_kv = {{2, 0}, {2, 0}, {7, 0}, {2, 0}};
  EXPECT_EQ(stage_bytes(problem, {1, 3}), equal + 3 * 5);
  EXPECT_EQ(problem.model.kv_of({0, 4}), (KvBytes{13, 0}));
  EXPECT_TRUE(check(problem).ok());
  const std::uint64_t weights = stage_bytes(problem, {2, 3}) - 3 * 7;
  problem.nodes[0].memory_bytes = weights + 21;
  EXPECT_TRUE(fits(problem, {0, {2, 3}}));
  problem.nodes[0].memory_bytes = weights + 20;
  EXPECT_FALSE(fits(problem, {0, {2, 3}}));
  problem.model.layer_kv[1].position = limits::kPlacedKvBytes + 1;
  expect_refused(problem, "the KV of a position in a layer takes");
  problem.model.layer_kv[1] = {0, limits::kPlacedBytes + 1};
  expect_refused(problem, "the state of a layer is");
  problem.model.layer_kv = {{2, 0}};
  expect_refused(problem, "4 layers and the KV of 1");
}

TEST(ProblemTest, AModelThatIsNotSplitHasOneStage) {
  Problem problem = small();
  problem.model.is_whole = true;
  problem.stages = 1;
  EXPECT_TRUE(check(problem).ok());
  problem.stages = 2;
  expect_refused(problem, "2 stages; one stage must hold every layer");
  problem.stages = 0;
  expect_refused(problem, "any number of stages; one stage must hold every layer");
}

TEST(ProblemTest, ARingIsItsStagesAndItsLinks) {
  const Problem problem = small();
  EXPECT_DOUBLE_EQ(ring_seconds(problem, kHalves, 1.0), 2.1 + 4.45 + 0.01 + 10.0 / 100.0 + 0.02);
  EXPECT_DOUBLE_EQ(ring_seconds(problem, {{0, {0, 4}}}, 1.0), 0.1 + 4.0 + 0.5);
}

TEST(ProblemTest, TheSlowestSetsThePace) {
  Problem problem = small();
  EXPECT_DOUBLE_EQ(pace_seconds(problem, kHalves, 11.0), 0.2 + 8.0 + 0.5);
  problem.links[1].bytes_per_second = 10.0;  // 11 rows of 10 bytes
  EXPECT_DOUBLE_EQ(pace_seconds(problem, kHalves, 11.0), 11.0);
  problem.links[1] = {100.0, 1e9};  // three steps are under way, and no more
  EXPECT_NEAR(pace_seconds(problem, kHalves, 11.0), (100.0 + 4.1 + 8.7 + 0.02) / 3.0, 1e-6);
}

TEST(ProblemTest, APredictionIsTheseFigures) {
  const Problem problem = small();
  const Prediction prediction = predict(problem, kHalves);
  EXPECT_DOUBLE_EQ(prediction.tokens_per_second, 1.0 / ring_seconds(problem, kHalves, 1.0));
  EXPECT_DOUBLE_EQ(prediction.all_tokens_per_second, 11.0 / 8.7);
  EXPECT_DOUBLE_EQ(prediction.prompt_tokens_per_second,
                   128.0 / pace_seconds(problem, kHalves, 128.0));
  EXPECT_EQ(prediction.streams, 33U);
  // a: (1000 - 250) / 4 positions, b: (1000 - 270) / 4.
  EXPECT_EQ(prediction.kv_tokens, 182U);
}

// Three steps of eleven rows would leave the second stage idle for two thirds of the time.
TEST(ProblemTest, MoreStepsInFlightHideALongLink) {
  Problem problem = small();
  problem.links[1].delay_seconds = 40.0;
  const StepTimes times = step_times(problem, kHalves);
  EXPECT_DOUBLE_EQ(times.at(5.0).ring, ring_seconds(problem, kHalves, 5.0));
  EXPECT_DOUBLE_EQ(times.at(5.0).slowest, stage_seconds(problem, kHalves[1], 5.0));
  const std::uint32_t steps = steps_of_sequences(times, 33);
  EXPECT_GT(steps, 3U);
  const Prediction prediction = predict(problem, kHalves);
  const double with_three = 33.0 / ring_seconds(problem, kHalves, 11.0);
  EXPECT_DOUBLE_EQ(
      prediction.all_tokens_per_second,
      33.0 / std::max(times.at(33.0 / steps).ring, steps * times.at(33.0 / steps).slowest));
  EXPECT_GT(prediction.all_tokens_per_second, with_three);
}

TEST(ProblemTest, RoomIsForWeightsAndTheKvThatIsWanted) {
  Problem problem = small();
  EXPECT_EQ(stage_bytes(problem, {0, 2}), 200U + 50U + 2U * 2U * 5U);
  EXPECT_EQ(stage_bytes(problem, {0, 4}), 400U + 120U + 2U * 4U * 5U);
  problem.nodes[0].memory_bytes = 270;
  EXPECT_TRUE(fits(problem, {0, {0, 2}}));
  problem.nodes[0].memory_bytes = 269;
  EXPECT_FALSE(fits(problem, {0, {0, 2}}));
  problem.nodes[0].memory_bytes = 1'000;
  problem.nodes[0].kv_budget_bytes = 20;
  EXPECT_TRUE(fits(problem, {0, {0, 2}}));
  EXPECT_EQ(predict(problem, kHalves).kv_tokens, 5U);
  problem.nodes[0].kv_budget_bytes = 19;
  EXPECT_FALSE(fits(problem, {0, {0, 2}}));
}

TEST(ProblemTest, FiguresOutsideAnyMeasurementAreRefused) {
  EXPECT_TRUE(check(small()).ok());
  for (const double bad : {std::nan(""), -1.0, 1e300, std::numeric_limits<double>::infinity()}) {
    Problem problem = small();
    problem.nodes[1].layer.one = bad;
    expect_refused(problem, "node b: the seconds of a layer");
    problem = small();
    problem.nodes[1].head.batch = bad;
    expect_refused(problem, "head");
    problem = small();
    problem.links[1].delay_seconds = bad;
    expect_refused(problem, "from a to b");
    problem = small();
    problem.links[2].bytes_per_second = bad;
    expect_refused(problem, "from b to a");
  }
  Problem problem = small();
  problem.nodes[0].layer.batch = 0.0;
  expect_refused(problem, "in a batch");
}

TEST(ProblemTest, SoAreSizesThatCannotBe) {
  Problem problem = small();
  problem.model.layer_bytes.clear();
  expect_refused(problem, "0 layers");
  problem = small();
  problem.model.layer_bytes[1] = 0;
  expect_refused(problem, "bytes of a layer are 0");
  problem = small();
  problem.model.layer_bytes[1] = ~std::uint64_t{0};
  expect_refused(problem, "bytes of a layer");
  problem = small();
  problem.model.layer_read_bytes = {1};
  expect_refused(problem, "4 layers and bytes read of 1");
  for (const std::uint64_t bad : {std::uint64_t{0}, problem.model.layer_bytes[2] + 1}) {
    problem.model.layer_read_bytes = problem.model.layer_bytes;
    problem.model.layer_read_bytes[2] = bad;
    expect_refused(problem, "bytes of a layer; it must read from 1 to the layer's");
  }
  problem = small();
  problem.kv_tokens = ~std::uint64_t{0};
  expect_refused(problem, "positions");
  problem = small();
  problem.stages = 5;
  expect_refused(problem, "5 stages need as many layers, and the model has 4");
  problem = small();
  problem.links.pop_back();
  expect_refused(problem, "pair");
  problem = small();
  problem.batch_rows = 1;
  expect_refused(problem, "batch");
  problem = small();
  problem.nodes[0].name.clear();
  expect_refused(problem, "name");
}

}  // namespace
}  // namespace hearth::placement
