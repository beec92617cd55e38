#include "placement/estimate/memory.h"

#include <gtest/gtest.h>

namespace hearth::placement {
namespace {

TEST(Memory, CountsBitsAndHeads) {
  EXPECT_EQ(weight_bytes(1000.0, 4.5), 562.5);
  Shape shape;
  shape.kv_heads = 3;
  shape.head_dim = 64;
  // A byte a value, two key scales and one value scale of four bytes.
  EXPECT_EQ(kv_bytes_int8(shape), 3 * (64 + 2 * 4 + 64 + 4));
}

}  // namespace
}  // namespace hearth::placement
