#include "coordinator/pipelines/hand_layers.h"

#include <gtest/gtest.h>

namespace hearth::cli {
namespace {

std::string refusal(const std::string& text) {
  const auto stages = parse_hand_layers(text);
  return stages.ok() ? "" : stages.error().message;
}

TEST(HandLayersTest, NodesInTheirOrderWithFirstAndLastLayer) {
  const auto stages = parse_hand_layers("den:0-9,an-attic:10-10,cellar:11-29");
  ASSERT_TRUE(stages.ok());
  ASSERT_EQ(stages->size(), 3U);
  EXPECT_EQ((*stages)[1].node, "an-attic");
  EXPECT_EQ((*stages)[0].layers, (LayerRange{0, 10}));
  EXPECT_EQ((*stages)[1].layers, (LayerRange{10, 11}));
  EXPECT_EQ((*stages)[2].layers, (LayerRange{11, 30}));
}

TEST(HandLayersTest, EveryLayerOnceAndEveryNodeOnce) {
  EXPECT_EQ(refusal("den:1-9"),
            "the layers of den must begin with 0 and end with that or a later one");
  EXPECT_NE(refusal("den:0-9,attic:9-12").find("begin with 10"), std::string::npos);
  EXPECT_NE(refusal("den:0-9,attic:11-12").find("begin with 10"), std::string::npos);
  EXPECT_NE(refusal("den:0-9,den:10-12"), "");
  EXPECT_NE(refusal("den:0-9,attic:10-9").find("attic"), std::string::npos);
}

TEST(HandLayersTest, WhatIsNoListOfThemIsRefused) {
  for (const char* text :
       {"", ",", "den", "den:", "den:0", "den:0-", "den:-1", "den:0-4294967295",
        "den:0-99999999999999999999", ":0-3", "den:0-3,", "d\nen:0-3", "den:0x1-3", "0-3:den"}) {
    EXPECT_NE(refusal(text), "") << text;
  }
}

}  // namespace
}  // namespace hearth::cli
