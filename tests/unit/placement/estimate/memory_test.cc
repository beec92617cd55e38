#include "placement/estimate/memory.h"

#include <gtest/gtest.h>

namespace hearth::placement {
namespace {

TEST(Memory, CountsBitsAndHeads) {
  EXPECT_EQ(weight_bytes(1000.0, 4.5), 562.5);
  EXPECT_EQ(kv_bytes_fp16(2, 64.0), 2 * 2 * 64.0 * 2);
  Shape shape;
  shape.kv_heads = 3;
  shape.head_dim = 64;
  // A byte a value, two key scales and one value scale of four bytes.
  EXPECT_EQ(kv_bytes_int8(shape), 3 * (64 + 2 * 4 + 64 + 4));
}

TEST(Memory, TrainsWithSixteenBytesAParameter) {
  const Training training = training_bytes(10.0, 7.0);
  EXPECT_EQ(training.total(), 10.0 * 16.0 + 7.0);
  EXPECT_EQ(training.optimizer, 120.0);
  EXPECT_EQ(activation_bytes(2.0, 3.0, 5.0, 7.0, 1.0), 2.0 * 3.0 * 5.0 * 7.0 * 34.0);
  EXPECT_EQ(activation_bytes(2.0, 3.0, 5.0, 7.0, 8.0), 2.0 * 3.0 * 5.0 * 7.0 * 13.0);
}

TEST(Memory, TakesWholeCards) {
  EXPECT_EQ(cards_for(160.0, 80.0), 2.0);
  EXPECT_EQ(cards_for(160.5, 80.0), 3.0);
}

}  // namespace
}  // namespace hearth::placement
