#include "cli/models/pull_layers.h"

#include <gtest/gtest.h>

namespace hearth::cli {
namespace {

TEST(ParseLayers, BothEndsAreIncluded) {
  EXPECT_EQ(parse_layers("0-9"), (LayerRange{0, 10}));
  EXPECT_EQ(parse_layers("3"), (LayerRange{3, 4}));
  EXPECT_EQ(parse_layers("3-3"), (LayerRange{3, 4}));
  EXPECT_EQ(parse_layers("0-511"), (LayerRange{0, 512}));
  for (const char* text : {"", "-", "-1", "1-", "3-2", "1-2-3", "1 - 2", "x", "0-512", "4294967296",
                           "0-4294967296", "1--2", "+1"}) {
    EXPECT_FALSE(parse_layers(text).has_value()) << text;
  }
}

}  // namespace
}  // namespace hearth::cli
