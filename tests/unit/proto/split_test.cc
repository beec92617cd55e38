#include "proto/split.h"

#include <gtest/gtest.h>

namespace hearth {
namespace {

TEST(SplitLayers, CoversEveryLayerOnceAndEvenly) {
  for (std::uint32_t layers = 1; layers <= 90; ++layers) {
    for (std::uint32_t stages = 1; stages <= layers; ++stages) {
      const auto ranges = split_layers(layers, stages);
      ASSERT_EQ(ranges.size(), stages);
      std::uint32_t next = 0;
      for (const LayerRange& range : ranges) {
        EXPECT_EQ(range.begin, next);
        EXPECT_GE(range.size(), layers / stages);
        EXPECT_LE(range.size(), layers / stages + 1);
        next = range.end;
      }
      EXPECT_EQ(next, layers);
    }
  }
}

TEST(SplitLayers, GivesNoStageMoreThanFits) {
  const auto sizes = [](std::uint32_t layers, const std::vector<std::uint32_t>& most) {
    std::vector<std::uint32_t> sizes;
    for (const LayerRange& range : split_layers(layers, most)) sizes.push_back(range.size());
    return sizes;
  };
  using Sizes = std::vector<std::uint32_t>;
  EXPECT_EQ(sizes(10, {0, 0, 0}), (Sizes{4, 3, 3}));
  EXPECT_EQ(sizes(10, {0, 2, 0}), (Sizes{4, 2, 4}));
  EXPECT_EQ(sizes(10, {1, 2, 7}), (Sizes{1, 2, 7}));
  EXPECT_EQ(sizes(10, {1, 2, 6}), Sizes{});
  EXPECT_EQ(sizes(2, {9, 9}), (Sizes{1, 1}));
  for (std::uint32_t stages = 1; stages <= 20; ++stages) {
    EXPECT_EQ(split_layers(20, std::vector<std::uint32_t>(stages)), split_layers(20, stages));
  }
}

TEST(PagesFor, RoundsUpWithoutOverflow) {
  EXPECT_EQ(pages_for(0, 32), 0U);
  EXPECT_EQ(pages_for(1, 32), 1U);
  EXPECT_EQ(pages_for(32, 32), 1U);
  EXPECT_EQ(pages_for(33, 32), 2U);
  EXPECT_EQ(pages_for(0xFFFFFFFFU, 32), 0x8000000U);
}

}  // namespace
}  // namespace hearth
