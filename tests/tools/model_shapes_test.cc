#include "tests/tools/model_shapes.h"

#include <gtest/gtest.h>

namespace hearth::cli {
namespace {

TEST(ModelShapes, AreThePublishedOnes) {
  const auto demo = model::synthetic_preset("demo");
  EXPECT_EQ(demo->hidden / demo->heads, 64U);
  EXPECT_EQ(demo->vocabulary, 49152U);
  const auto eight = model::synthetic_preset("8b");
  EXPECT_EQ(eight->feed_forward, 14336U);
  EXPECT_EQ(eight->layers, 32U);
  const auto seventy = model::synthetic_preset("70b");
  EXPECT_EQ(seventy->hidden, 8192U);
  EXPECT_EQ(seventy->layers, 80U);
  const auto mixture = model::synthetic_preset("30b-a3b");
  EXPECT_EQ(mixture->family, "qwen3moe");
  EXPECT_EQ(mixture->experts, 128U);
  EXPECT_EQ(mixture->experts_used, 8U);
  EXPECT_EQ(mixture->feed_forward, 768U);
  const auto gpt_oss = model::synthetic_preset("gpt-oss-20b");
  EXPECT_EQ(gpt_oss->family, "gpt-oss");
  EXPECT_EQ(gpt_oss->experts, 32U);
  EXPECT_EQ(gpt_oss->feed_forward_type, model::TensorType::kMXFP4);
  EXPECT_EQ(model::synthetic_preset("gpt-oss-120b")->experts, 128U);
  EXPECT_EQ(model::synthetic_preset("9b").error().message,
            "no shape is called '9b'; there are: tiny, demo, 8b, 70b, 8x7b, a2.7b, 30b-a3b, "
            "gpt-oss-20b, gpt-oss-120b, 106b-a12b, glm-4.7-flash, 80b-a3b, 35b-a3b");
}

}  // namespace
}  // namespace hearth::cli
