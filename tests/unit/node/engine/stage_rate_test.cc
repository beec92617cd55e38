#include "node/engine/stage_rate.h"

#include <gtest/gtest.h>

#include "model/synthetic.h"

namespace hearth::node {
namespace {

Result<StageRate> measured(std::uint32_t layers, std::uint32_t hidden,
                           const model::SyntheticOptions& given = {}) {
  model::SyntheticOptions synthetic = given;
  synthetic.layers = layers;
  synthetic.hidden = hidden;
  synthetic.feed_forward = 2 * hidden;
  TRY(const Bytes bytes, model::synthetic_model_bytes(synthetic));
  TRY(const auto file, model::GgufFile::parse(bytes, "synthetic"));
  TRY(const model::ModelSpec spec, model::ModelSpec::read(*file));
  return measure_stage_rate(file, spec, {});
}

// No figure is asserted: the machine does much else. What each must be is above or below another.
TEST(StageRateTest, ALayerTakesTimeAndABatchMore) {
  const auto rate = measured(6, 256);
  ASSERT_TRUE(rate.ok()) << rate.error().message;
  EXPECT_GT(rate->layer.one, 1e-6);
  EXPECT_LT(rate->layer.one, 1.0);
  EXPECT_GT(rate->layer.batch, rate->layer.one);
  EXPECT_GE(rate->step_seconds, 0.0);
  EXPECT_GE(rate->head.one, 0.0);
}

TEST(StageRateTest, ModelsOfOneAndTwoLayersAreMeasuredToo) {
  for (const std::uint32_t layers : {1U, 2U}) {
    const auto rate = measured(layers, 128);
    ASSERT_TRUE(rate.ok()) << rate.error().message;
    EXPECT_GT(rate->layer.one, 0.0);
  }
}

TEST(StageRateTest, AModelThatIsNotSplitIsMeasuredAsAWhole) {
  model::SyntheticOptions whole;
  whole.family = "gemma4";
  whole.layer_input = 32;
  const auto rate = measured(3, 128, whole);
  ASSERT_TRUE(rate.ok()) << rate.error().message;
  EXPECT_GT(rate->layer.one, 0.0);
  EXPECT_EQ(rate->head.one, 0.0);
}

}  // namespace
}  // namespace hearth::node
