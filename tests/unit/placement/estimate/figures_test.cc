#include "placement/estimate/figures.h"

#include <gtest/gtest.h>

namespace hearth::placement {
namespace {

Shape shape() {
  Shape shape;
  shape.layers = 3;
  shape.hidden = 10;
  shape.heads = 4;
  shape.kv_heads = 2;
  shape.head_dim = 5;
  shape.feed_forward = 7;
  shape.vocabulary = 100;
  return shape;
}

TEST(Figures, CountParametersOfADenseModel) {
  Shape dense = shape();
  // Queries and output 10 * 20 each, keys and values 10 * 10 each; gate, up and down 10 * 7 each.
  EXPECT_EQ(attention_parameters(dense), 600.0);
  EXPECT_EQ(layer_parameters(dense), 810.0);
  EXPECT_EQ(layer_parameters_used(dense), 810.0);
  EXPECT_EQ(layer_parameters_read(dense, 64.0), 810.0);
  EXPECT_EQ(parameters(dense), 3 * 810.0 + 2 * 1000.0);
  dense.tied = true;
  EXPECT_EQ(parameters(dense), 3 * 810.0 + 1000.0);
}

TEST(Figures, ReadMoreExpertsForMoreRows) {
  Shape mixture = shape();
  mixture.experts = 8;
  mixture.experts_used = 2;
  mixture.shared_feed_forward = 1;
  const double common = 600.0 + 30.0 + 80.0;  // attention, shared expert, router
  EXPECT_EQ(layer_parameters(mixture), common + 8 * 210.0);
  EXPECT_EQ(layer_parameters_used(mixture), common + 2 * 210.0);
  EXPECT_DOUBLE_EQ(layer_parameters_read(mixture, 1.0), common + 2 * 210.0);
  // Of two rows the second chooses one in four of the experts that the first did.
  EXPECT_DOUBLE_EQ(layer_parameters_read(mixture, 2.0), common + 3.5 * 210.0);
  EXPECT_NEAR(layer_parameters_read(mixture, 500.0), layer_parameters(mixture), 1e-6);
}

}  // namespace
}  // namespace hearth::placement
