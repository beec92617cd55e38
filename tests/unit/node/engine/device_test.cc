#include "node/engine/device.h"

#include <gtest/gtest.h>

#include <string>

namespace hearth::node {
namespace {

// docs/gpu.md names the same.
TEST(Device, NamesWhatGpusRefuse) {
  std::string refused;
  for (const std::string_view name : model::known_families()) {
    const std::string_view part = what_no_card_computes(*model::find_family(name), 0);
    if (!part.empty()) refused += std::string(name) + " ";
  }
  for (const char* family :
       {"gemma2", "gemma4", "olmo2", "granite", "smollm3", "glm4", "phi3", "mistral3", "glm4moe",
        "deepseek2", "gpt-oss", "llama4", "qwen3moe", "qwen3next", "qwen35", "qwen35moe"}) {
    EXPECT_NE((" " + refused).find(std::string(" ") + family + " "), std::string::npos) << family;
  }
  for (const char* family : {"llama", "qwen2", "qwen3", "gemma3"}) {
    EXPECT_EQ((" " + refused).find(std::string(" ") + family + " "), std::string::npos) << family;
  }
  EXPECT_EQ(what_no_card_computes(*model::find_family("llama"), 8), "experts");
}

TEST(Device, NamesTheWeightsThatGpusRefuse) {
  using kernels::WeightType;
  for (const WeightType type : {WeightType::kF32, WeightType::kBF16, WeightType::kQ4_K,
                                WeightType::kIQ4_XS, WeightType::kQ8_0}) {
    EXPECT_TRUE(card_computes(type));
  }
  for (const WeightType type : {WeightType::kMXFP4, WeightType::kIQ2_XXS, WeightType::kIQ3_S,
                                WeightType::kIQ1_M, WeightType::kTQ2_0}) {
    EXPECT_FALSE(card_computes(type));
  }
}

}  // namespace
}  // namespace hearth::node
